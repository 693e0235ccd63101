"""Conversion between pandas objects and the stand-in's; most methods only convert and call."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable

import cupy
import numpy as np
import pandas as pd
from pandas.arrays import FloatingArray

from ._columns import Column, nullable
from ._refused import refuse

#: Conversion of a result by its pandas class; Series, DataFrame and Index add themselves.
WRAPPED: dict[type, Callable] = {}


def wrap(result):
    """Convert a pandas result to the stand-in's class; numbers and strings stay unchanged."""
    for kind, made in WRAPPED.items():
        if isinstance(result, kind):
            return made(result)
    if isinstance(result, tuple):
        return tuple(wrap(one) for one in result)
    if isinstance(result, np.ndarray) and result.ndim and result.dtype.kind in "biuf":
        return cupy.asarray(result)
    return result


def unwrap(value, with_nulls: bool = False):
    """Convert to pandas objects.

    If ``with_nulls`` is True, pandas can add nulls to them without changing dtypes.
    """
    if hasattr(value, "_as_pandas"):
        return value._as_pandas(with_nulls)
    if isinstance(value, cupy.ndarray):
        return value._host if value.ndim else value._host[()]
    if hasattr(value, "__cuda_array_interface__"):
        return cupy.asarray(value)._host
    if isinstance(value, list | tuple):
        return type(value)(unwrap(one, with_nulls) for one in value)
    if isinstance(value, dict):
        return {key: unwrap(one, with_nulls) for key, one in value.items()}
    return value


def as_cudf_says(text: str) -> str:
    """Replace pandas' dtype names in a repr with cuDF's: strings are object, Int64 is int64."""
    return _DTYPE.sub(lambda found: found[1] + cudf_name(found[2]), text)


# Matches "dtype: Int64" under a Series, "dtype='string'" of an Index and "Categories (2, string):".
_DTYPE = re.compile(r"(dtype(?:: |=\')|Categories \(\d+, )(\w+)(?=$|[\')\n])")


def cudf_name(dtype: str) -> str:
    """Return cuDF's name for a pandas dtype: ``int64`` for ``Int64``, ``object`` for strings."""
    if dtype in ("string", "str"):
        return "object"
    return {"boolean": "bool"}.get(dtype, dtype.lower())


# These methods treat NaN as <NA>, which pandas' own arrays with both do not.
_NAN_IS_MISSING = frozenset(
    "isna isnull notna notnull dropna fillna count sum mean min max std var median prod".split()
)


def has_both(thing) -> bool:
    """Return True if a Series may contain both NaN and <NA>."""
    return isinstance(getattr(getattr(thing, "_column", None), "values", None), FloatingArray)


# pandas warns of its own future changes, which do not concern cuDF.
_PANDAS_CHANGES = getattr(pd.errors, "PandasChangeWarning", FutureWarning)


def call(owner: str, name: str, function: Callable, args=(), kwargs=None, with_nulls: bool = False):
    """Call pandas' ``function`` as cuDF's ``owner.name``, with the stand-in's objects.

    Raises NotImplementedError for arguments that cuDF does not accept.
    """
    kwargs = kwargs or {}
    refuse(owner, name, function, args, kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", _PANDAS_CHANGES)
        return wrap(function(*unwrap(args, with_nulls), **unwrap(kwargs, with_nulls)))


def pandas_method(name: str, with_nulls: bool = False) -> Callable:
    """Return a method that calls the pandas method ``name``."""

    def method(self, *args, **kwargs):
        asked = self.nans_to_nulls() if name in _NAN_IS_MISSING and has_both(self) else self
        function, owner = getattr(asked._as_pandas(with_nulls), name), type(self).__name__
        inplace = False
        if "inplace" in kwargs and "inplace" in inspect.signature(function).parameters:
            inplace = kwargs.pop("inplace")
            refuse(owner, name, function, (), {"inplace": inplace})
        result = call(owner, name, function, args, kwargs, with_nulls)
        if inplace:
            self._take(result)
            return None
        return result

    method.__name__ = name
    method.__doc__ = f"Do the same as pandas' ``{name}``."
    return method


def give_methods(cls: type, names: str, with_nulls: bool = False) -> None:
    """Add the pandas methods ``names`` to a class, except those that it defines itself."""
    for name in names.split():
        assert name in cls._names_there, f"cuDF has no {cls.__name__}.{name}"
        if name not in cls.__dict__:
            setattr(cls, name, pandas_method(name, with_nulls))


# Names that pandas will drop and cuDF keeps.
PANDAS_NAME = {"weekday": "day_of_week", "dayofweek": "day_of_week", "dayofyear": "day_of_year"}


def give_properties(cls: type, names: str) -> None:
    for name in names.split():
        assert name in cls._names_there, f"cuDF has no {cls.__name__}.{name}"
        theirs = PANDAS_NAME.get(name, name)
        setattr(
            cls,
            name,
            property(
                lambda self, theirs=theirs: wrap(getattr(self._as_pandas(), theirs)),
                doc=f"The same as pandas' ``{theirs}``.",
            ),
        )


def pandas_series(column: Column, index: pd.Index, name, with_nulls: bool = False) -> pd.Series:
    """Return the column as a pandas Series that shares its memory."""
    values = nullable(column.values) if with_nulls else column.values
    return pd.Series(values, index, name=name, copy=False)
