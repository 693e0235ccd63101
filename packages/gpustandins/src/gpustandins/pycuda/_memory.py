"""Device memory and host arrays: allocations, copies, page-locked and managed memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

from virtualgpu.standins.interface import current_shared, demand_plain, watched

from . import VIRTUAL
from ._context import need_context, number
from ._errors import LogicError, call


class DeviceAllocation:
    """Device memory, freed with its last reference; ``int(allocation)`` is its address."""

    _memory: Any = None

    def __init__(self, nbytes: int):
        need_context("cuMemAlloc")
        if nbytes <= 0:
            raise LogicError(f"cuMemAlloc failed: invalid argument ({nbytes} bytes)")
        with call("cuMemAlloc"):
            self._memory = self._allocate(int(nbytes))
        self.nbytes = int(nbytes)

    _allocate = cupy.cuda.Memory

    def free(self) -> None:
        """Free the memory now. Raises LogicError if it has already been freed."""
        if self._memory is None:
            raise LogicError(
                "device_allocation::free failed: invalid resource handle (it was already freed)"
            )
        self._memory = None

    def as_buffer(self, size: int, offset: int = 0):
        raise NotImplementedError(
            "DeviceAllocation.as_buffer: the host cannot access a device address here; copy the "
            "memory with pycuda.driver.memcpy_dtoh"
        )

    def __int__(self) -> int:
        return self._memory.ptr if self._memory is not None else 0

    __index__ = __int__


class PointerHolderBase:
    """Base class for user classes that represent a device address, given by ``get_pointer``."""

    def get_pointer(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}.get_pointer must return the address")

    def __int__(self) -> int:
        return self.get_pointer()

    __index__ = __int__


class _Described:
    """Memory that :func:`numpy.asarray` can wrap in an array."""

    def _describe(self, address: int, shape, dtype, order: str) -> None:
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "strides": np.empty(shape, dtype, order=order).strides,
            "data": (address, False),
        }


class ManagedAllocation(DeviceAllocation, _Described):
    """Memory shared by host and device, and the ``.base`` of the arrays in this memory."""

    _allocate = staticmethod(cupy.cuda.malloc_managed)

    def __init__(self, shape, dtype, order):
        demand_plain(dtype, "managed memory")
        super().__init__(_nbytes(shape, dtype))
        address = int(self)
        if VIRTUAL:  # the host cannot use a virtual device address
            self._view = current_shared("PyCUDA").host_view(address, self.nbytes)
            address = self._view.ctypes.data
        self._describe(address, shape, dtype, order)

    def get_device_pointer(self) -> int:
        return int(self)

    def attach(self, flags: int, stream=None) -> None:
        """Do nothing, because all streams share the memory."""


class HostAllocation(_Described):
    """Memory of page-locked and aligned arrays, which is their ``.base``."""

    def __init__(self, shape, dtype, order, alignment: int, pinned: bool = False):
        demand_plain(dtype, "a host array for copies")
        nbytes = _nbytes(shape, dtype)
        if pinned:
            self._raw = cupy.cuda.alloc_pinned_memory(nbytes)
            address = self._raw.ptr
        else:
            self._raw = np.empty(nbytes + alignment, np.uint8)
            address = self._raw.ctypes.data
            address += -address % alignment
        self._describe(address, shape, dtype, order)

    def free(self) -> None:
        """Do nothing, because the array over the memory may still be in use."""

    def get_device_pointer(self) -> int:
        raise LogicError(
            "cuMemHostGetDevicePointer failed: invalid argument (page-locked memory is not mapped "
            "here: use pycuda.driver.managed_empty, whose memory host and device share)"
        )


def _nbytes(shape, dtype) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


class mem_attach_flags:
    """Flags of :func:`managed_empty`."""

    GLOBAL, HOST, SINGLE = 1, 2, 4


class host_alloc_flags:
    """Flags of :func:`pagelocked_empty`."""

    PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4


def mem_alloc(nbytes: int) -> DeviceAllocation:
    """Allocate device memory.

    Raises MemoryError if there is too little, and LogicError for 0 bytes.
    """
    return DeviceAllocation(nbytes)


def mem_alloc_pitch(width: int, height: int, access_size: int) -> tuple[DeviceAllocation, int]:
    """Allocate ``height`` rows of ``width`` bytes; return the memory and the pitch in bytes."""
    pitch = -(-width // 512) * 512
    return DeviceAllocation(pitch * height), pitch


def mem_alloc_like(ary: np.ndarray) -> DeviceAllocation:
    return mem_alloc(ary.nbytes)


def mem_alloc_managed(nbytes: int, mem_flags: int = 1) -> ManagedAllocation:
    return ManagedAllocation((nbytes,), np.uint8, "C")


# -- copies -----------------------------------------------------------------------------------


def _copy(
    function: str, dest: Any, src: Any, size: int, kind: int, stream: Any, wait: bool = False
) -> None:
    """Copy with the driver's ``function`` in a stream, or immediately if ``wait`` is True."""
    need_context(function)
    if size:
        with call(function):
            if wait:
                runtime.memcpy(int(dest), int(src), size, kind)
            else:
                runtime.memcpyAsync(int(dest), int(src), size, kind, number(stream))


def _htod(dest: Any, src: Any, stream: Any = None, wait: bool = False, by="cuMemcpyHtoD") -> None:
    raw = _host_bytes(src, writeable=False)
    _copy(by, dest, _address(raw), raw.size, runtime.memcpyHostToDevice, stream, wait)


def _dtoh(dest: Any, src: Any, stream: Any = None, wait: bool = False) -> None:
    raw = _host_bytes(dest, writeable=True)
    _copy("cuMemcpyDtoH", _address(raw), src, raw.size, runtime.memcpyDeviceToHost, stream, wait)


def _address(raw: np.ndarray) -> int:
    return raw.__array_interface__["data"][0]


def memcpy_htod(dest: Any, src: Any) -> None:
    """Copy a host buffer (a contiguous array or bytes) to the device address ``dest``."""
    _htod(dest, src, wait=True)


def memcpy_dtoh(dest: Any, src: Any) -> None:
    """Copy from the address ``src`` to the contiguous host array ``dest``, in its full length."""
    _dtoh(dest, src, wait=True)


def memcpy_htod_async(dest: Any, src: Any, stream: Any = None) -> None:
    """Copy from the host to the device in a stream."""
    _htod(dest, src, stream)


def memcpy_dtoh_async(dest: Any, src: Any, stream: Any = None) -> None:
    """Copy from the device to the host in a stream."""
    _dtoh(dest, src, stream)


def memcpy_dtod_async(dest: Any, src: Any, size: int, stream: Any = None) -> None:
    """Copy within the device in a stream."""
    _copy("cuMemcpyDtoD", dest, src, int(size), runtime.memcpyDeviceToDevice, stream)


def memcpy_dtod(dest: Any, src: Any, size: int) -> None:
    """Copy ``size`` bytes on the device."""
    memcpy_dtod_async(dest, src, size)


def memcpy_peer(
    dest: Any, src: Any, size: int, dest_context: Any = None, src_context: Any = None
) -> None:
    """Copy ``size`` bytes between devices, which the addresses determine."""
    memcpy_dtod(dest, src, size)


def _fill(dtype: type[np.unsignedinteger]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return functions such as ``memset_d8`` for words of a type, without and with a stream."""
    bits = 8 * np.dtype(dtype).itemsize

    def started(dest: Any, data: int, count: int, stream: Any = None) -> None:
        values = np.full(count, dtype(data & ((1 << bits) - 1)))
        _htod(dest, values, stream, by=f"cuMemsetD{bits}")  # CuPy can only set bytes

    def done(dest: Any, data: int, count: int) -> None:
        started(dest, data, count)

    done.__name__, started.__name__ = f"memset_d{bits}", f"memset_d{bits}_async"
    done.__doc__ = f"Set ``count`` words of {bits // 8} bytes."
    started.__doc__ = f"Do the same as :func:`memset_d{bits}`, in a stream."
    return done, started


memset_d8, memset_d8_async = _fill(np.uint8)
memset_d16, memset_d16_async = _fill(np.uint16)
memset_d32, memset_d32_async = _fill(np.uint32)


def to_device(bf_obj: Any) -> DeviceAllocation:
    """Copy a host buffer to new device memory and return it."""
    raw = _host_bytes(bf_obj, writeable=False)
    made = mem_alloc(raw.size)
    memcpy_htod(made, raw)
    return made


def from_device(devptr: Any, shape, dtype, order: str = "C") -> np.ndarray:
    """Copy device memory to a new host array and return it."""
    demand_plain(dtype)
    result = np.empty(shape, dtype, order)
    memcpy_dtoh(result, devptr)
    return result


def from_device_like(devptr: Any, other_ary: np.ndarray) -> np.ndarray:
    """Copy device memory to a new host array like ``other_ary`` and return it."""
    result = np.empty_like(other_ary)
    memcpy_dtoh(result, devptr)
    return result


# -- host arrays --------------------------------------------------------------------------------


def pagelocked_empty(shape, dtype, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    """Return a page-locked host array, from which a real GPU copies faster."""
    need_context("cuMemHostAlloc")
    return watched(np.asarray(HostAllocation(_shape(shape), dtype, order, 64, pinned=True)))


def aligned_empty(shape, dtype, order: str = "C", alignment: int = 4096) -> np.ndarray:
    """Return a host array whose address is a multiple of ``alignment`` bytes."""
    return np.asarray(HostAllocation(_shape(shape), dtype, order, alignment))


def managed_empty(shape, dtype, order: str = "C", mem_flags: int = 0) -> np.ndarray:
    """Return a host array whose memory kernels can also access; ``.base`` is the allocation."""
    return watched(np.asarray(ManagedAllocation(_shape(shape), dtype, order)))


def register_host_memory(ary: np.ndarray, flags: int = 0) -> np.ndarray:
    """Return the array itself, because copies need no page-locked memory here."""
    need_context("cuMemHostRegister")
    return ary


def _variants(empty):
    """Return ``zeros``, ``empty_like`` and ``zeros_like`` for a kind of host array."""

    def zeros(shape, dtype, order="C", *flags, **named):
        result = empty(shape, dtype, order, *flags, **named)
        result.fill(0)
        return result

    def like(make):
        def made(array, *flags, **named):
            if not array.flags.forc:
                raise ValueError("could not detect array order")
            order = "C" if array.flags.c_contiguous else "F"
            return make(array.shape, array.dtype, order, *flags, **named)

        return made

    functions = zeros, like(empty), like(zeros)
    for function, ending, what in zip(
        functions,
        ("zeros", "empty_like", "zeros_like"),
        ("filled with zeros", "shaped like an array", "shaped like an array, filled with zeros"),
        strict=True,
    ):
        function.__name__ = empty.__name__.replace("empty", ending)
        function.__doc__ = f"Return an array as :func:`{empty.__name__}` does, {what}."
    return functions


pagelocked_zeros, pagelocked_empty_like, pagelocked_zeros_like = _variants(pagelocked_empty)
aligned_zeros, aligned_empty_like, aligned_zeros_like = _variants(aligned_empty)
managed_zeros, managed_empty_like, managed_zeros_like = _variants(managed_empty)


def _shape(shape) -> tuple[int, ...]:
    return (int(shape),) if np.isscalar(shape) else tuple(int(one) for one in shape)


def _host_bytes(buffer: Any, writeable: bool) -> np.ndarray:
    """Return the bytes of a host buffer in memory order.

    Raises ValueError for arrays with gaps and for read-only memory, as NumPy does.
    """
    array = (
        buffer if isinstance(buffer, np.ndarray | np.generic) else np.frombuffer(buffer, np.uint8)
    )
    array = np.asarray(array)
    demand_plain(array.dtype)
    if not array.flags.forc:
        raise ValueError("ndarray is not contiguous")
    if writeable and not array.flags.writeable:
        raise ValueError("buffer source array is read-only")
    flat = array.reshape(-1, order="A")
    return flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)
