"""``cudf.core``: the modules in which other libraries look for cuDF's classes."""

from __future__ import annotations

from . import dataframe, dtypes, index, multiindex, series

__all__ = ["dataframe", "dtypes", "index", "multiindex", "series"]


def __getattr__(name: str):
    from .._missing import missing

    raise missing("cudf.core", name)
