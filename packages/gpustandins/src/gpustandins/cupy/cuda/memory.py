"""Device memory: pointers behind an array's ``.data``, and allocators.

Every array has an allocation of its own on the virtual GPU, of exactly its bytes and with guard
zones around it, so that a kernel that runs past an array's end is caught, also where CuPy's
rounding to 512 bytes would hide it. The pool (:mod:`cupy.cuda._pool`) counts bytes as CuPy does.
"""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np

from virtualgpu.standins.interface import devices, queues

from ._machine import machine, reached
from ._machine import owner as machine_of
from .device import Device

#: The stream that waits for all others, as an object.
_LEGACY = SimpleNamespace(ptr=queues.LEGACY)


class OutOfMemoryError(MemoryError):
    """No device memory left, or the pool's limit is reached.

    Parameters
    ----------
    size, total, limit : int
        Bytes asked for, bytes the pool holds already (-1: unknown) and its limit (0: none).
    """

    def __init__(self, size: int, total: int, limit: int = 0):
        self._size, self._total, self._limit = size, total, limit
        message = f"Out of memory allocating {size:,} bytes"
        if limit:
            message += f" (allocated so far: {total:,} bytes, limit set to: {limit:,} bytes)."
        elif total != -1:
            message += f" (allocated so far: {total:,} bytes)."
        super().__init__(message)

    def __reduce__(self):
        return type(self), (self._size, self._total, self._limit)


class BaseMemory:
    """Bytes on a device: ``ptr`` (int, 0 where empty), ``size`` (bytes)."""

    __slots__ = ("__weakref__", "_machine", "ptr", "size")

    def __init__(self, ptr: int, size: int, owner_machine=None):
        self.ptr, self.size = ptr, size
        self._machine = owner_machine or machine()

    def __int__(self) -> int:
        return self.ptr

    @property
    def device_id(self) -> int:
        """The number of the device that holds them; 0 of one that is no longer there."""
        known = devices.every()
        return known.index(self._machine) if self._machine in known else 0

    @property
    def device(self):
        return Device(self.device_id)

    def window(self, shape, dtype, offset: int = 0, strides=None) -> np.ndarray:
        """Return the bytes as a NumPy array that shares them."""
        if self.ptr == 0:
            return np.empty(shape, dtype)
        return reached(self._machine).view(self.ptr + offset, shape, dtype, strides)

    def wrote(self, start: int, nbytes: int) -> None:
        """Tell the checkers that array work wrote ``nbytes`` from address ``start``."""
        self._machine.wrote(start, nbytes)


class Memory(BaseMemory):
    """An allocation that lives as long as this object (``cudaMalloc``).

    Parameters
    ----------
    size : int
        Bytes; 0 gives the null pointer.
    """

    __slots__ = ()

    def __init__(self, size: int):
        owner = devices.current()  # also one whose memory only copies and kernels reach
        super().__init__(owner.allocate(size) if size else 0, size, owner)

    def __del__(self, ending=sys.is_finalizing):
        if not ending() and getattr(self, "ptr", 0):
            self._machine.free(self.ptr)


class UnownedMemory(BaseMemory):
    """Memory that another object owns, which is kept alive.

    Parameters
    ----------
    ptr, size : int
        Device address and bytes.
    owner : object
        Who owns it.
    device_id : int
        Ignored: an address says whose it is.
    """

    __slots__ = ("_owner",)

    def __init__(self, ptr: int, size: int, owner, device_id: int = -1):
        super().__init__(ptr, size, machine_of(ptr))
        self._owner = owner
        if size:
            self._machine.demand(ptr, size, "array over memory")


class MemoryPointer:
    """A place in an allocation: ``ptr`` (int), ``mem`` (:class:`BaseMemory`)."""

    __slots__ = ("mem", "ptr")

    def __init__(self, mem: BaseMemory, offset: int):
        self.mem, self.ptr = mem, mem.ptr + offset

    @property
    def device_id(self) -> int:
        return self.mem.device_id

    @property
    def device(self):
        return self.mem.device

    def __int__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<MemoryPointer {self.ptr:#x} device={self.device_id} mem={self.mem!r}>"

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> MemoryPointer:
        return self + -offset

    def copy_from_device(self, src: MemoryPointer, size: int) -> None:
        """Copy ``size`` bytes on the device."""
        self.copy_from_device_async(src, size, _LEGACY)

    def copy_from_host(self, mem, size: int) -> None:
        """Copy ``size`` bytes from the host address ``mem`` (int or ctypes.c_void_p)."""
        self.copy_from_host_async(mem, size, _LEGACY)
        queues.wait()

    def copy_from(self, mem, size: int) -> None:
        """Copy ``size`` bytes from a MemoryPointer or a host address."""
        if isinstance(mem, MemoryPointer):
            self.copy_from_device(mem, size)
        else:
            self.copy_from_host(mem, size)

    def copy_to_host(self, mem, size: int) -> None:
        """Copy ``size`` bytes to the host address ``mem``."""
        self.copy_to_host_async(mem, size, _LEGACY)
        queues.wait()

    def memset(self, value: int, size: int) -> None:
        """Set ``size`` bytes to ``value`` (0 to 255)."""
        self.memset_async(value, size, _LEGACY)

    # The same in a stream, the current one by default.

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream=None) -> None:
        """Copy as :meth:`copy_from_device` does."""
        if size:
            with queues.copying(stream_number(stream), self.ptr, src.ptr, size):
                devices.copy(self.ptr, src.ptr, size)

    def copy_from_host_async(self, mem, size: int, stream=None) -> None:
        """Copy as :meth:`copy_from_host` does."""
        if size:
            with queues.copying(stream_number(stream), self.ptr, _host_address(mem), size):
                self.mem._machine.write(self.ptr, _host_bytes(mem, size))

    def copy_from_async(self, mem, size: int, stream=None) -> None:
        """Copy as :meth:`copy_from` does."""
        if isinstance(mem, MemoryPointer):
            self.copy_from_device_async(mem, size, stream)
        else:
            self.copy_from_host_async(mem, size, stream)

    def copy_to_host_async(self, mem, size: int, stream=None) -> None:
        """Copy as :meth:`copy_to_host` does."""
        if size:
            with queues.copying(stream_number(stream), _host_address(mem), self.ptr, size):
                _host_bytes(mem, size)[:] = self.mem._machine.read(self.ptr, size)

    def memset_async(self, value: int, size: int, stream=None) -> None:
        """Fill as :meth:`memset` does."""
        if size:
            with queues.copying(stream_number(stream), self.ptr, 0, size):
                self.mem._machine.fill(self.ptr, value & 0xFF, size)


def stream_number(stream) -> int:
    """Return the handle of what CuPy's functions take as a stream.

    It is an object with a ``ptr``, which Numba's streams and numbers have not, or None for the
    current one. Raises AttributeError for others.
    """
    return (queues.chosen() or 0) if stream is None else int(stream.ptr)


def pointer_to(mem: BaseMemory, host: np.ndarray) -> MemoryPointer:
    """Return the device address of the first element of ``host``, a view of ``mem``."""
    if mem.ptr == 0 or host.size == 0:
        return MemoryPointer(_nothing(), 0)
    address = mem._machine.address_of(host.__array_interface__["data"][0])
    return MemoryPointer(mem, address - mem.ptr)


def _nothing() -> Memory:
    return Memory(0)


def _host_address(address) -> int:
    return address.value if isinstance(address, ctypes.c_void_p) else int(address)


def _host_bytes(address, nbytes: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(_host_address(address)), np.uint8)
