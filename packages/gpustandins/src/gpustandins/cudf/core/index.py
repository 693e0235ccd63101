"""``cudf.core.index``: the Index classes."""

from __future__ import annotations

from .._index import DatetimeIndex, Index, MultiIndex, RangeIndex

__all__ = ["DatetimeIndex", "Index", "MultiIndex", "RangeIndex"]
