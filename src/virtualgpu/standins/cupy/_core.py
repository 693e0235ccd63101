"""The array: NumPy's view of memory that lies on the virtual GPU.

``array._host`` is a NumPy array over the device's own bytes. Array work is NumPy's on such
views; kernels (Numba's, CUDA C++) get the same bytes by their device address. ``_host`` never
leaves this package: what a user gets is a copy (:meth:`ndarray.get`).
"""

from __future__ import annotations

import numpy as np

from virtualgpu import instruments

from .cuda import _pool
from .cuda.memory import BaseMemory, MemoryPointer, pointer_to


class ndarray:
    """An array on the device, as ``cupy.ndarray``.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    memptr : cupy.cuda.MemoryPointer, optional
        Where the data lies already; new memory otherwise.
    strides : tuple of int, optional
        In bytes; needs ``memptr``.
    order : 'C' or 'F'
    """

    __slots__ = ("__weakref__", "_base", "_host", "_mem")
    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        if strides is not None and memptr is None:
            raise ValueError("memptr is required if strides is given.")
        dtype = np.dtype(dtype)
        if memptr is None:
            made = empty(shape, dtype, order)
            self._host, self._mem = made._host, made._mem
        else:
            if strides is None and order == "F":
                strides = np.empty(shape, dtype, order="F").strides
            self._mem = memptr.mem
            self._host = memptr.mem.window(shape, dtype, memptr.ptr - memptr.mem.ptr, strides)
        self._base = None

    @property
    def data(self) -> MemoryPointer:
        """Where the first element lies on the device."""
        return pointer_to(self._mem, self._host)

    @property
    def base(self) -> ndarray | None:
        """The array that this one is a view of."""
        return self._base

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self._host.strides

    @property
    def dtype(self) -> np.dtype:
        return self._host.dtype

    @property
    def ndim(self) -> int:
        return self._host.ndim

    @property
    def size(self) -> int:
        return self._host.size

    @property
    def itemsize(self) -> int:
        return self._host.itemsize

    @property
    def nbytes(self) -> int:
        return self._host.nbytes

    @property
    def flags(self):
        return self._host.flags

    @property
    def __cuda_array_interface__(self) -> dict:
        """Version 3: what Numba and other libraries read to use the array in place."""
        host = self._host
        return {
            "shape": host.shape,
            "typestr": host.dtype.str,
            "descr": host.dtype.descr,
            "stream": 1,
            "version": 3,
            "strides": None if host.flags.c_contiguous else host.strides,
            "data": (self.data.ptr, False),
        }

    def get(self) -> np.ndarray:
        """A copy on the host."""
        return self._host.copy()

    def __len__(self) -> int:
        if self._host.ndim == 0:
            raise TypeError("len() of unsized object")
        return self._host.shape[0]

    def __repr__(self) -> str:
        return repr(self._host)


def empty(shape, dtype=float, order="C") -> ndarray:
    """A new array that nobody has written: its bytes hold 0xFE until somebody does."""
    return _new(shape, np.dtype(dtype), order, poison=True)


def fresh(shape, dtype, order="C") -> ndarray:
    """A new array that the caller writes at once, all of it."""
    return _new(shape, dtype, order, poison=False)


def view(host: np.ndarray, mem: BaseMemory, base: ndarray | None = None) -> ndarray:
    """An array over ``host``, which is a view of ``mem``'s bytes."""
    array = ndarray.__new__(ndarray)
    array._host, array._mem, array._base = host, mem, base
    return array


def wrote(array: ndarray) -> None:
    """Tell the checkers that ``array``'s elements have just been written."""
    mem = array._mem
    if mem.ptr and (mem._machine.memory.unwritten or instruments._observers):
        low, high = np.lib.array_utils.byte_bounds(array._host)
        start = array.data.ptr - array._host.__array_interface__["data"][0] + low
        mem.wrote(start, high - low)


def _new(shape, dtype: np.dtype, order: str, poison: bool) -> ndarray:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    nbytes = dtype.itemsize
    for length in shape:
        if length < 0:
            raise ValueError("Negative dimensions are not allowed")
        nbytes *= length
    mem = _pool.allocate(nbytes, poison) if nbytes else _pool.Memory(0)
    strides = None
    if order == "F" and len(shape) > 1:
        strides, step = [], dtype.itemsize
        for length in shape:
            strides.append(step)
            step *= max(length, 1)
    if not poison and nbytes:
        mem._machine.memory.unwritten.pop(mem.ptr, None)
    return view(mem.window(shape, dtype, 0, strides), mem)
