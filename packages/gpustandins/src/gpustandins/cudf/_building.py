"""Conversion of the DataFrame constructor's arguments to columns."""

from __future__ import annotations

import pandas as pd

from ._columns import as_column, settle
from ._series import Series
from ._wrapping import unwrap


def columns_of(frame: pd.DataFrame, nan_as_null: bool = False) -> dict:
    """Return the columns of a pandas DataFrame by name. Raises ValueError for a repeated name."""
    once(frame.columns)
    return {
        name: as_column(settle(frame.iloc[:, at]), None, nan_as_null)
        for at, name in enumerate(frame.columns)
    }


def once(names) -> None:
    """Raise ValueError for a repeated column name, because cuDF allows none."""
    names = pd.Index(names)
    if not names.is_unique:
        raise ValueError(
            f"Duplicate column names are not allowed: {names[names.duplicated()][0]!r} is repeated"
        )


def columns_of_dict(data: dict, labels: pd.Index | None, nan_as_null: bool) -> tuple:
    """Return columns by name and their common index. Raises ValueError for unequal lengths."""
    series = [one for one in data.values() if isinstance(one, Series | pd.Series)]
    indexes = [one._index if isinstance(one, Series) else one.index for one in series]
    if indexes and not all(one.equals(indexes[0]) for one in indexes):
        frame = pd.DataFrame({at: unwrap(one, True) for at, one in enumerate(data.values())})
        frame.columns = pd.Index(list(data))
        return columns_of(frame), frame.index
    lengths = {
        len(one) for one in data.values() if hasattr(one, "__len__") and not isinstance(one, str)
    }
    if len(lengths) > 1:
        raise ValueError("All columns must be of equal length")
    length = lengths.pop() if lengths else (1 if labels is None else len(labels))
    columns = {name: as_column(one, None, nan_as_null, length) for name, one in data.items()}
    index = indexes[0] if indexes else pd.RangeIndex(length if data else 0)
    return columns, index
