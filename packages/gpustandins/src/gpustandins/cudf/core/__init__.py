"""``cudf.core``: where libraries look for cuDF's classes to ask what an object is."""

from __future__ import annotations

from . import dataframe, dtypes, index, multiindex, series

__all__ = ["dataframe", "dtypes", "index", "multiindex", "series"]


def __getattr__(name: str):
    from .._missing import missing

    raise missing("cudf.core", name)
