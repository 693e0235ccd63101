"""CuPy for machines without a GPU: arrays on the virtual GPU, computed with NumPy."""

from __future__ import annotations

from virtualgpu.standins import only_as

only_as("cupy", __name__)

from ._core import empty, ndarray  # noqa: E402

__all__ = ["empty", "ndarray"]
