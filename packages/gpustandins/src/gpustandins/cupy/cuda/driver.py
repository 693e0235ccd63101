"""``cupy.cuda.driver``: the error of a launch that fails."""

from __future__ import annotations

from .._kernel_errors import CUDADriverError

__all__ = ["CUDADriverError"]
