"""``cudf.core.multiindex``: indices of several levels, as ``cudf.MultiIndex``."""

from __future__ import annotations

from .._index import MultiIndex

__all__ = ["MultiIndex"]
