"""``cudf.core.index``: the indices, as ``cudf.Index`` and its like."""

from __future__ import annotations

from .._index import DatetimeIndex, Index, MultiIndex, RangeIndex

__all__ = ["DatetimeIndex", "Index", "MultiIndex", "RangeIndex"]
