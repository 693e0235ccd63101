"""Functions of the ``cudf`` namespace."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd

from virtualgpu.standins.interface import many

from ._columns import as_column
from ._dataframe import DataFrame
from ._frame import Frame
from ._index import Index
from ._refused import refuse
from ._series import Series
from ._wrapping import call, unwrap, wrap


def from_pandas(obj, nan_as_null: bool = True):
    """Convert a pandas Series, DataFrame or Index.

    Raises TypeError for anything else.
    """
    if isinstance(obj, pd.Series):
        return Series.from_pandas(obj, nan_as_null)
    if isinstance(obj, pd.DataFrame):
        return DataFrame.from_pandas(obj, nan_as_null)
    if isinstance(obj, pd.Index):
        return Index(obj)
    raise TypeError(
        "from_pandas only accepts Pandas Dataframes, Series, Index, RangeIndex and MultiIndex "
        f"objects. Got {type(obj)}"
    )


def concat(objs, axis=0, join="outer", ignore_index=False, keys=None, sort=False):
    """Concatenate objects below one another (axis 0) or side by side (axis 1)."""
    if isinstance(objs, dict):
        keys, objs = list(objs) if keys is None else keys, objs.values()
    objs = list(objs)
    if not objs:
        raise ValueError("No objects to concatenate")
    for one in objs:
        if not isinstance(one, Frame):
            raise TypeError(f"cannot concatenate object of type {type(one)}")
    if isinstance(objs[0], Index):
        joined = unwrap(objs[0])
        for one in objs[1:]:
            joined = joined.append(unwrap(one))
        return wrap(joined)
    return wrap(
        pd.concat(
            [unwrap(one, True) for one in objs],
            axis=axis,
            join=join,
            keys=keys,
            ignore_index=ignore_index,
            sort=sort,
        )
    )


def date_range(
    start=None, end=None, periods=None, freq=None, tz=None, normalize=False, name=None, closed=None
):
    refuse("cudf", "date_range", pd.date_range, (), locals())
    return wrap(pd.date_range(start, end, periods, freq, name=name))


def _as_in_pandas(function: Callable) -> Callable:
    """Return a version of pandas' ``function`` that accepts the stand-in's objects."""

    @functools.wraps(function)
    def made(*args, **kwargs):
        return call("cudf", function.__name__, function, args, kwargs)

    return made


crosstab, get_dummies, to_datetime, to_numeric = map(
    _as_in_pandas, (pd.crosstab, pd.get_dummies, pd.to_datetime, pd.to_numeric)
)


def factorize(values, *args, **kwargs):
    """Return an integer code for each value, and the distinct values ordered by code."""
    return (values if isinstance(values, Frame) else Index(values)).factorize(*args, **kwargs)


def unique(values):
    """Return the distinct values in order of first appearance."""
    return values.unique() if isinstance(values, Frame) else Series(values).unique()


def _method(name: str) -> Callable:
    """Return a function that calls the method ``name`` of its first argument."""

    def function(frame, *args, **kwargs):
        return getattr(frame, name)(*args, **kwargs)

    function.__name__, function.__doc__ = name, f"Do the same as ``DataFrame.{name}``."
    return function


melt, merge, pivot, pivot_table = map(_method, ("melt", "merge", "pivot", "pivot_table"))


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    close = np.isclose(as_column(a).host(), as_column(b).host(), rtol, atol, equal_nan)
    return Series(close, index=getattr(a, "_index", None))


def dtype(name):
    """Return the dtype of a column created with ``name``."""
    return as_column([], dtype=name).dtype


def read_csv(filepath_or_buffer, *args, nrows=None, delim_whitespace=False, **kwargs) -> DataFrame:
    """Read a CSV file with pandas; integer columns with nulls stay integer columns.

    ``dtype`` may also be a list with one data type per column, in order. With
    ``delim_whitespace``, which pandas no longer has, any run of blanks separates two values.
    """
    if delim_whitespace:
        if args or {"sep", "delimiter"} & kwargs.keys():
            raise ValueError("cannot set both delimiter and delim_whitespace")
        kwargs["sep"] = r"\s+"
    types = kwargs.get("dtype")
    if not isinstance(types, list | tuple):
        return DataFrame(
            pd.read_csv(
                filepath_or_buffer, *args, nrows=nrows, dtype_backend="numpy_nullable", **kwargs
            )
        )
    kwargs["dtype"] = str  # no digit may be lost before each column has its own type
    read = DataFrame(
        pd.read_csv(
            filepath_or_buffer, *args, nrows=nrows, dtype_backend="numpy_nullable", **kwargs
        )
    )
    if len(types) != len(read.columns):
        raise ValueError(
            f"dtype has {many(len(types), 'type')} for {many(len(read.columns), 'column')}"
        )
    return DataFrame(
        {name: read[name].astype(one) for name, one in zip(read.columns, types, strict=True)},
        index=read.index,
    )


def read_json(path_or_buf, *args, **kwargs) -> DataFrame:
    return DataFrame(pd.read_json(path_or_buf, *args, dtype_backend="numpy_nullable", **kwargs))


def read_parquet(path, *args, **kwargs) -> DataFrame:
    """Read a Parquet file, for which pandas needs pyarrow or fastparquet."""
    return DataFrame(pd.read_parquet(path, *args, dtype_backend="numpy_nullable", **kwargs))
