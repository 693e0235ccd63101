"""``cupy.typing``: the types of arrays for annotations."""

from __future__ import annotations

from numpy.typing import ArrayLike, DTypeLike, NBitBase

from .._arrays.core import ndarray as NDArray

__all__ = ["ArrayLike", "DTypeLike", "NBitBase", "NDArray"]
