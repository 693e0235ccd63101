"""``cudf.core.series``: the Series class."""

from __future__ import annotations

from .._series import Series

__all__ = ["Series"]
