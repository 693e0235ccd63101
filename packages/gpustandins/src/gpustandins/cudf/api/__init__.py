"""``cudf.api``: data type checks."""

from __future__ import annotations

from . import types

__all__ = ["types"]


def __getattr__(name: str):
    from .._missing import missing

    raise missing("cudf.api", name)
