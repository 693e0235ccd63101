"""Errors of cuDF."""

from __future__ import annotations

from ._columns import MixedTypeError

__all__ = ["MixedTypeError", "UnsupportedCUDAError"]


class UnsupportedCUDAError(Exception):
    """The GPU or its driver is too old; never raised here."""
