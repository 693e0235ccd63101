"""Type queries for arrays and dtypes."""

from __future__ import annotations

import numpy as np

from .operands import as_array


def can_cast(from_, to, casting="safe") -> bool:
    return np.can_cast(_dtype(from_), to, casting)


def common_type(*arrays):
    """Return the common inexact type of all ``arrays``; float16 if there are none."""
    return np.common_type(*(one._host for one in arrays)) if arrays else np.float16


def result_type(*arrays_and_dtypes) -> np.dtype:
    return np.result_type(*(_dtype(one) for one in arrays_and_dtypes))


def min_scalar_type(a) -> np.dtype:
    return _dtype(a) if as_array(a) is not None else np.min_scalar_type(a)


def issubclass_(arg1, arg2) -> bool:
    """Return ``issubclass(arg1, arg2)``, or False if ``arg1`` is not a class."""
    return isinstance(arg1, type) and issubclass(arg1, arg2)


def obj2sctype(rep, default=None):
    """Return the scalar type of an object, or ``default``."""
    if isinstance(rep, type) and issubclass(rep, np.generic):
        return rep
    try:
        return np.dtype(getattr(rep, "dtype", rep)).type
    except TypeError:
        return default


def issubsctype(arg1, arg2) -> bool:
    return issubclass(obj2sctype(arg1), obj2sctype(arg2))


def issctype(rep) -> bool:
    """Return True if ``rep`` is a scalar type or a dtype other than object."""
    return isinstance(rep, type | np.dtype) and obj2sctype(rep) not in (None, np.object_)


def sctype2char(sctype) -> str:
    found = obj2sctype(sctype)
    if found is None:
        raise ValueError("unrecognized type")
    return np.dtype(found).char


def _dtype(x):
    found = as_array(x)
    return x if found is None else found.dtype


__all__ = """
can_cast common_type issctype issubclass_ issubsctype min_scalar_type obj2sctype result_type
sctype2char
""".split()
