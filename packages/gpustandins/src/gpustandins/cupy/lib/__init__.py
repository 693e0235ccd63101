"""``cupy.lib``: the module ``stride_tricks``."""

from __future__ import annotations

from . import stride_tricks

__all__ = ["stride_tricks"]
