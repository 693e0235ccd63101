"""``cupy.cuda.thrust``: sorting of memory at an address, with Thrust's interface; NumPy sorts.

Each function receives the device addresses of C-contiguous memory. Sorting is stable, and NaN
comes last. ``cupy.sort``, ``cupy.argsort`` and ``cupy.lexsort`` do the same for arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._at_address import array_at, used

__all__ = ["argsort", "available", "lexsort", "sort"]

available = True


def sort(dtype: Any, data_start: int, keys_start: int, shape: Sequence[int]) -> None:
    """Sort numbers in place along the last axis of `shape`.

    `keys_start`, which Thrust uses to sort several rows, is ignored.
    """
    data = array_at(data_start, shape, dtype)
    data._host.sort(axis=-1, kind="stable")
    used("thrust.sort", data)


def lexsort(dtype: Any, idx_start: int, keys_start: int, k: int, n: int) -> None:
    """Write the order (int64) of `n` elements with `k` rows of keys; the last is primary."""
    keys, order = array_at(keys_start, (k, n), dtype), array_at(idx_start, (n,), np.int64)
    order._host[...] = np.lexsort(keys._host)
    used("thrust.lexsort", order)


def argsort(
    dtype: Any, idx_start: int, data_start: int, keys_start: int, shape: Sequence[int]
) -> None:
    """Write the order (int64) that sorts each row, and also sort the numbers in place."""
    if not math.prod(shape):
        return
    data, order = array_at(data_start, shape, dtype), array_at(idx_start, shape, np.int64)
    order._host[...] = np.argsort(data._host, axis=-1, kind="stable")
    data._host[...] = np.take_along_axis(data._host, order._host, axis=-1)
    used("thrust.argsort", order)
    used("thrust.argsort", data)


def __getattr__(name: str) -> Any:
    from .._missing import missing

    raise missing(__name__, name, "cupy.sort, cupy.argsort and cupy.lexsort")
