"""``cudf.core.series``: columns, as ``cudf.Series``."""

from __future__ import annotations

from .._series import Series

__all__ = ["Series"]
