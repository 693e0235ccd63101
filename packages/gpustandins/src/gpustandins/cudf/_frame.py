"""Methods that Series, DataFrame and Index share, including those that cuDF refuses."""

from __future__ import annotations

from ._missing import no_attribute
from ._wrapping import unwrap, wrap

_IMPLICIT = (
    "Implicit conversion to a host NumPy array via __array__ is not allowed, To explicitly "
    "construct a GPU matrix, consider using .to_cupy()\nTo explicitly construct a host matrix, "
    "consider using .to_numpy()."
)


class Frame:
    """Base class of Series, DataFrame and Index."""

    _names_there: frozenset[str]  # the public names of cuDF's class

    def __array__(self, dtype=None, copy=None):
        raise TypeError(_IMPLICIT)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or "out" in kwargs:
            return NotImplemented
        return wrap(ufunc(*unwrap(inputs), **unwrap(kwargs)))

    def __array_function__(self, function, types, args, kwargs):
        method = getattr(type(self), function.__name__, None)
        if method is None or not isinstance(args[0], Frame) or function.__name__ == "where":
            return NotImplemented  # np.where and Series.where differ in meaning
        return method(args[0], *args[1:], **kwargs)

    def __bool__(self):
        raise TypeError(
            f"The truth value of a {type(self)} is ambiguous. Use a.empty, a.bool(), a.item(), "
            "a.any() or a.all()."
        )

    def __getattr__(self, name: str):
        if isinstance(given := getattr(type(self), name, None), property):
            return given.fget(self)  # its getter raised AttributeError: raise the same error again
        raise no_attribute(self, name, self._names_there, f"cudf.{type(self).__name__}")

    def __reduce__(self):
        return _rebuild, (self._as_pandas(True),)

    @property
    def values(self):
        """The values as a CuPy array, which shares the memory of a single column without nulls."""
        return self.to_cupy()

    @property
    def values_host(self):
        return self.to_numpy()

    @property
    def empty(self) -> bool:
        return self._as_pandas().empty


class NotIterable:
    """Base class of Series and Index, which refuse iteration: it would copy element by element."""

    def __iter__(self):
        raise TypeError(
            f"{type(self).__name__} object is not iterable. Consider using `.to_arrow()`, "
            "`.to_pandas()` or `.values_host` if you wish to iterate over the values."
        )

    def tolist(self):
        raise TypeError(
            "cuDF does not support conversion to host memory via the `tolist()` method. Consider "
            "using `.to_arrow().to_pylist()` to construct a Python list."
        )

    to_list = tolist


def _rebuild(frame):
    return wrap(frame)
