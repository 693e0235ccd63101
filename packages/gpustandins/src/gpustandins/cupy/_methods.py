"""Methods of an array; most call the function of the same name."""

from __future__ import annotations

import builtins
import warnings

import numpy as np

from virtualgpu.standins.interface import queues

from . import _launches, _package
from ._arrays import creation, indexing
from ._arrays.core import from_host, ndarray, supported, wrote
from ._arrays.dlpack import export
from ._arrays.objects import flatiter
from ._arrays.operands import SCALARS
from ._arrays.operators import FUNCTIONS, named
from ._arrays.reductions import METHODS, parameters, reduce
from ._missing import missing
from .cuda.memory import stream_number

_SAME = (
    "argpartition argsort choose cumprod cumsum diagonal dot nonzero ravel repeat round "
    "searchsorted squeeze swapaxes trace"
).split()


class Methods:
    """Base class of ``ndarray``, added last because it imports all modules that make arrays."""

    __slots__ = ()

    # -- elements and views --------------------------------------------------------------------

    def __getitem__(self, key):
        """Return ``self[key]``: a view, or a copy for an index array (its indices wrap around)."""
        return indexing.getitem(self, key)

    def __setitem__(self, key, value) -> None:
        """Assign ``self[key] = value``; the value is a scalar or a device array."""
        indexing.setitem(self, key, value)

    def take(self, indices, axis=None, out=None):
        """Return elements along an axis; indices wrap around."""
        return indexing.take(self, indices, axis, out)

    def put(self, indices, values, mode="wrap") -> None:
        """Assign ``self.flat[indices] = values``; ``mode`` is 'wrap', 'clip' or 'raise'."""
        named("put")(self, indices, values, mode)

    @property
    def T(self):
        return self if self.ndim < 2 else self.transpose()

    @property
    def mT(self):
        return named("matrix_transpose")(self)

    @property
    def real(self):
        return named("real")(self)

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return named("imag")(self)

    @imag.setter
    def imag(self, value):
        if self.dtype.kind != "c":
            raise TypeError("cupy.ndarray does not have imaginary part to set")
        self.imag[...] = value

    @property
    def flat(self):
        return flatiter(self)

    def view(self, dtype=None, array_class=None, *, type=None):
        """Return a view of the same bytes as another type.

        Raises NotImplementedError for a subclass of ``ndarray``.
        """
        for one in (dtype, array_class, type):
            if isinstance(one, builtins.type) and issubclass(one, ndarray) and one is not ndarray:
                raise NotImplementedError(
                    f"cannot view an array as {one.__name__}: CuPy's stand-in for machines without "
                    "a GPU does not support subclasses of cupy.ndarray; keep the array in an "
                    "attribute of your class instead"
                )
        return creation.reinterpret(self, self.dtype if dtype is None else dtype)

    def reshape(self, *shape, order="C", copy=None):
        """Return the same elements in another shape, as a view if possible."""
        shape = shape[0] if len(shape) == 1 else shape
        asked = {} if copy is None else {"copy": copy}  # NumPy has this argument since 2.1
        return named("reshape")(self, shape, order, **asked)

    def transpose(self, *axes):
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
            axes = axes[0]
        return named("transpose")(self, axes or None)

    def flatten(self, order="C"):
        """Return a one-dimensional copy."""
        flat = named("ravel")(self, order)
        return flat.copy() if flat.base is not None or flat is self else flat

    def reduced_view(self, dtype=None):
        """Return a view with as few dimensions as the layout allows."""
        flat = self.reshape(-1) if self.flags.c_contiguous and self.ndim > 1 else self
        return flat if dtype is None else flat.view(dtype)

    # -- copies --------------------------------------------------------------------------------

    def copy(self, order="C"):
        """Return a copy on the device."""
        return self.astype(self.dtype, order=order)

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        """Return a copy of another type, cast as on a GPU (:mod:`cupy._arrays.casting`).

        Parameters
        ----------
        order : 'C', 'F', 'A' or 'K'
        casting : str, optional
            NumPy's casting rule; TypeError if it forbids the cast. None allows every cast.
        copy : bool
            If False, the array itself is returned when nothing has to change.
        """
        if subok is not None:
            raise TypeError("subok is not supported yet")
        dtype = supported(dtype)
        if casting is not None and not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(
                f"Cannot cast array data from {self.dtype!r} to {dtype!r} "
                f"according to the rule '{casting}'"
            )
        return creation.convert(self, dtype, order, copy)

    def byteswap(self, inplace=False):
        if not inplace:
            return from_host(self._host.byteswap())
        self._host.byteswap(inplace=True)
        wrote(self)
        return self

    def fill(self, value) -> None:
        """Set all elements to a scalar."""
        indexing.fill(self, value)

    def set(self, arr, stream=None) -> None:
        """Copy the NumPy array ``arr`` (of the same shape and dtype) into this one."""
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self.flags.forc:
            raise RuntimeError("Cannot set to non-contiguous array")
        number = stream_number(stream)
        with queues.copying(number, self.data.ptr, arr.__array_interface__["data"][0], arr.nbytes):
            self._host[...] = np.ndarray.view(arr, np.ndarray)
            wrote(self)
        if stream is None:
            queues.wait(number)

    def sort(self, axis=-1, kind=None) -> None:
        """Sort in place."""
        if self.ndim == 0:
            raise np.exceptions.AxisError("Sorting arrays with the rank of zero is not supported")
        if not self.flags.c_contiguous:
            raise NotImplementedError("Sorting non-contiguous array is not supported.")
        self._host.sort(axis)
        wrote(self)
        _launches.record("cupy.ndarray.sort", "routine", size=self.size, exact=False)

    def partition(self, kth, axis=-1) -> None:
        """Sort in place; CuPy also sorts completely. ``kth`` may be several numbers."""
        axis = np.lib.array_utils.normalize_axis_index(axis, self.ndim) if self.ndim else axis
        length = self.shape[axis] if self.ndim else 0
        for k in np.atleast_1d(kth) if length else ():
            if not -length <= k < length:
                raise ValueError(f"kth(={k}) out of bounds {length}")
        self.sort(axis)

    # -- names that the stand-in lacks -----------------------------------------------------------

    @property
    def cstruct(self):
        raise missing("cupy.ndarray", "cstruct", "the array itself as a kernel's argument")

    @property
    def mdspan(self):
        raise missing("cupy.ndarray", "mdspan", "x.data.ptr, x.shape and x.strides")

    @property
    def toDlpack(self):
        raise missing(
            "cupy.ndarray",
            "toDlpack",
            "the array itself, which Numba accepts without a copy, or x.get()",
        )

    # -- numbers -------------------------------------------------------------------------------

    def compress(self, condition, axis=None, out=None):
        """Return the slices along an axis for which the condition is true."""
        return named("compress")(condition, self, axis, out)

    def clip(self, min=None, max=None, out=None):
        return named("clip")(self, min, max, out)

    def conj(self):
        return named("conjugate")(self)

    conjugate = conj

    # -- DLPack --------------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.data.device_id)  # kDLCUDA

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return export(self, stream, dl_device, copy)

    # -- NumPy functions applied to CuPy arrays (NEP 13, NEP 18) ---------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        operands = inputs
        if "out" in kwargs:
            out = kwargs["out"]
            if len(out) != 1:
                raise ValueError("The 'out' parameter must have exactly one array value")
            operands += out
            kwargs["out"] = out[0]
        function = FUNCTIONS.get(ufunc.__name__)
        if function is not None and method != "__call__":
            function = getattr(function, method, None)
        if function is None:
            return NotImplemented
        for one in operands:
            # NumPy arrays pass here, so that the function raises its TypeError for host arrays.
            if not isinstance(one, (*SCALARS, Methods, np.ndarray)) and not (
                hasattr(one, "__cuda_array_interface__") or hasattr(one, "__cupy_get_ndarray__")
            ):
                return NotImplemented
        if ufunc.__name__ in (
            "greater",
            "greater_equal",
            "less",
            "less_equal",
            "equal",
            "not_equal",
        ):
            inputs = tuple(
                one.item() if isinstance(one, np.ndarray) and one.ndim == 0 else one
                for one in inputs
            )
        return function(*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        found = _package.namespace
        for part in [*(func.__module__ or "").split(".")[1:], func.__name__]:
            found = getattr(found, part, None)
        if found is None or found is func:
            return NotImplemented
        if not all(issubclass(one, Methods | np.ndarray) for one in types):
            return NotImplemented
        return found(*args, **kwargs)


def _method(name: str):
    def method(self, *args, **kwargs):
        return named(name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Return ``cupy.{name}(self, ...)``."
    return method


def _scatter(old: str, name: str):
    def method(self, slices, value) -> None:
        warnings.warn(
            f"`ndarray.{old}` is deprecated. Please use `cupy.{name}.at` instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        named(name).at(self, slices, value)

    method.__name__ = old
    method.__doc__ = f"Deprecated name of ``cupy.{name}.at``."
    return method


def _reduction(name: str):
    def method(self, axis=None, *args, **kwargs):
        for parameter, value in zip(parameters(METHODS[name][1]), args, strict=False):
            kwargs[parameter] = value
        return reduce(name, self, axis, **kwargs)

    method.__name__ = name
    method.__doc__ = f"Do the same as ``numpy.ndarray.{name}``; return an array, even for a scalar."
    return method


for _name in _SAME:
    setattr(Methods, _name, _method(_name))
for _old, _name in {"add": "add", "max": "maximum", "min": "minimum"}.items():
    setattr(Methods, f"scatter_{_old}", _scatter(f"scatter_{_old}", _name))
for _name in ("sum prod max min ptp mean var std all any argmax argmin").split():
    setattr(Methods, _name, _reduction(_name))
ndarray.__bases__ += (Methods,)
