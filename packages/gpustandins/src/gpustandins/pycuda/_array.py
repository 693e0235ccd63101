"""``GPUArray``: memory, layout and operators; :mod:`pycuda.gpuarray` has the functions.

CuPy computes on a view of the array's memory, while result types, refusals and peculiarities are
PyCUDA's: comparisons return 0 and 1 in the type of the arrays, the two shapes must be equal (or
one of them empty), and integer division follows C.
"""

from __future__ import annotations

import numbers
import warnings
from functools import lru_cache
from functools import reduce as _fold
from typing import Any

import cupy
import numpy as np
from numpy.lib.stride_tricks import as_strided

from virtualgpu.standins.interface import demand_plain

from . import _memory
from ._context import Device
from ._errors import LogicError, call
from ._operators import Operators, need_contiguous, order_of
from .tools import DeviceData


def splay(n: int, dev=None) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """Return PyCUDA's grid and block for ``n`` elements, with 32 to 128 threads per block."""
    data = _limits(dev or Device(0))
    most = 4 * data.thread_blocks_per_mp * data.multiprocessors
    if n < data.warp_size:
        return (1, 1), (data.warp_size, 1, 1)
    if n < most * data.warp_size:
        return (-(-n // data.warp_size), 1), (data.warp_size, 1, 1)
    if n < most * 128:
        warps = -(-n // data.warp_size)
        return (most, 1), (-(-warps // most) * data.warp_size, 1, 1)
    return (most, 1), (128, 1, 1)


_limits = lru_cache(DeviceData)


class ArrayFlags:
    """Memory layout: ``c_contiguous``, ``f_contiguous`` and ``forc`` (either of them)."""

    def __init__(self, array: GPUArray):
        self.c_contiguous, self.f_contiguous = _contiguous(
            array.shape, array.strides, array.itemsize
        )
        self.forc = self.c_contiguous or self.f_contiguous


@lru_cache(maxsize=1024)
def _contiguous(shape: tuple, strides: tuple, itemsize: int) -> tuple[bool, bool]:
    flags = as_strided(np.empty(1, f"V{itemsize}"), shape, strides).flags
    return flags.c_contiguous, flags.f_contiguous


class GPUArray(Operators):
    """Array on the device.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    allocator : callable
        Function that takes a number of bytes and returns device memory.
    base : GPUArray, optional
        The array whose memory this one shares.
    gpudata : optional
        Existing memory: an allocation or an address.
    strides : tuple of int, optional
        In bytes.
    order : 'C' or 'F'
    """

    __array_priority__ = 100
    __hash__ = None

    def __init__(
        self,
        shape,
        dtype,
        allocator=_memory.mem_alloc,
        base=None,
        gpudata=None,
        strides=None,
        order="C",
    ):
        self.dtype = np.dtype(dtype)
        demand_plain(self.dtype, "a GPUArray")
        if isinstance(shape, numbers.Integral | np.ndarray) and np.ndim(shape) == 0:
            shape = (int(shape),)
        self.shape = tuple(int(one) for one in shape)
        self.size = self.mem_size = int(np.prod(self.shape, dtype=np.int64))
        self.itemsize = self.dtype.itemsize
        self.nbytes = self.itemsize * self.size
        if strides is None:
            if order not in ("C", "F"):
                raise ValueError(f"invalid order: {order}")
            lengths = self.shape if order == "F" else self.shape[::-1]
            steps = [self.itemsize]
            for length in lengths[:-1]:
                steps.append(steps[-1] * length)
            steps = steps[: len(lengths)]
            strides = steps if order == "F" else steps[::-1]
        self.strides = tuple(int(one) for one in strides)
        self.allocator, self.base = allocator, base
        if gpudata is None:
            gpudata = allocator(self.nbytes) if self.size else None
        self.gpudata = gpudata

    # -- properties ----------------------------------------------------------------------------

    @property
    def __cuda_array_interface__(self) -> dict:
        """The interface (version 3) through which Numba and CuPy share the array."""
        return {
            "shape": self.shape,
            "strides": self.strides,
            "version": 3,
            "stream": None,
            "data": (self.ptr if self.size else 0, False),
            "typestr": self.dtype.str,
        }

    @property
    def ptr(self) -> int:
        return int(self.gpudata) if self.gpudata is not None else 0

    @property
    def _start(self) -> int:
        if not self.ptr and self.size:
            raise LogicError("cuMemcpy failed: invalid argument (the array's memory was freed)")
        return self.ptr

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def flags(self) -> ArrayFlags:
        return ArrayFlags(self)

    @property
    def _grid(self):
        return splay(self.mem_size)[0]

    @property
    def _block(self):
        return splay(self.mem_size)[1]

    def _layout(self) -> np.ndarray:
        """Return an array of this shape and these strides without data."""
        return as_strided(np.empty(1, self.dtype), self.shape, self.strides)

    @property
    def _array(self) -> cupy.ndarray:
        """CuPy array over the same memory. Raises LogicError if the memory has been freed."""
        if not self.size:
            return cupy.empty(self.shape, self.dtype)
        start = self._start
        ends = [(length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)]
        low = sum(end for end in ends if end < 0)
        nbytes = sum(map(abs, ends)) + self.itemsize
        with call("cuMemcpy"):
            memory = cupy.cuda.UnownedMemory(start + low, nbytes, self.gpudata)
        if memory.device_id != (current := cupy.cuda.runtime.getDevice()):
            raise LogicError(
                f"cuLaunchKernel failed: invalid argument (the array lies on device "
                f"{memory.device_id}, but the current context belongs to device {current}: push a "
                "context of the array's device, or copy the array with get and to_gpu)"
            )
        pointer = cupy.cuda.MemoryPointer(memory, -low)
        return cupy.ndarray(self.shape, self.dtype, pointer, self.strides)

    def _write(self, values: Any) -> GPUArray:
        """Overwrite all elements with a number, or with a NumPy or CuPy array."""
        if self.size:
            if values_on_host := not isinstance(values, cupy.ndarray):
                values = np.asarray(values)
            if values.dtype.kind == "c" and self.dtype.kind != "c":
                values = values.real
            if values_on_host:
                with np.errstate(all="ignore"):
                    values = cupy.asarray(values.astype(self.dtype, copy=False))
            self._array[...] = values
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is "
                "ambiguous. Use a.any() or a.all()"
            )
        return bool(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __repr__(self) -> str:
        return repr(self.get())

    # -- copies to and from the host -----------------------------------------------------------

    def set(self, ary: np.ndarray, async_: bool = False, stream=None) -> None:
        """Copy a host array of the same size and dtype to the device."""
        if ary.size != self.size:
            raise ValueError("ary and self must be the same size")
        if ary.shape != self.shape:
            warnings.warn("Setting array from one with different shape.", stacklevel=2)
            ary = ary.reshape(self.shape)
        if ary.dtype != self.dtype:
            raise ValueError("ary and self must have the same dtype")
        if self.flags.forc:
            _memory.memcpy_htod(self._start, np.asarray(ary, order=order_of(self)))
        else:
            self._write(ary)

    def set_async(self, ary: np.ndarray, stream=None) -> None:
        """Copy a host array into this one, at once, because no work is ever in flight."""
        self.set(ary)

    def get(
        self,
        ary: np.ndarray | None = None,
        pagelocked: bool = False,
        async_: bool = False,
        stream=None,
    ) -> np.ndarray:
        """Copy the elements to a host array: a new one or ``ary``."""
        if ary is None:
            ary = np.empty(self.shape, self.dtype, order_of(self))
        if self.size != ary.size:
            raise ValueError("self and ary must be the same size")
        if self.dtype != ary.dtype:
            raise TypeError("self and ary must have the same dtype")
        source = self if self.flags.forc else cupy.ascontiguousarray(self._array)
        order = order_of(source)
        direct = ary.shape == self.shape and ary.flags[f"{order}_CONTIGUOUS"]
        host = ary if direct else np.empty(self.shape, self.dtype, order)
        _memory.memcpy_dtoh(host, self._start if source is self else source.data.ptr)
        if not direct:
            ary[...] = host.reshape(ary.shape)
        return ary

    def get_async(self, stream=None, ary=None) -> np.ndarray:
        """Return a host copy, made at once as by :meth:`get`."""
        return self.get(ary)

    def _scalar(self, value, dtype) -> GPUArray:
        return scalar_array(value, dtype)

    def copy(self, stream=None) -> GPUArray:
        return self._new_like_me()._write(self._array)

    def _new_like_me(self, dtype=None, order="C") -> GPUArray:
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        strides = self.strides if dtype == self.dtype and self.flags.forc else None
        return type(self)(self.shape, dtype, allocator=self.allocator, strides=strides, order=order)

    # -- shapes and slices: views --------------------------------------------------------------

    def _part(self, layout: np.ndarray, part: np.ndarray) -> GPUArray:
        """Return the view with the same position in this array as ``part`` has in ``layout``."""
        here, there = (one.__array_interface__["data"][0] for one in (layout, part))
        place = self.ptr + (there - here if part.size else 0)
        return GPUArray(part.shape, part.dtype, self.allocator, self, place, part.strides)

    def reshape(self, *shape, order: str = "C") -> GPUArray:
        """Return the same elements in another shape, sharing memory."""
        need_contiguous(self)
        if isinstance(shape[0], tuple | list):
            shape = tuple(shape[0])
        if shape.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension")
        if -1 in shape:
            known = -_fold(lambda x, y: x * y, shape, 1)
            shape = tuple(self.size // known if one == -1 else one for one in shape)
        if _fold(lambda x, y: x * y, shape, 1) != self.size:
            raise ValueError("total size of new array must be unchanged")
        return GPUArray(shape, self.dtype, self.allocator, base=self, gpudata=self.ptr, order=order)

    def ravel(self) -> GPUArray:
        return self.reshape(self.size)

    def view(self, dtype=None) -> GPUArray:
        """Return the same bytes as another type, sharing memory."""
        layout = self._layout()
        return self._part(layout, layout.view(np.dtype(dtype or self.dtype)))

    def squeeze(self) -> GPUArray:
        layout = self._layout()
        return self._part(layout, layout.squeeze())

    def transpose(self, axes=None) -> GPUArray:
        layout = self._layout()
        return self._part(layout, layout.transpose(axes))

    @property
    def T(self) -> GPUArray:
        return self.transpose()

    def __getitem__(self, index) -> GPUArray:
        """Return a view selected by integers, slices, ``...`` and ``numpy.newaxis``.

        A single element is an array of shape ``()``. Any other index, such as an index array,
        raises IndexError.
        """
        entries = index if isinstance(index, tuple) else (index,)
        for position, one in enumerate(entries):
            if not (one is None or one is Ellipsis or isinstance(one, slice | int | np.integer)):
                raise IndexError(f"invalid subindex in axis {position}")
        layout = self._layout()
        if Ellipsis not in entries:  # with an ellipsis, one element is also an array
            entries = (*entries, ...)
        return self._part(layout, layout[entries])

    def __setitem__(self, index, value) -> None:
        """Assign a number, or an array (host or device) of the same shape and dtype."""
        target = self[index]
        if np.isscalar(value):
            target._write(value)
            return
        if not isinstance(value, GPUArray | np.ndarray):
            raise TypeError("src must be GPUArray or ndarray")
        if value.shape != target.shape:
            raise ValueError("src and dst must be same shape")
        if value.dtype != target.dtype:
            raise TypeError("src and dst must have same dtype")
        target._write(value._array.copy() if isinstance(value, GPUArray) else value)

    def bind_to_texref(self, *args, **kwargs):
        raise NotImplementedError(
            "textures: CUDA 12 has removed texture references; pass the array as a pointer, or use "
            "cupy.cuda.texture"
        )

    bind_to_texref_ext = bind_to_texref


def scalar_array(value, dtype, allocator=None) -> GPUArray:
    """Return a value as an array of shape ``()``."""
    return GPUArray((), dtype, allocator or _memory.mem_alloc)._write(value)
