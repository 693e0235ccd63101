"""Devices: what frontends talk to.

A frontend allocates, copies, loads PTX and launches through the small interface
:class:`Device`, and does not know whether the machine is in this process, in another one (a
grader's) or a real GPU.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from virtualgpu import codegen
from virtualgpu.machine.launch import Budget, Launch
from virtualgpu.machine.linker import LoadedModule
from virtualgpu.machine.memory import GlobalMemory
from virtualgpu.observers import instruments

Triple = tuple[int, int, int]


class Device(Protocol):
    """A machine that runs PTX. Addresses are ints; 0 is the null pointer."""

    name: str
    compute_capability: tuple[int, int]
    total_memory: int  # bytes

    def allocate(self, nbytes: int) -> int: ...

    def free(self, address: int) -> None: ...

    def write(self, address: int, data: np.ndarray) -> None: ...

    def read(self, address: int, nbytes: int) -> np.ndarray: ...

    def copy(self, target: int, origin: int, nbytes: int) -> None: ...

    def fill(self, address: int, byte: int, nbytes: int) -> None: ...

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> Any: ...

    def symbol(self, module: Any, name: str) -> tuple[int, int]: ...

    def launch(self, module: Any, entry: str, grid: Triple, block: Triple,
               parameters: list[bytes], shared_bytes: int = 0, cooperative: bool = False
               ) -> None: ...

    def synchronize(self) -> None: ...


class VirtualDevice:
    """The virtual GPU in this process.

    Parameters
    ----------
    total_memory : int
        Bytes of device memory; by default half of the host's, at most 16 GiB.
    budget : Budget
        What one launch may use.

    Notes
    -----
    Launches run one after the other, in the order in which they are issued: streams never
    overlap, so a missing synchronisation between streams is not found.
    """

    name = "Virtual GPU (CPU)"
    compute_capability = (9, 0)

    def __init__(self, total_memory: int | None = None, budget: Budget | None = None):
        self.total_memory = total_memory or _default_memory()
        self.memory = GlobalMemory(self.total_memory)
        self.budget = budget or Budget()
        self._lock = threading.RLock()

    def allocate(self, nbytes: int) -> int:
        """Raises OutOfMemory."""
        return self.memory.allocate(nbytes)

    def free(self, address: int) -> None:
        self.memory.free(address)

    def write(self, address: int, data: np.ndarray) -> None:
        """Host to device: the bytes of ``data`` in C order."""
        self.memory.write(address, data)
        for observer in instruments.observers():
            if hasattr(observer, "host_wrote"):
                observer.host_wrote(address, data.nbytes)

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """Device to host: a new uint8 array, shape (nbytes,)."""
        return self.memory.read(address, nbytes)

    def copy(self, target: int, origin: int, nbytes: int) -> None:
        """Device to device."""
        self.memory.copy(target, origin, nbytes)
        for observer in instruments.observers():
            if hasattr(observer, "host_copied"):
                observer.host_copied(target, origin, nbytes)

    def fill(self, address: int, byte: int, nbytes: int) -> None:
        self.memory.fill(address, byte, nbytes)
        for observer in instruments.observers():
            if hasattr(observer, "host_wrote"):
                observer.host_wrote(address, nbytes)

    def load(self, ptx: str | list[str], names: dict[str, str] | None = None) -> LoadedModule:
        """Parse and link PTX. Raises PTXSyntaxError, LinkError, UnsupportedInstruction."""
        return LoadedModule(self.memory, [ptx] if isinstance(ptx, str) else ptx, names)

    def symbol(self, module: LoadedModule, name: str) -> tuple[int, int]:
        """Address and bytes of a module's variable."""
        return module.address(name), module.size(name)

    def launch(self, module: LoadedModule, entry: str, grid: Triple, block: Triple,
               parameters: list[bytes], shared_bytes: int = 0, cooperative: bool = False
               ) -> None:
        """Run a kernel to its end. Raises what :class:`~virtualgpu.machine.launch.Launch` does."""
        with self._lock:
            schedule = instruments.new_schedule()
            launch = Launch(
                self.memory, module.program(entry, schedule.fine), grid, block, parameters,
                shared_bytes, cooperative, instruments.observers(), schedule, self.budget,
                native=codegen,
            )
            launch.run()

    def synchronize(self) -> None:
        """Nothing is ever in flight."""


def _default_memory() -> int:
    try:
        host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        host = 4 << 30
    return min(host // 2, 16 << 30)


_current: Device | None = None


def current() -> Device:
    """The device that frontends use; the first call makes a :class:`VirtualDevice`."""
    global _current
    if _current is None:
        _current = VirtualDevice()
    return _current


def set_current(device: Device | None) -> None:
    """Replace the device for the rest of the process (None: a fresh one at the next use)."""
    global _current
    _current = device


@contextmanager
def use(device: Device) -> Iterator[Device]:
    """Frontends talk to ``device`` inside the ``with``."""
    global _current
    before, _current = _current, device
    try:
        yield device
    finally:
        _current = before
