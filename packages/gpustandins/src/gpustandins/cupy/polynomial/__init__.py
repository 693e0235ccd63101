"""``cupy.polynomial``: the modules ``polynomial`` and ``polyutils``."""

from __future__ import annotations

from . import polynomial, polyutils

__all__ = ["polynomial", "polyutils"]
