"""Virtual GPU in this process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from virtualgpu import processors
from virtualgpu.devices import changeover
from virtualgpu.devices.protocol import Triple
from virtualgpu.errors import VirtualGPUError
from virtualgpu.kernel_lines import delivery
from virtualgpu.launch import filling
from virtualgpu.launch.conditions import Conditions
from virtualgpu.launch.launch import Launch, NativeCode
from virtualgpu.launch.limits import Budget
from virtualgpu.launch.linker import LoadedModule
from virtualgpu.memory import part_view, textures
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.memory.textures import Sampler, Texels
from virtualgpu.watch import instruments, queues
from virtualgpu.watch.overflowcheck import follows_indices

if TYPE_CHECKING:
    from virtualgpu.tile.module import TileModule

VARIABLE = "VIRTUALGPU_DEVICES"
VISIBLE = "CUDA_VISIBLE_DEVICES"


class VirtualDevice:
    """Virtual GPU in this process; a :class:`~virtualgpu.devices.protocol.SharedDevice`.

    Parameters
    ----------
    total_memory : int
        Bytes of device memory; by default half of the host's, at most 16 GiB.
    budget : Budget, optional
        Limits of one launch; by default ``Budget()``, whose time limit is read at each launch.
    memory : GlobalMemory, optional
        Existing memory for the device (:func:`several`).

    Attributes
    ----------
    compiles : bool
        Compile long-running kernels to native code (:mod:`virtualgpu.native`). Switch it off for
        untrusted PTX, because LLVM is not designed for untrusted input.
    cores : int
        Number of processor cores on which native code runs the blocks of a launch; by default all
        that are available (:func:`virtualgpu.processors.wanted`).

    Notes
    -----
    Launches run one after the other, in the order in which they are issued. Streams never overlap,
    so only ``check(streams=True)`` finds a missing synchronisation.
    """

    name = "Virtual GPU (CPU)"
    compute_capability = (9, 0)
    shares_memory = True

    def __init__(
        self,
        total_memory: int | None = None,
        budget: Budget | None = None,
        memory: GlobalMemory | None = None,
    ):
        self.total_memory = total_memory or _default_memory()
        self.memory = memory or GlobalMemory(self.total_memory)
        self.budget = budget
        self.compiles = True
        self.cores = processors.wanted()
        self._lock = threading.RLock()

    # -- memory --------------------------------------------------------------------------------

    @property
    def _used(self) -> GlobalMemory:
        """Return the memory, and record that this host thread changes it.

        :func:`~virtualgpu.memory.snapshot.can_be_taken_back` needs this record.
        """
        self.memory.callers.add(threading.current_thread())
        return self.memory

    def allocate(self, nbytes: int, *, poison: bool = True) -> int:
        """Allocate bytes. Raises OutOfMemory."""
        return self._used.allocate(nbytes, poison=poison)

    def free(self, address: int) -> None:
        self._tell_freed(address)
        self.memory.free(address)

    def retire(self, address: int) -> None:
        self._tell_freed(address)
        self.memory.retire(address)

    def _tell_freed(self, address: int) -> None:
        if instruments.watching() and (extent := self.memory.extent(address)) is not None:
            queues.tell("freed", target=extent[0], nbytes=extent[1] - extent[0])

    def revive(self, address: int, nbytes: int, *, poison: bool = True) -> None:
        self.memory.revive(address, nbytes, poison=poison)

    def write(self, address: int, data: np.ndarray) -> None:
        """Copy the bytes of ``data``, in C order, from host to device."""
        self._used.write(address, data)
        for observer in instruments.observers():
            observer.host_wrote(address, data.nbytes)

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Copy from device to host, into a new uint8 array of shape (nbytes,)."""
        return self.memory.read(address, nbytes)

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        """Copy from device to device."""
        self._used.copy(target, origin, nbytes)
        for observer in instruments.observers():
            observer.host_copied(target, origin, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self._used.fill(address, byte, nbytes)
        for observer in instruments.observers():
            observer.host_wrote(address, nbytes)

    # -- textures ------------------------------------------------------------------------------

    def create_texture(self, texels: Texels, sampler: Sampler) -> int:
        """Return the handle of a texture object, for :meth:`destroy`. Raises VirtualGPUError."""
        return textures.create_texture(self.memory, texels, sampler)

    def create_surface(self, texels: Texels) -> int:
        """Return the handle of a surface object, for :meth:`destroy`. Raises VirtualGPUError."""
        return textures.create_surface(self.memory, texels)

    def destroy(self, handle: int) -> None:
        """Destroy a texture or surface object."""
        textures.destroy(self.memory, handle)

    # -- memory that the host reaches ------------------------------------------------------------

    @property
    def allocated(self) -> int:
        return self.memory.allocated

    @property
    def heeds_writes(self) -> bool:
        return bool(self.memory.unwritten) or instruments.watching()

    def extent(self, address: int) -> tuple[int, int] | None:
        return self.memory.extent(address)

    def demand(self, address: int, nbytes: int, what: str) -> None:
        self.memory.demand(address, nbytes, what)

    def view(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: Any,
        strides: tuple[int, ...] | None = None,
    ) -> np.ndarray:
        found = self._used.mapping.view(address, shape, dtype, strides)
        if not self.memory.huge or (huge := self.memory.huge_at(address)) is None:
            return found
        return part_view.of(found, huge)

    def host_view(self, address: int, nbytes: int) -> np.ndarray:
        return self._used.host_view(address, nbytes)

    def address_of(self, host: int) -> int:
        return self.memory.mapping.address_of(host)

    def wrote(self, address: int, nbytes: int) -> None:
        self._used.wrote(address, nbytes)
        for observer in instruments.observers():
            observer.host_wrote(address, nbytes)

    # -- code ------------------------------------------------------------------------------------

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> LoadedModule:
        """Parse and link PTX. Raises PTXSyntaxError, LinkError, UnsupportedInstruction."""
        return LoadedModule(self.memory, [ptx] if isinstance(ptx, str) else ptx, names)

    def unload(self, module: LoadedModule | TileModule) -> None:
        module.unload()

    def load_tiles(self, bytecode: bytes) -> TileModule:
        """Parse and verify Tile IR. Raises BytecodeError, UnsupportedInstruction."""
        from virtualgpu.tile.module import TileModule  # takes a tenth of the time of activate()

        return TileModule(bytecode, self.memory)

    def launch_tiles(
        self, module: TileModule, entry: str, grid: Triple, parameters: list[bytes]
    ) -> None:
        """Run a tile kernel to its end.

        Raises the errors of :class:`~virtualgpu.tile.launch.TileLaunch`.
        """
        from virtualgpu.tile import check, counts, launch

        def run(conditions: Conditions) -> None:
            one = launch.TileLaunch(
                self.memory,
                module,
                entry,
                grid,
                parameters,
                [*check.watchers(conditions.observers), *counts.watchers(conditions.observers)],
                conditions.budget,
                conditions.sample,
            )
            with delivery.of_tiles(one.kernel_code, tried=conditions is not actual):
                one.run()

        with self._lock:
            actual = instruments.next_launch(self.budget or Budget())
            filling.fill_what_is_touched(self.memory, run, actual)
            run(actual)

    def symbol(self, module: LoadedModule, name: str) -> tuple[int, int]:
        """Return the address and size of a module's variable."""
        return module.address(name), module.size(name)

    def launch(
        self,
        module: LoadedModule,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        """Run a kernel to its end. Raises what :class:`~virtualgpu.launch.launch.Launch` raises."""

        def run(conditions: Conditions) -> None:
            program = module.program(entry, conditions.schedule.fine)
            if conditions.observers and follows_indices(conditions.observers):
                program = module.following(program, grid, block, parameters)
            one = Launch(
                self._used,
                program,
                grid,
                block,
                parameters,
                shared_bytes,
                cooperative,
                cluster,
                conditions,
                NativeCode(changeover.natively if self.compiles else None, self.cores),
            )
            with delivery.of_program(program, tried=conditions is not actual):
                one.run()

        with self._lock:
            actual = instruments.next_launch(self.budget or Budget())
            filling.fill_what_is_touched(self._used, run, actual)
            run(actual)

    def synchronize(self) -> None:
        """Do nothing, because every launch has already finished."""


def several(count: int) -> list[VirtualDevice]:
    """Return ``count`` virtual GPUs in this process, which share the memory of one.

    Each has its own range of addresses, so a pointer determines its device.
    """
    if count == 1:
        return [VirtualDevice()]
    capacity = _default_memory() // count
    memory, devices = None, []
    for _ in range(count):
        memory = GlobalMemory(capacity, before=memory, share=count)
        devices.append(VirtualDevice(capacity, memory=memory))
    return devices


def wanted() -> int:
    """Return the number of virtual GPUs: ``VIRTUALGPU_DEVICES``, or 1.

    Raises VirtualGPUError if the variable is not an integer from 1 to 16.
    """
    said = os.environ.get(VARIABLE, "").strip()
    if not said:
        return 1
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= 16):
        raise VirtualGPUError(
            f"{VARIABLE}={said!r}: the number of virtual GPUs must be a whole number from 1 to 16. "
            "Leave it out for one"
        )
    return int(said)


def visible(count: int) -> list[int]:
    """Return the virtual GPUs of ``count`` that ``CUDA_VISIBLE_DEVICES`` shows, in its order.

    The rules are those of the CUDA Programming Guide: a comma-separated list of numbers from 0,
    which ends at the first number without a device. "" and "-1" hide a real GPU but no virtual
    one. Raises VirtualGPUError if a list of numbers leaves no device.
    """
    said = os.environ.get(VISIBLE, "")
    if said.strip() in ("", "-1", "NoDevFiles"):
        return list(range(count))
    seen: list[int] = []
    for one in map(str.strip, said.split(",")):
        if not (one.isascii() and one.isdigit() and int(one) < count and int(one) not in seen):
            break
        seen.append(int(one))
    if not seen:
        there = "one virtual GPU, number 0" if count == 1 else f"virtual GPUs 0 to {count - 1}"
        raise VirtualGPUError(
            f"{VISIBLE}={said!r} leaves no device: there is {there}. Unset it, or request more "
            f"with {VARIABLE} (1 to 16)"
        )
    return seen


def _default_memory() -> int:
    try:
        host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        host = 4 << 30
    return min(host // 2, 16 << 30)
