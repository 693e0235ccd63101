"""The Series: a named column with row labels."""

from __future__ import annotations

import cupy
import numpy as np
import pandas as pd

from . import _udf
from ._accessors import CategoricalAccessor, DatetimeProperties, StringMethods
from ._binary import give_operators
from ._columns import Column, as_column, astype, nans_to_nulls, nullable, settle
from ._frame import Frame, NotIterable
from ._groupby import SeriesGroupBy
from ._index import Index, as_labels
from ._indexers import give_indexers
from ._names import SERIES
from ._rolling import give_windows
from ._wrapping import (
    WRAPPED,
    as_cudf_says,
    give_methods,
    give_properties,
    pandas_series,
    unwrap,
    wrap,
)


class Series(NotIterable, Frame):
    """One column with row labels, like ``cudf.Series``.

    Parameters
    ----------
    data : CuPy, Numba, NumPy or pandas array, sequence, dict or scalar
        A device array is shared, not copied.
    index : array-like, optional
    dtype : dtype, optional
    name : str, optional
    nan_as_null : bool
        If True (the default, as in cuDF), NaN becomes <NA>.

    Raises
    ------
    cudf.errors.MixedTypeError
        If the values have several types, because there are no object columns.
    """

    _names_there = SERIES

    def __init__(self, data=None, index=None, dtype=None, name=None, copy=False, nan_as_null=True):
        labels = None if index is None else as_labels(index)
        if isinstance(data, dict):
            labels = pd.Index(list(data)) if labels is None else labels
            data = [data.get(label) for label in labels]
        elif isinstance(data, Series | pd.Series):
            name = data.name if name is None else name
            if labels is not None:
                data = wrap(unwrap(data, True)).reindex(labels)
            else:
                labels = data._index if isinstance(data, Series) else data.index
        elif isinstance(data, Index | pd.Index) and name is None:
            name = data.name
        if data is None:
            data = [None] * (0 if labels is None else len(labels))
        column = as_column(data, dtype, nan_as_null, None if labels is None else len(labels))
        if labels is not None and len(labels) != len(column):
            raise ValueError(
                f"Length of values ({len(column)}) does not match length of index ({len(labels)})"
            )
        self._column = Column(column.values.copy()) if copy else column
        self._index = pd.RangeIndex(len(column)) if labels is None else labels
        self.name = name

    @classmethod
    def _of(cls, column: Column, index: pd.Index, name) -> Series:
        self = object.__new__(cls)
        self._column, self._index, self.name = column, index, name
        return self

    @classmethod
    def from_pandas(cls, series: pd.Series, nan_as_null=True) -> Series:
        return cls(series, nan_as_null=nan_as_null)

    def _as_pandas(self, with_nulls: bool = False) -> pd.Series:
        return pandas_series(self._column, self._index, self.name, with_nulls)

    def _take(self, other: Series) -> None:
        """Take over all contents of ``other`` (``inplace=True``), without writing to memory."""
        self._column, self._index, self.name = other._column, other._index, other.name

    def _write(self, other: Series) -> None:
        """Copy the values of ``other``, into the same memory if dtype and length are unchanged."""
        if len(other) == len(self):
            self._column.update(other._column.values)
        else:
            self._take(other)

    # -- properties ----------------------------------------------------------------------------

    @property
    def dtype(self):
        return self._column.dtype

    @property
    def null_count(self) -> int:
        return self._column.null_count

    @property
    def has_nulls(self) -> bool:
        return self.null_count > 0

    @property
    def nullable(self) -> bool:
        return not isinstance(self._column.values, np.ndarray)

    @property
    def index(self) -> Index:
        return Index._of(self._index)

    @index.setter
    def index(self, value) -> None:
        self._index = as_labels(value)

    @property
    def __cuda_array_interface__(self) -> dict:
        if self.has_nulls:
            raise ValueError("Column must have no nulls.")
        return self._column.device().__cuda_array_interface__

    def __len__(self) -> int:
        return len(self._column)

    def __contains__(self, label) -> bool:
        return label in self._index

    def __repr__(self) -> str:
        return as_cudf_says(repr(self._as_pandas()))

    @property
    def valid_count(self) -> int:
        return len(self) - self.null_count

    def nans_to_nulls(self) -> Series:
        """Return a new Series with <NA> in place of NaN."""
        return Series._of(Column(nans_to_nulls(self._column.values.copy())), self._index, self.name)

    # -- conversion ----------------------------------------------------------------------------

    def memory_usage(self, index: bool = True, deep: bool = False) -> int:
        """Return the bytes used on a GPU; strings always count in full, whatever ``deep`` is."""
        return self._column.bytes() + (self.index.memory_usage() if index else 0)

    def to_pandas(self, *, nullable: bool = False) -> pd.Series:
        """Return a pandas Series; integers with nulls become floats unless ``nullable`` is True."""
        series = self._as_pandas()
        if not nullable and hasattr(series.dtype, "numpy_dtype"):
            if series.dtype.kind == "b":
                return series.astype(object).where(series.notna(), None)
            return pd.Series(self._column.host(), self._index, name=self.name)
        if not nullable and isinstance(series.dtype, pd.StringDtype):
            texts = series.astype(object).where(series.notna(), None)
            return texts.infer_objects()  # gives pandas 3 its own string type
        return series.astype(nullable_name(series.dtype)) if nullable else series.copy()

    def to_cupy(self, dtype=None, copy: bool = False, na_value=None) -> cupy.ndarray:
        """Return a CuPy array, which shares memory if there are no nulls and ``copy`` is False."""
        column = self._column if na_value is None else self.fillna(na_value)._column
        array = column.device()
        if dtype is not None and array.dtype != np.dtype(dtype):
            return array.astype(dtype)
        return array.copy() if copy else array

    def to_numpy(self, dtype=None, copy: bool = True, na_value=None) -> np.ndarray:
        if not copy:
            raise ValueError(
                "copy=False is not supported because conversion to a numpy array "
                "always copies the data."
            )
        column = self._column if na_value is None else self.fillna(na_value)._column
        host = column.host()
        return host if dtype is None else host.astype(dtype)

    def to_frame(self, name=None):
        return wrap(self._as_pandas().to_frame(**({} if name is None else {"name": name})))

    # -- selection -----------------------------------------------------------------------------

    def __getitem__(self, key):
        if isinstance(key, slice):
            return wrap(self._as_pandas()[key])
        result = wrap(self._as_pandas()[unwrap(key)])
        return result

    def __setitem__(self, key, value) -> None:
        series = self._as_pandas(True).copy()
        series[unwrap(key)] = unwrap(value)
        self._write(wrap(series))

    def copy(self, deep: bool = True) -> Series:
        """Return a deep copy even if ``deep=False``, because cuDF copies on the first write."""
        return Series._of(Column(self._column.values.copy()), self._index, self.name)

    # -- computation ---------------------------------------------------------------------------

    def astype(self, dtype, copy: bool = False, errors: str = "raise") -> Series:
        return Series._of(astype(self._column, dtype), self._index, self.name)

    def apply(self, func, convert_dtype: bool = True, args: tuple = (), **kwargs) -> Series:
        """Compile ``func`` with Numba for the device and call it on each value.

        Raises ValueError if ``func`` does not compile. Python computes its result for a null.
        """
        if kwargs:
            raise ValueError("UDFs using **kwargs are not yet supported.")
        return Series._of(_udf.apply(self._column, func, args), self._index, self.name)

    def map(self, arg, na_action=None) -> Series:
        """Look values up in a dict or a Series (null if missing), or ``apply`` a function."""
        if callable(arg):
            return self.apply(arg)
        return wrap(self._as_pandas(True).map(unwrap(arg, True)))

    def isin(self, values) -> Series:
        """Return True for each value in ``values``; a null is found if ``values`` contains one."""
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise TypeError(
                "only list-like objects are allowed to be passed to isin(), you passed "
                f"a [{type(values).__name__}]"
            )
        wanted = pd.Series(list(unwrap(values, True)), dtype=object)
        mine = self._as_pandas(True)
        found = np.array(mine.isin(wanted[wanted.notna()].tolist()), bool)
        found[mine.isna().to_numpy()] = wanted.isna().any()
        return Series._of(as_column(found), self._index, self.name)

    def unique(self) -> Series:
        """Return the distinct values in order of first appearance."""
        return self.drop_duplicates().reset_index(drop=True)

    def update(self, other) -> None:
        series = self._as_pandas(True).copy()
        series.update(unwrap(other, True))
        self._write(wrap(series))

    def items(self):
        self.__iter__()

    def digitize(self, bins, right: bool = False) -> Series:
        """Return the bin index of each value as int32."""
        numbers = np.digitize(self._column.host(), unwrap(bins), right).astype(np.int32)
        return Series._of(Column(numbers), self._index, self.name)

    def groupby(self, by=None, level=None, sort: bool = False, dropna: bool = True, **kwargs):
        grouped = self._as_pandas().groupby(
            unwrap(by),
            level=level,
            sort=sort,
            dropna=dropna,
            **{"group_keys": False, **kwargs, "observed": True},
        )
        return SeriesGroupBy(grouped)

    def value_counts(self, normalize=False, sort=True, ascending=False, bins=None, dropna=True):
        counts = self._as_pandas().value_counts(normalize, sort, ascending, bins, dropna)
        return wrap(counts)

    @property
    def str(self) -> StringMethods:
        if self.dtype != np.dtype(object):
            raise AttributeError("Can only use .str accessor with string values!")
        return StringMethods(self)

    @property
    def dt(self) -> DatetimeProperties:
        if getattr(self.dtype, "kind", "") not in "mM":
            raise AttributeError("Can only use .dt accessor with datetimelike values")
        return DatetimeProperties(self)

    @property
    def cat(self) -> CategoricalAccessor:
        if not isinstance(self.dtype, pd.CategoricalDtype):
            raise AttributeError("Can only use .cat accessor with a 'category' dtype")
        return CategoricalAccessor(self)


def nullable_name(dtype) -> str:
    """Return the name of pandas' masked dtype for a NumPy dtype."""
    if getattr(dtype, "kind", "O") in "biuf" and isinstance(dtype, np.dtype):
        return str(nullable(np.zeros(0, dtype)).dtype)
    return str(dtype)


WRAPPED[pd.Series] = lambda one: Series._of(Column(settle(one)), one.index, one.name)
WRAPPED[pd.api.extensions.ExtensionArray] = lambda one: Series._of(
    Column(settle(one)), pd.RangeIndex(len(one)), None
)
give_operators(Series)
give_indexers(Series)
give_windows(Series)
give_methods(
    Series,
    (
        "abs add add_prefix add_suffix all any argsort autocorr between clip corr count cov cummax "
        "cummin cumprod cumsum describe div divide dot drop drop_duplicates dropna "
        "duplicated eq equals explode factorize fillna ffill bfill floordiv ge gt head interpolate "
        "isin isna isnull keys kurt kurtosis le lt max mean median min mod mode mul "
        "multiply ne nlargest notna notnull nsmallest nunique pipe pow prod product "
        "quantile radd rank rdiv rename repeat replace reset_index rfloordiv rmod rmul round "
        "rpow rsub "
        "rtruediv sample searchsorted skew sort_index sort_values squeeze std sub subtract "
        "sum tail take truediv truncate var to_dict to_json to_string"
    ),
)
give_methods(Series, "diff mask pct_change reindex shift unstack where", with_nulls=True)
give_properties(
    Series,
    ("hasnans is_monotonic_decreasing is_monotonic_increasing is_unique ndim shape size axes T"),
)
