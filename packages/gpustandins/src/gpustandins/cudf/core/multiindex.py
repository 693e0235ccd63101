"""``cudf.core.multiindex``: the MultiIndex class."""

from __future__ import annotations

from .._index import MultiIndex

__all__ = ["MultiIndex"]
