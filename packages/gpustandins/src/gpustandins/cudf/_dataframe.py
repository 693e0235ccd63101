"""The DataFrame: columns of equal length with one index."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

from virtualgpu.standins.interface import many

from . import _udf
from ._binary import give_operators
from ._building import columns_of, columns_of_dict, once
from ._columns import Column, as_column, astype, float_text
from ._frame import Frame
from ._groupby import DataFrameGroupBy
from ._host_copies import HostCopies
from ._index import Index, as_labels
from ._indexers import give_indexers
from ._names import DATAFRAME
from ._refused import refuse
from ._rolling import give_windows
from ._series import Series
from ._wrapping import (
    WRAPPED,
    call,
    give_methods,
    give_properties,
    pandas_method,
    pandas_series,
    unwrap,
    wrap,
)


class DataFrame(HostCopies, Frame):
    """Table with named columns, like ``cudf.DataFrame``.

    Parameters
    ----------
    data : dict, pandas.DataFrame, two-dimensional array, list of records, optional
        Each value of a dict is anything that :class:`Series` accepts; device arrays are shared.
    index, columns : array-like, optional
    dtype : dtype, optional
        The dtype of all columns.
    """

    _names_there = DATAFRAME

    def __init__(
        self, data=None, index=None, columns=None, dtype=None, copy=False, nan_as_null=True
    ):
        labels = None if index is None else as_labels(index)
        if isinstance(data, DataFrame | pd.DataFrame):
            frame = unwrap(data, True)
            self._columns, self._index = columns_of(frame, nan_as_null), frame.index
        elif isinstance(data, Series):
            name = 0 if data.name is None else data.name
            self._columns, self._index = {name: data._column}, data._index
        elif getattr(data, "ndim", 0) == 2:
            array = data if hasattr(data, "__cuda_array_interface__") else np.asarray(data)
            self._columns = {
                at: as_column(array[:, at], None, nan_as_null) for at in range(array.shape[1])
            }
            self._index = pd.RangeIndex(len(array))
        elif isinstance(data, dict):
            self._columns, self._index = columns_of_dict(data, labels, nan_as_null)
        elif data is None:
            self._columns = {}
            self._index = pd.RangeIndex(0) if labels is None else labels
        else:
            frame = pd.DataFrame(list(data), dtype=object)
            self._columns, self._index = columns_of(frame, nan_as_null), frame.index
        self._name_columns(data, columns)
        if labels is not None:
            if isinstance(data, DataFrame | pd.DataFrame):
                self._take(self.reindex(labels))
            elif len(labels) != len(self._index):
                raise ValueError(
                    f"Length of index ({len(labels)}) does not match the number of "
                    f"rows ({len(self._index)})"
                )
            self._index = labels
        if dtype is not None:
            self._columns = {name: astype(one, dtype) for name, one in self._columns.items()}

    def _name_columns(self, data, columns) -> None:
        if columns is None:
            return
        once(columns)
        if isinstance(data, dict | DataFrame | pd.DataFrame):
            empty = as_column([None] * len(self._index))
            self._columns = {name: self._columns.get(name, empty) for name in columns}
        elif self._columns:
            self._columns = dict(zip(columns, self._columns.values(), strict=True))
        else:
            self._columns = {name: as_column([None] * len(self._index)) for name in columns}

    @classmethod
    def _of(cls, columns: dict, index: pd.Index, names: pd.Index | None = None) -> DataFrame:
        self = object.__new__(cls)
        self._columns, self._index = columns, index
        if names is not None and (names.nlevels > 1 or names.name is not None):
            self._names = names
        return self

    @classmethod
    def _of_pandas(cls, frame: pd.DataFrame) -> DataFrame:
        return cls._of(columns_of(frame), frame.index, frame.columns)

    @classmethod
    def from_pandas(cls, frame: pd.DataFrame, nan_as_null=True) -> DataFrame:
        return cls(frame, nan_as_null=nan_as_null)

    @classmethod
    def from_records(cls, data, index=None, columns=None, nan_as_null=True) -> DataFrame:
        return cls(pd.DataFrame.from_records(data, index=unwrap(index), columns=columns))

    @classmethod
    def from_dict(cls, data, orient="columns", dtype=None, columns=None) -> DataFrame:
        if orient != "columns":
            return cls(pd.DataFrame.from_dict(unwrap(data), orient, dtype, columns))
        return cls(data, columns=columns, dtype=dtype)

    def memory_usage(self, index: bool = True, deep: bool = False) -> Series:
        """Return the bytes that each column uses on a GPU; the index comes last."""
        bytes_ = {str(name): column.bytes() for name, column in self._columns.items()}
        if index:
            bytes_["Index"] = self.index.memory_usage()
        return Series(bytes_)

    def _as_pandas(self, with_nulls: bool = False) -> pd.DataFrame:
        series = [
            pandas_series(column, self._index, None, with_nulls)
            for column in self._columns.values()
        ]
        frame = pd.DataFrame(dict(enumerate(series)), index=self._index, copy=False)
        frame.columns = self.columns
        return frame

    def _take(self, other: DataFrame) -> None:
        """Take over all contents of ``other`` (``inplace=True``), without writing to memory."""
        self._columns, self._index = other._columns, other._index
        self.__dict__.pop("_names", None)
        if "_names" in other.__dict__:
            self._names = other._names

    def _write(self, other: DataFrame) -> None:
        """Copy the values of ``other``; columns of the same dtype and length keep their memory."""
        columns = {}
        for name, column in other._columns.items():
            mine = self._columns.get(name)
            if mine is not None and len(mine) == len(column):
                mine.update(column.values)
                column = mine
            columns[name] = column
        self._take(other)
        self._columns = columns

    # -- properties ----------------------------------------------------------------------------

    @property
    def columns(self) -> pd.Index:
        """The column names as a pandas Index, as in cuDF."""
        names = self.__dict__.get("_names")
        if names is not None and list(names) == list(self._columns):
            return names
        plain = list(self._columns)
        if plain and plain == list(range(len(plain))):
            return pd.RangeIndex(len(plain))
        return pd.Index(plain) if plain else pd.Index([], dtype=object)

    @columns.setter
    def columns(self, names) -> None:
        names = as_labels(names)
        once(names)
        self._columns = dict(zip(names, self._columns.values(), strict=True))
        self._names = names

    @property
    def index(self) -> Index:
        return Index._of(self._index)

    @index.setter
    def index(self, labels) -> None:
        self._index = as_labels(labels)

    @property
    def dtypes(self) -> pd.Series:
        return pd.Series({name: one.dtype for name, one in self._columns.items()}, dtype=object)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._index), len(self._columns)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator:
        return iter(self._columns)

    def __contains__(self, name) -> bool:
        return name in self._columns

    def __dir__(self):
        return [*super().__dir__(), *(name for name in self._columns if isinstance(name, str))]

    def __repr__(self) -> str:
        return repr(self._as_pandas())

    def _repr_html_(self) -> str:
        return self._as_pandas()._repr_html_()

    def info(self, *args, **kwargs) -> None:
        print(
            f"<class 'cudf.DataFrame'>: {many(len(self), 'row')}, "
            f"{many(len(self._columns), 'column')}"
        )
        for name, column in self._columns.items():
            print(f"  {name}: {len(column) - column.null_count} non-null, {column.dtype}")

    # -- selection -----------------------------------------------------------------------------

    def _series(self, name) -> Series:
        return Series._of(self._columns[name], self._index, name)

    def __getitem__(self, key):
        hashable = isinstance(key, str | int | float | tuple)
        if hashable and key in self._columns:
            return self._series(key)
        if isinstance(key, list) and all(
            isinstance(name, str | int | tuple) and name in self._columns for name in key
        ):
            return DataFrame._of({name: self._columns[name] for name in key}, self._index)
        if isinstance(key, DataFrame):  # keeps values where it is True, and puts nulls elsewhere
            return wrap(self._as_pandas(True)[unwrap(key)])
        return wrap(self._as_pandas()[unwrap(key)])

    def __getattr__(self, name: str):
        columns = self.__dict__.get("_columns", {})
        if name in columns:
            return self._series(name)
        return super().__getattr__(name)

    def __setitem__(self, key, value) -> None:
        if not isinstance(key, str | int | float | tuple):
            frame = self._as_pandas(True).copy()
            frame[unwrap(key)] = unwrap(value)
            self._write(wrap(frame))
            return
        if not self._columns and not len(self._index) and not np.isscalar(value):
            self._index = value._index if isinstance(value, Series) else pd.RangeIndex(len(value))
        if isinstance(value, Series | pd.Series):
            labels = value._index if isinstance(value, Series) else value.index
            if not labels.equals(self._index):
                value = wrap(unwrap(value, True)).reindex(self._index)
        column = as_column(value, length=len(self._index))
        if len(column) != len(self._index):
            raise ValueError(
                f"Length of values ({len(column)}) does not match length of index "
                f"({len(self._index)})"
            )
        self._columns[key] = column
        self.__dict__.pop("_names", None)

    def __delitem__(self, name) -> None:
        del self._columns[name]

    def insert(self, loc: int, name, value) -> None:
        if name in self._columns:
            raise NameError(f"duplicated column name {name}")
        before = list(self._columns)
        self[name] = value
        order = [*before[:loc], name, *before[loc:]] if loc >= 0 else [*before, name]
        self._columns = {one: self._columns[one] for one in order}

    def pop(self, name) -> Series:
        series = self._series(name)
        del self._columns[name]
        return series

    def assign(self, **columns) -> DataFrame:
        out = DataFrame._of(dict(self._columns), self._index, self.columns)
        for name, value in columns.items():
            out[name] = value(out) if callable(value) else value
        return out

    def copy(self, deep: bool = True) -> DataFrame:
        """Return a deep copy even if ``deep=False``, because cuDF copies on the first write."""
        columns = {name: Column(one.values.copy()) for name, one in self._columns.items()}
        return DataFrame._of(columns, self._index, self.columns)

    # -- computation ---------------------------------------------------------------------------

    def astype(self, dtype, copy: bool = False, errors: str = "raise") -> DataFrame:
        to = dtype if isinstance(dtype, dict) else dict.fromkeys(self._columns, dtype)
        columns = {
            name: astype(one, to[name]) if name in to else one
            for name, one in self._columns.items()
        }
        return DataFrame._of(columns, self._index, self.columns)

    def apply(
        self, func, axis: int = 1, raw: bool = False, result_type=None, args: tuple = (), **kwargs
    ) -> Series:
        """Compile ``func`` with Numba for the device and call it with each row.

        ``row["x"]`` is a number. Python computes the result of a row with a null in a column that
        ``func`` names, following cuDF's rules for nulls.
        """
        if axis not in (1, "columns"):
            raise NotImplementedError(
                "DataFrame.apply currently only supports row wise ops: pass axis=1"
            )
        if raw or result_type is not None:
            raise NotImplementedError("The `raw` and `result_type` kwargs are not yet supported.")
        if kwargs:
            raise ValueError("UDFs using **kwargs are not yet supported.")
        return Series._of(_udf.apply_rows(self._columns, func, args), self._index, None)

    def map(self, func, na_action=None) -> DataFrame:
        """Call :meth:`Series.apply` on each column."""
        columns = {name: _udf.apply(one, func, ()) for name, one in self._columns.items()}
        return DataFrame._of(columns, self._index, self.columns)

    applymap = map

    def groupby(
        self,
        by=None,
        axis=0,
        level=None,
        as_index: bool = True,
        sort: bool = False,
        group_keys: bool = False,
        observed: bool = True,
        dropna: bool = True,
    ):
        refuse("DataFrame", "groupby", pd.DataFrame.groupby, (), locals())
        grouped = self._as_pandas().groupby(
            unwrap(by),
            level=level,
            as_index=as_index,
            sort=sort,
            group_keys=group_keys,
            observed=True,
            dropna=dropna,
        )
        return DataFrameGroupBy(grouped)

    def describe(self, percentiles=None, include=None, exclude=None) -> DataFrame:
        """Return counts, means and quantiles, by default of the numeric columns only."""
        chosen = self._as_pandas()
        if include is None and exclude is None:
            numbers = chosen.select_dtypes("number")
            chosen = chosen if numbers.empty else numbers
        return wrap(chosen.describe(percentiles, include, exclude))

    def _half_join(
        self, right, how: str, on=None, left_on=None, right_on=None, **other
    ) -> DataFrame:
        """Return the rows with a match in ``right`` (leftsemi) or those without one (leftanti)."""
        if any(one not in (None, False) for name, one in other.items() if name != "suffixes"):
            raise NotImplementedError(
                f"merge(how={how!r}) joins on columns only: pass on=, or left_on= and right_on="
            )
        mine, theirs = self._as_pandas(True), unwrap(right, True)
        if on is None and left_on is None:
            on = [name for name in mine.columns if name in theirs.columns]
        here, there = (
            [one] if not isinstance(one, list | tuple) else list(one)
            for one in ((on, on) if left_on is None else (left_on, right_on))
        )
        keys = theirs[there].drop_duplicates().set_axis(here, axis=1)
        found = mine[here].merge(keys, on=here, how="left", indicator=True)["_merge"] == "both"
        return wrap(mine[found.to_numpy() == (how == "leftsemi")])

    def query(self, expr, local_dict=None) -> DataFrame:
        """Return the rows for which ``expr`` is true; ``@name`` is a variable of the caller."""
        caller = sys._getframe(1)
        names = {**caller.f_globals, **caller.f_locals, **(local_dict or {})}
        return wrap(self._as_pandas(True).query(expr, local_dict=names, global_dict={}))

    def to_csv(self, path_or_buf=None, *args, **kwargs):
        """Write CSV as cuDF does: floats have ten significant digits."""
        frame = self._as_pandas(True)
        for at, column in enumerate(self._columns.values()):
            if column.dtype.kind == "f":
                texts = [one if pd.isna(one) else float_text(one) for one in frame.iloc[:, at]]
                frame.isetitem(at, pd.array(texts, dtype=object))
        return frame.to_csv(path_or_buf, *args, **kwargs)

    def merge(self, right, *args, **kwargs) -> DataFrame:
        if (how := kwargs.get("how", args[0] if args else "inner")) in ("leftsemi", "leftanti"):
            return self._half_join(
                right, how, *args[1:], **{key: one for key, one in kwargs.items() if key != "how"}
            )
        merge = self._as_pandas(True).merge
        return call("DataFrame", "merge", merge, (right, *args), kwargs, True)

    def agg(self, aggs, axis=None):
        """Aggregate columns by name; several results are sorted as in cuDF."""
        if axis is not None:
            raise NotImplementedError("axis not implemented yet")
        if any(one == np.dtype(object) for one in self.dtypes):
            raise NotImplementedError(
                "DataFrame.agg() is not supported for frames containing string columns"
            )
        entries = list(aggs.values()) if isinstance(aggs, dict) else [aggs]
        if any(map(callable, entries)):
            raise NotImplementedError("callable parameter is not implemented yet")
        made = self._as_pandas().agg(aggs)
        if made.ndim == 2:
            made = made.sort_index() if isinstance(aggs, dict) else made.sort_index(axis=1)
        return wrap(made)

    def corr(self, *args, **kwargs) -> DataFrame:
        """Return the correlation of each pair of columns. Raises NotImplementedError for nulls."""
        return self._of_whole_columns("corr", args, kwargs)

    def cov(self, *args, **kwargs) -> DataFrame:
        """Return the covariance of each pair of columns. Raises NotImplementedError for nulls."""
        return self._of_whole_columns("cov", args, kwargs)

    def _of_whole_columns(self, name: str, args: tuple, kwargs: dict) -> DataFrame:
        if any(one.null_count for one in self._columns.values()):
            raise NotImplementedError(f"cupy-based {name} does not support nulls")
        return pandas_method(name)(self, *args, **kwargs)

    def update(self, other, *args, **kwargs) -> None:
        frame = self._as_pandas(True).copy()
        call("DataFrame", "update", frame.update, (other, *args), kwargs, True)
        self._write(wrap(frame))

    def items(self) -> Iterator[tuple]:
        """Yield the name and the Series of each column."""
        for name in self._columns:
            yield name, self._series(name)


WRAPPED[pd.DataFrame] = DataFrame._of_pandas
give_operators(DataFrame)
give_indexers(DataFrame)
give_windows(DataFrame)
give_methods(
    DataFrame,
    (
        "abs add add_prefix add_suffix all any clip count cummax cummin cumprod "
        "cumsum div divide dot drop drop_duplicates dropna duplicated eq equals eval explode "
        "fillna ffill bfill floordiv ge gt head interpolate isin isna isnull keys "
        "kurt kurtosis le lt max mean median melt min mod mode mul multiply ne "
        "nlargest "
        "notna notnull nsmallest nunique pipe pow prod product quantile query radd rank "
        "rdiv rename replace reset_index rfloordiv rmod rmul round rpow rsub rtruediv sample "
        "select_dtypes set_index skew sort_index sort_values squeeze stack std sub subtract sum "
        "swaplevel tail take to_csv to_json to_parquet to_records to_string transpose truediv "
        "truncate value_counts var"
    ),
)
give_methods(
    DataFrame,
    "diff join mask pct_change pivot pivot_table reindex shift unstack where",
    with_nulls=True,
)
give_properties(DataFrame, "T axes ndim size")
