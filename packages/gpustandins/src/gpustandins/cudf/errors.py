"""cuDF's exception classes."""

from __future__ import annotations

from ._columns import MixedTypeError

__all__ = ["MixedTypeError", "UnsupportedCUDAError"]


class UnsupportedCUDAError(Exception):
    """Error for a GPU or driver that is too old; the stand-in never raises it."""
