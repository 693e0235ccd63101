"""Tile IR in the driver API: loaded bytecode and its kernels (:mod:`virtualgpu.tile`)."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

from virtualgpu import devices
from virtualgpu.cuda.kernel_resources import Resources
from virtualgpu.errors import LaunchError, LinkError
from virtualgpu.tile import bytecode


def image(address: int) -> bytes:
    """Return the bytecode at an address, or empty bytes if there is none or it is inconsistent."""
    if ctypes.string_at(address, len(bytecode.MAGIC)) != bytecode.MAGIC:
        return b""
    size = bytecode.measured(lambda at: ctypes.c_ubyte.from_address(address + at).value)
    return ctypes.string_at(address, size) if size else b""


class TileCode:
    """Bytecode on a device. Raises BytecodeError, UnsupportedInstruction, LaunchError."""

    def __init__(self, raw: bytes, device: devices.Device):
        if not isinstance(device, devices.VirtualDevice):
            raise LaunchError(
                f"{device.name} cannot run Tile IR; the virtual GPU of this process can"
            )
        self.device = device
        self.loaded = device.load_tiles(raw)
        weakref.finalize(self, self.loaded.unload).atexit = False

    @property
    def entries(self) -> list[str]:
        return list(self.loaded.kernels)

    def function(self, name: str) -> Any:
        """Return a kernel. Raises LaunchError if there is no kernel of that name."""
        return self.loaded.kernel(name)

    def symbol(self, name: str) -> tuple[int, int]:
        raise LinkError(f"only kernels can access the variables of Tile IR ({name})")


class TileFunction:
    """A kernel over tiles, with the interface of :class:`~virtualgpu.cuda.function.CudaFunction`.

    The compiler chooses the number of threads in a block, so a launch passes (1, 1, 1).
    """

    uses = Resources(0, 0, 0, 0, 1, 0)
    dynamic_limit = carveout = 0
    large_clusters = False

    def __init__(self, code: TileCode, name: str):
        self.code, self.entry = code, name
        self.sizes = [one.element.size for one in code.function(name).parameters]

    @property
    def attributes(self) -> dict[str, int]:
        return {"max_threads_per_block": 1}

    @property
    def places(self) -> list[tuple[int, int]]:
        """Aligned offset and size in bytes of each parameter, in order."""
        found, offset = [], 0
        for size in self.sizes:
            offset = -(-offset // size) * size
            found.append((offset, size))
            offset += size
        return found

    def allow_dynamic(self, nbytes: int) -> None:
        """Do nothing, because the compiler decides where tiles are stored."""

    def run(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Run the kernel. Raises the kernel's errors."""
        x, y, z = grid
        self.code.device.launch_tiles(self.code.loaded, self.entry, (x, y, z), parameters)
