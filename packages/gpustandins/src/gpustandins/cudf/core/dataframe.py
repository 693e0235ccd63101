"""``cudf.core.dataframe``: tables, as ``cudf.DataFrame``."""

from __future__ import annotations

from .._dataframe import DataFrame

__all__ = ["DataFrame"]
