"""Row labels: cuDF's Index classes, implemented with pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ._binary import give_operators
from ._columns import Column, as_column, nans_to_nulls, settle
from ._frame import Frame, NotIterable
from ._names import INDEX
from ._wrapping import WRAPPED, as_cudf_says, give_methods, give_properties, unwrap, wrap


def as_labels(labels) -> pd.Index:
    """Convert row labels to a pandas Index; a MultiIndex keeps its levels."""
    labels = unwrap(labels)
    return labels if isinstance(labels, pd.Index) else pd.Index(labels)


class Index(NotIterable, Frame):
    """Row labels. ``Index(data, dtype, name=...)`` returns the subclass that fits."""

    _names_there = INDEX

    def __new__(cls, data=None, dtype=None, name=None, **kwargs):
        if isinstance(data, Index | pd.Index):
            index = data._index if isinstance(data, Index) else data
            index = index if dtype is None else index.astype(dtype)
            return cls._of(index if name is None else index.rename(name))
        values = as_column([] if data is None else data, dtype).values
        return cls._of(pd.Index(values, name=name, copy=False))

    @classmethod
    def _of(cls, index: pd.Index) -> Index:
        kinds = {
            pd.RangeIndex: RangeIndex,
            pd.MultiIndex: MultiIndex,
            pd.DatetimeIndex: DatetimeIndex,
        }
        self = object.__new__(kinds.get(type(index), Index))
        self._index = index
        return self

    def _as_pandas(self, with_nulls: bool = False) -> pd.Index:
        return self._index

    def _take(self, other: Index) -> None:
        self._index = other._index

    def nans_to_nulls(self) -> Index:
        """Return a new index with <NA> in place of NaN."""
        values = nans_to_nulls(self._column.values.copy())
        return Index._of(pd.Index(values, name=self._index.name))

    @property
    def _column(self) -> Column:
        return Column(settle(self._index))

    @property
    def dtype(self):
        return self._column.dtype

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return as_cudf_says(repr(self._index))

    def __getitem__(self, key):
        return wrap(self._index[unwrap(key)])

    def memory_usage(self, deep: bool = False) -> int:
        """Return the bytes that the index uses on a GPU; a range needs none."""
        if isinstance(self._index, pd.RangeIndex):
            return 0
        if isinstance(self._index, pd.MultiIndex):
            levels = [self._index.get_level_values(i) for i in range(self._index.nlevels)]
            return sum(Column(settle(one)).bytes() for one in levels)
        return self._column.bytes()

    def to_pandas(self, *, nullable: bool = False) -> pd.Index:
        return self._index

    def to_cupy(self, dtype=None, copy: bool = False, na_value=None):
        """Return the labels as a device array."""
        return wrap(self._index.to_series()).to_cupy(dtype, copy, na_value)

    def to_numpy(self, dtype=None) -> np.ndarray:
        return self._index.to_numpy(dtype, copy=True)

    def to_series(self, index=None, name=None):
        return wrap(self._index.to_series(index, name))


class RangeIndex(Index):
    """Row labels that form a range of integers."""

    def __new__(cls, start, stop=None, step=1, name=None):
        if isinstance(start, range):
            start, stop, step = start.start, start.stop, start.step
        if stop is None:
            start, stop = 0, start
        return Index._of(pd.RangeIndex(start, stop, step, name=name))


class DatetimeIndex(Index):
    """Row labels that are dates or times."""

    def __new__(cls, data=None, name=None, **kwargs):
        return Index._of(pd.DatetimeIndex(as_column(data).values, name=name))


class MultiIndex(Index):
    """Row labels with several levels."""

    def __new__(cls, levels=None, codes=None, names=None, **kwargs):
        return Index._of(pd.MultiIndex(levels, codes, names=names))

    @classmethod
    def from_tuples(cls, tuples, names=None):
        return Index._of(pd.MultiIndex.from_tuples(tuples, names=names))

    @classmethod
    def from_arrays(cls, arrays, names=None):
        return Index._of(
            pd.MultiIndex.from_arrays([as_column(one).values for one in arrays], names=names)
        )

    @classmethod
    def from_frame(cls, df, names=None):
        return Index._of(pd.MultiIndex.from_frame(unwrap(df), names=names))

    @property
    def dtypes(self) -> pd.Series:
        """The dtype of each level, by level name."""
        levels = [self._index.get_level_values(i) for i in range(self._index.nlevels)]
        return pd.Series([Column(settle(one)).dtype for one in levels], self._index.names, object)

    @classmethod
    def from_product(cls, iterables, names=None):
        return Index._of(pd.MultiIndex.from_product(iterables, names=names))


WRAPPED[pd.Index] = Index._of
give_operators(Index)
give_methods(
    Index,
    (
        "all any append argsort astype copy difference drop_duplicates duplicated dropna "
        "equals fillna "
        "get_indexer get_level_values get_loc intersection isin isna isnull max min notna "
        "notnull nunique rename repeat searchsorted set_names sort_values take to_flat_index "
        "to_frame union unique where droplevel swaplevel join factorize ceil floor round day_name "
        "month_name isocalendar strftime"
    ),
)
give_properties(
    Index,
    (
        "has_duplicates hasnans is_monotonic_decreasing is_monotonic_increasing is_unique "
        "name names "
        "ndim nlevels shape size start stop step levels codes year month day hour minute second "
        "microsecond nanosecond weekday dayofweek dayofyear day_of_year quarter is_leap_year "
        "days_in_month inferred_type"
    ),
)
Index.name = Index.name.setter(lambda self, name: setattr(self, "_index", self._index.rename(name)))
