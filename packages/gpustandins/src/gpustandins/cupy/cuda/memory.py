"""Device memory: the pointers behind ``array.data``, and allocators.

Every array has its own allocation on the virtual GPU, with exactly its bytes and with guard zones
around them. A kernel that accesses memory past the end of an array is therefore detected, even
where CuPy's rounding to 512 bytes would hide it. The pool (:mod:`cupy.cuda._pool`) counts bytes as
CuPy does.
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

#: The legacy default stream, which waits for all other streams.
_LEGACY = SimpleNamespace(ptr=queues.LEGACY)


class OutOfMemoryError(MemoryError):
    """Error for too little device memory, or for reaching the limit of the pool.

    Parameters
    ----------
    size, total, limit : int
        The requested bytes, the bytes that the pool already holds (-1 if unknown) and its limit (0
        if none).
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
    """Bytes on a device: the address ``ptr`` (0 if empty) and ``size`` in bytes."""

    __slots__ = ("__weakref__", "_machine", "ptr", "size")

    def __init__(self, ptr: int, size: int, owner_machine=None):
        self.ptr, self.size = ptr, size
        self._machine = owner_machine or machine()

    def __int__(self) -> int:
        return self.ptr

    @property
    def device_id(self) -> int:
        """The number of the device that holds the bytes; 0 if that device no longer exists."""
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
        """Report to the checkers that an array operation wrote ``nbytes`` at ``start``."""
        self._machine.wrote(start, nbytes)


class Memory(BaseMemory):
    """Allocation that lives as long as this object (``cudaMalloc``).

    Parameters
    ----------
    size : int
        Bytes; the pointer is null if 0.
    """

    __slots__ = ()

    def __init__(self, size: int):
        owner = devices.current()  # this process may be unable to access it
        super().__init__(owner.allocate(size) if size else 0, size, owner)

    def __del__(self, ending=sys.is_finalizing):
        if not ending() and getattr(self, "ptr", 0):
            self._machine.free(self.ptr)


class UnownedMemory(BaseMemory):
    """Memory of another object, which it keeps alive.

    Parameters
    ----------
    ptr, size : int
        Device address and bytes.
    owner : object
        The object that owns the memory.
    device_id : int
        Ignored, because the address determines the device.
    """

    __slots__ = ("_owner",)

    def __init__(self, ptr: int, size: int, owner, device_id: int = -1):
        super().__init__(ptr, size, machine_of(ptr))
        self._owner = owner
        if size:
            self._machine.demand(ptr, size, "array over memory")


class MemoryPointer:
    """Address in an allocation: ``ptr`` (int) and ``mem`` (:class:`BaseMemory`)."""

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

    # The same operations in a stream, by default the current one.

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream=None) -> None:
        """Copy as :meth:`copy_from_device` does, in a stream."""
        if size:
            with queues.copying(stream_number(stream), self.ptr, src.ptr, size):
                devices.copy(self.ptr, src.ptr, size)

    def copy_from_host_async(self, mem, size: int, stream=None) -> None:
        """Copy as :meth:`copy_from_host` does, in a stream."""
        if size:
            with queues.copying(stream_number(stream), self.ptr, _host_address(mem), size):
                self.mem._machine.write(self.ptr, _host_bytes(mem, size))

    def copy_from_async(self, mem, size: int, stream=None) -> None:
        """Copy as :meth:`copy_from` does, in a stream."""
        if isinstance(mem, MemoryPointer):
            self.copy_from_device_async(mem, size, stream)
        else:
            self.copy_from_host_async(mem, size, stream)

    def copy_to_host_async(self, mem, size: int, stream=None) -> None:
        """Copy as :meth:`copy_to_host` does, in a stream."""
        if size:
            with queues.copying(stream_number(stream), _host_address(mem), self.ptr, size):
                _host_bytes(mem, size)[:] = self.mem._machine.read(self.ptr, size)

    def memset_async(self, value: int, size: int, stream=None) -> None:
        """Fill as :meth:`memset` does, in a stream."""
        if size:
            with queues.copying(stream_number(stream), self.ptr, 0, size):
                self.mem._machine.fill(self.ptr, value & 0xFF, size)


def stream_number(stream) -> int:
    """Return the handle of a stream argument of a CuPy function.

    The argument is an object with a ``ptr`` or None for the current stream. Raises AttributeError
    for others, such as Numba's streams and integers.
    """
    return (queues.chosen() or 0) if stream is None else int(stream.ptr)


def pointer_to(mem: BaseMemory, host: np.ndarray) -> MemoryPointer:
    """Return the device address of the first element of ``host``, which is a view of ``mem``."""
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
