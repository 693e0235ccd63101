"""The array class: NumPy views of memory on the virtual GPU.

``array._host`` is a NumPy array over the device's own bytes. NumPy computes array operations on
such views, and kernels (from Numba or CUDA C++) access the same bytes through their device
address. ``_host`` never leaves this package: users get a copy (:meth:`ndarray.get`).

This module defines the memory and layout of an array. Copies to the host are in ``_host``,
computations in ``_operators`` and ``_methods``.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from virtualgpu.standins.interface import queues

from .. import _launches
from ..cuda import _pool
from ..cuda.memory import BaseMemory, MemoryPointer, pointer_to
from .casting import cast
from .host import HostSide
from .operators import Operators

#: The types that CuPy arrays can have (CuPy 14 supports no objects, strings or dates).
KINDS = "?bhilqBHILQefdFD"


class Flags:
    """Memory layout: only ``c_contiguous``, ``f_contiguous`` and ``owndata``, as in CuPy."""

    __slots__ = ("c_contiguous", "f_contiguous", "owndata")

    def __init__(self, flags, owndata: bool):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata = owndata

    @property
    def fnc(self) -> bool:
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        return self.f_contiguous or self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        if name not in ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA"):
            raise KeyError(f"{name} is not defined for cupy.ndarray.flags")
        return getattr(self, name.lower())

    def __repr__(self) -> str:
        return "\n".join(
            f"  {name} : {self[name]}" for name in ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA")
        )


class ndarray(HostSide, Operators):
    """Array on the device, like ``cupy.ndarray``.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
        A numeric or boolean type, or a structured type to be passed to kernels.
    memptr : cupy.cuda.MemoryPointer, optional
        The address of existing data. By default, new memory is allocated.
    strides : tuple of int, optional
        In bytes. Without ``memptr``, a ValueError is raised if a stride is negative or if an
        element lies outside the bytes that a packed array needs.
    order : 'C' or 'F'
    """

    __slots__ = ("__weakref__", "_base", "_host", "_mem")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        order = layout(order, "CF")
        dtype = supported(dtype)
        if memptr is None:
            made = _new(shape, dtype, order, poison=True, strides=strides)
            self._host, self._mem = made._host, made._mem
        else:
            if strides is None and order == "F":
                strides = np.empty(shape, dtype, order="F").strides
            self._mem = memptr.mem
            self._host = memptr.mem.window(shape, dtype, memptr.ptr - memptr.mem.ptr, strides)
        self._base = None

    # -- memory and layout ---------------------------------------------------------------------

    @property
    def data(self) -> MemoryPointer:
        """Return the device address of the first element."""
        return pointer_to(self._mem, self._host)

    @property
    def base(self) -> ndarray | None:
        """The array of which this one is a view."""
        return self._base

    @property
    def device(self):
        """The :class:`cupy.cuda.Device` that holds the array."""
        return self._mem.device

    @property
    def shape(self) -> tuple[int, ...]:
        return self._host.shape

    @shape.setter
    def shape(self, shape):
        host = self._host.reshape(shape)
        if host.size and not np.may_share_memory(host, self._host):  # NumPy copied: no view exists
            raise AttributeError("Incompatible shape for in-place modification.")
        self._host = host

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
    def flags(self) -> Flags:
        return Flags(self._host.flags, self._base is None)

    @property
    def __cuda_array_interface__(self) -> dict:
        """The interface (version 3) through which Numba and other libraries share the array."""
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

    def __class_getitem__(cls, item):
        from types import GenericAlias

        return GenericAlias(cls, item)


def supported(dtype) -> np.dtype:
    """Return ``dtype`` as a NumPy dtype. Raises ValueError if CuPy has no arrays of this type."""
    dtype = np.dtype(dtype)
    if not dtype.isnative:
        raise ValueError(f"Unsupported dtype {dtype}: not in this machine's byte-order")
    if dtype.char in KINDS or (
        dtype.kind == "V" and not dtype.hasobject and dtype.itemsize and not dtype.subdtype
    ):
        return dtype
    raise ValueError(f"Unsupported dtype {dtype}")


def layout(order, kinds: str = "KACF") -> str:
    """Return ``order`` as one capital letter of ``kinds``; None means the first letter.

    Raises ValueError for anything else.
    """
    letter = kinds[0] if order is None else str(order).upper()
    if letter not in tuple(kinds):
        raise ValueError(f"order not understood. order={order}")
    return letter


def empty(shape, dtype=float, order="C") -> ndarray:
    """Return a new uninitialised array, whose bytes hold 0xFE."""
    return _new(shape, supported(dtype), order, poison=True)


def fresh(shape, dtype: np.dtype, order="C") -> ndarray:
    """Return a new array, all of which the caller writes at once."""
    return _new(shape, dtype, order, poison=False)


def like(host: np.ndarray, *, poison: bool = False) -> ndarray:
    """Return a new packed array of the type, shape and order of ``host``."""
    return _new(host.shape, supported(host.dtype), "C", poison, host.strides)


def from_host(host: np.ndarray, order: str = "K") -> ndarray:
    """Return a new array with the elements of ``host``, in the same layout if contiguous."""
    made = fresh(host.shape, supported(host.dtype), "F" if order == "F" or _only_f(host) else "C")
    made._host[...] = host
    return made


def view(host: np.ndarray, mem: BaseMemory, base: ndarray | None = None) -> ndarray:
    """Return an array over ``host``, which is a view of the bytes of ``mem``."""
    array = ndarray.__new__(ndarray)
    array._host, array._mem, array._base = host, mem, base
    return array


def view_of(array: ndarray, host: np.ndarray) -> ndarray:
    """Return a view of ``array`` through ``host``, which is a view of ``array._host``."""
    made = ndarray.__new__(ndarray)
    made._host, made._mem = host, array._mem
    made._base = array if array._base is None else array._base
    return made


def wrote(array: ndarray) -> None:
    """Report to the checkers that the elements of ``array`` have just been written."""
    mem = array._mem
    if mem.ptr and mem._machine.heeds_writes and array.size:
        host = array._host
        low, high = np.lib.array_utils.byte_bounds(host)
        start = array.data.ptr - host.__array_interface__["data"][0] + low
        # Stream checkers are not told of a view with gaps, since they cannot know which bytes are
        # written.
        with queues.on(queues.chosen() if array.flags.forc else None):
            mem.wrote(start, high - low)


def copy_into(target: ndarray, source: np.ndarray, *, name: str = "cupy_copy") -> None:
    """Write ``source`` into ``target``, broadcast and cast as on a GPU, in one kernel."""
    cast(source, target._host)
    wrote(target)
    if _launches.listening() and target.size:
        _launches.record(
            f"{name}__{source.dtype.name}_{target.dtype.name}", "copy", size=target.size
        )


def _only_f(host: np.ndarray) -> bool:
    if host.ndim < 2 or not host.flags.f_contiguous:
        return False
    # If all other axes have length 1, an array is contiguous in both orders.
    return not host.flags.c_contiguous or (
        host.strides[0] == host.itemsize and host.strides != np.empty_like(host, order="C").strides
    )


def _new(shape, dtype: np.dtype, order: str, poison: bool, strides=None) -> ndarray:
    if shape is None:
        raise TypeError("Use () for a shape of no dimensions, not None")
    if type(shape) is not tuple:
        shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    if any(isinstance(length, bool | np.bool_) for length in shape):
        raise TypeError("an integer is required")
    shape = tuple(map(operator.index, shape))
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < 0 or any(length < 0 for length in shape):
        raise ValueError("Negative dimensions are not allowed")
    if not nbytes:
        return view(np.empty(shape, dtype, order), _pool.Memory(0))
    if strides is not None and (
        min(strides, default=0) < 0
        or dtype.itemsize
        + sum((length - 1) * step for length, step in zip(shape, strides, strict=True))
        > nbytes
    ):
        raise ValueError(
            "ndarray() with strides: all elements must lie within the packed size; "
            "pass memptr for other strides"
        )
    mem = _pool.allocate(nbytes, poison)
    if not poison:
        mem.wrote(mem.ptr, nbytes)
    if strides is None and layout(order, "CF") == "F" and len(shape) > 1:
        strides, step = [], dtype.itemsize
        for length in shape:
            strides.append(step)
            step *= length
    return view(mem.window(shape, dtype, 0, strides), mem)
