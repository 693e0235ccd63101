"""The array: NumPy's view of memory that lies on the virtual GPU.

``array._host`` is a NumPy array over the device's own bytes. Array work is NumPy's on such
views; kernels (Numba's, CUDA C++) get the same bytes by their device address. ``_host`` never
leaves this package: what a user gets is a copy (:meth:`ndarray.get`).

Here is what an array *is*: memory, layout, conversions. What can be computed with one is in
``_operators`` and ``_methods``.
"""

from __future__ import annotations

import pickle

import numpy as np

from virtualgpu import instruments

from . import _launches
from ._methods import Methods
from ._operators import Operators
from .cuda import _pool
from .cuda.memory import BaseMemory, MemoryPointer, pointer_to

#: Types that CuPy's arrays can have (CuPy 14: no objects, strings or dates).
KINDS = "?bhilqBHILQefdFD"


class Flags:
    """Memory layout: ``c_contiguous``, ``f_contiguous``, ``owndata``; no more than CuPy has."""

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
        return "\n".join(f"  {name} : {self[name]}"
                         for name in ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA"))


class ndarray(Operators, Methods):
    """An array on the device, as ``cupy.ndarray``.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
        Numbers or booleans (structured types too, to hand them to kernels).
    memptr : cupy.cuda.MemoryPointer, optional
        Where the data lies already; new memory otherwise.
    strides : tuple of int, optional
        In bytes; needs ``memptr``.
    order : 'C' or 'F'
    """

    __slots__ = ("__weakref__", "_base", "_host", "_mem")
    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        if strides is not None and memptr is None:
            raise ValueError("memptr is required if strides is given.")
        order = "C" if order is None else order
        if order not in ("C", "F"):
            raise ValueError(f"order not understood. order={order}")
        dtype = supported(dtype)
        if memptr is None:
            made = empty(shape, dtype, order)
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
        """Where the first element lies on the device."""
        return pointer_to(self._mem, self._host)

    @property
    def base(self) -> ndarray | None:
        """The array that this one is a view of."""
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
        host = self._host.view()
        try:
            host.shape = shape
        except AttributeError:
            raise AttributeError("Incompatible shape for in-place modification.") from None
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

    # -- to the host and back ------------------------------------------------------------------

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly.")

    def get(self, stream=None, order="C", out=None, blocking=True) -> np.ndarray:
        """A copy on the host.

        Parameters
        ----------
        stream, blocking
            Accepted; the copy is done when this returns.
        order : 'C', 'F' or 'A'
        out : numpy.ndarray, optional
            Same shape and dtype; written and returned.
        """
        if out is None:
            if order.upper() not in ("C", "F", "A"):
                raise ValueError(f"unsupported order: {order}")
            return self._host.copy(order)
        if not isinstance(out, np.ndarray):
            raise TypeError("Only numpy.ndarray can be obtained fromcupy.ndarray")
        if out.dtype != self.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        if out.shape != self.shape:
            raise ValueError(
                f"Shape mismatch. Expected shape: {self.shape}, actual shape: {out.shape}")
        out[...] = self._host
        return out

    def set(self, arr, stream=None) -> None:
        """Copy the NumPy array ``arr`` (same shape and dtype) into this one."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(
                f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self.flags.forc:
            raise RuntimeError("Cannot set to non-contiguous array")
        self._host[...] = arr
        wrote(self)

    def item(self):
        """The one element as a Python number."""
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._host.item()

    def tolist(self):
        return self._host.tolist()

    def tobytes(self, order="C") -> bytes:
        return self._host.tobytes(order)

    def tofile(self, fid, sep="", format="%s") -> None:
        self._host.tofile(fid, sep, format)

    def dump(self, file) -> None:
        """Pickle to an open binary file."""
        pickle.dump(self, file, -1)

    def dumps(self) -> bytes:
        return pickle.dumps(self, -1)

    def __reduce__(self):
        from ._creation import array

        return array, (self.get(order="A"),)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __bool__(self) -> bool:
        if self.size == 0:
            import warnings

            warnings.warn(
                "The truth value of an empty array is ambiguous. Returning False, but in future "
                "this will result in an error. Use `array.size > 0` to check that an array is "
                "not empty.", DeprecationWarning, stacklevel=2)
            return False
        if self.size != 1:
            raise ValueError("The truth value of an array with more than one element is "
                             "ambiguous. Use a.any() or a.all()")
        return bool(self._host.reshape(())[()])

    def __int__(self) -> int:
        return int(self._host)

    def __float__(self) -> float:
        return float(self._host)

    def __complex__(self) -> complex:
        return complex(self._host)

    def __bytes__(self) -> bytes:
        return bytes(self._host)

    def __len__(self) -> int:
        if self._host.ndim == 0:
            raise TypeError("len() of unsized object")
        return self._host.shape[0]

    def __iter__(self):
        if self._host.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self._host.shape[0]))

    def __repr__(self) -> str:
        return repr(self._host)

    def __str__(self) -> str:
        return str(self._host)

    def __format__(self, format_spec: str) -> str:
        return format(self._host, format_spec)

    def __class_getitem__(cls, item):
        from types import GenericAlias

        return GenericAlias(cls, item)

    # -- DLPack --------------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)  # kDLCUDA, device 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        from ._dlpack import export

        return export(self, stream, dl_device, copy)


def supported(dtype) -> np.dtype:
    """``dtype`` as NumPy's; ValueError where CuPy has no arrays of it."""
    dtype = np.dtype(dtype)
    if dtype.char in KINDS or (dtype.kind == "V" and not dtype.hasobject):
        return dtype
    raise ValueError(f"Unsupported dtype {dtype}")


def empty(shape, dtype=float, order="C") -> ndarray:
    """A new array that nobody has written: its bytes hold 0xFE until somebody does."""
    return _new(shape, supported(dtype), order, poison=True)


def fresh(shape, dtype: np.dtype, order="C") -> ndarray:
    """A new array that the caller writes at once, all of it."""
    return _new(shape, dtype, order, poison=False)


def from_host(host: np.ndarray) -> ndarray:
    """A new array with the elements of ``host``; keeps its layout where that is contiguous."""
    made = fresh(host.shape, supported(host.dtype), "F" if _only_f(host) else "C")
    made._host[...] = host
    return made


def view(host: np.ndarray, mem: BaseMemory, base: ndarray | None = None) -> ndarray:
    """An array over ``host``, which is a view of ``mem``'s bytes."""
    array = ndarray.__new__(ndarray)
    array._host, array._mem, array._base = host, mem, base
    return array


def view_of(array: ndarray, host: np.ndarray) -> ndarray:
    """A view of ``array`` through ``host``, which is a view of ``array._host``."""
    made = ndarray.__new__(ndarray)
    made._host, made._mem = host, array._mem
    made._base = array if array._base is None else array._base
    return made


def wrote(array: ndarray) -> None:
    """Tell the checkers that ``array``'s elements have just been written."""
    mem = array._mem
    if mem.ptr and (mem._machine.memory.unwritten or instruments._observers) and array.size:
        host = array._host
        low, high = np.lib.array_utils.byte_bounds(host)
        start = array.data.ptr - host.__array_interface__["data"][0] + low
        mem.wrote(start, high - low)


def copy_into(target: ndarray, source: np.ndarray, *, name: str = "cupy_copy") -> None:
    """Write ``source`` (broadcast, cast as a GPU casts) into ``target``; one kernel."""
    from ._casting import cast

    cast(source, target._host)
    wrote(target)
    if _launches.listening() and target.size:
        _launches.record(f"{name}__{source.dtype.name}_{target.dtype.name}", "copy",
                         size=target.size)


def _only_f(host: np.ndarray) -> bool:
    return host.ndim > 1 and host.flags.f_contiguous and not host.flags.c_contiguous


def _new(shape, dtype: np.dtype, order: str, poison: bool) -> ndarray:
    shape = (int(shape),) if not hasattr(shape, "__iter__") else tuple(int(n) for n in shape)
    nbytes = dtype.itemsize
    for length in shape:
        if length < 0:
            raise ValueError("Negative dimensions are not allowed")
        nbytes *= length
    mem = _pool.allocate(nbytes, poison) if nbytes else _pool.Memory(0)
    if not poison and nbytes:
        mem._machine.memory.unwritten.pop(mem.ptr, None)
        for observer in instruments._observers:
            if hasattr(observer, "host_wrote"):
                observer.host_wrote(mem.ptr, nbytes)
    strides = None
    if order == "F" and len(shape) > 1 and nbytes:
        strides, step = [], dtype.itemsize
        for length in shape:
            strides.append(step)
            step *= length
    return view(mem.window(shape, dtype, 0, strides), mem)
