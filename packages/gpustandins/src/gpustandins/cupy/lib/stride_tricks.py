"""Views with a given shape and strides."""

from __future__ import annotations

import numpy as np

from .._arrays.core import ndarray, view_of
from .._arrays.creation import asarray


def as_strided(x: ndarray, shape=None, strides=None) -> ndarray:
    """Return a view of ``x`` with this shape and these strides (bytes), unchecked.

    An access of a kernel outside the array through such a view is still detected.
    """
    return view_of(x, np.lib.stride_tricks.as_strided(x._host, shape, strides))


def sliding_window_view(x: ndarray, window_shape, axis=None, *, subok=False, writeable=False):
    """Return a view with every window of ``window_shape`` elements along additional axes."""
    if writeable:
        raise NotImplementedError("Writeable views are not supported.")
    x = asarray(x)
    return view_of(
        x, np.lib.stride_tricks.sliding_window_view(x._host, window_shape, axis, writeable=True)
    )


__all__ = ["as_strided", "sliding_window_view"]
