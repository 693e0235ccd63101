"""Arrays in device memory for tests of kernels that are not Numba's: made by Numba."""

from __future__ import annotations

import numpy as np
from numba import cuda


def asarray(values, dtype=None):
    """Return a copy on the device; an array that is there already comes back as it is."""
    if hasattr(values, "copy_to_host"):
        return values
    return cuda.to_device(np.ascontiguousarray(values, dtype))


def empty(shape, dtype=float):
    """Return memory that was never written."""
    return cuda.device_array(shape, dtype)


def full(shape, value, dtype=None):
    return asarray(np.full(shape, value, dtype))


def zeros(shape, dtype=float):
    return full(shape, 0, dtype)


def ones(shape, dtype=float):
    return full(shape, 1, dtype)


def zeros_like(array):
    return zeros(array.shape, array.dtype)


def arange(*bounds, dtype=None):
    return asarray(np.arange(*bounds, dtype=dtype))


def address(array) -> int:
    return array.__cuda_array_interface__["data"][0]
