"""``cudf.core.dataframe``: the DataFrame class."""

from __future__ import annotations

from .._dataframe import DataFrame

__all__ = ["DataFrame"]
