"""Arrays on a CUDA device as arguments and results, without copies through the host.

Both are passed by DLPack, so the stream of one library waits for work that the other has queued.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.dlpack
import numpy as np

#: Device type kDLCUDA of DLPack.
CUDA = 2


def on_device(array) -> bool:
    """Return True if a JAX, CuPy or Numba array is on a CUDA device."""
    kind = type(array)  # a class has these attributes too
    if hasattr(kind, "__dlpack_device__"):
        return not isinstance(array, np.ndarray) and array.__dlpack_device__()[0] == CUDA
    return hasattr(kind, "__cuda_array_interface__")


def arriving(array):
    """Return a device array unchanged, and any other argument as a NumPy array."""
    return array if on_device(array) else np.asarray(array)


def taken(cp, array, dtype: np.dtype):
    """Return an argument as a one-dimensional CuPy array.

    A device array with gaps or another dtype is copied on the device.
    """
    by_dlpack = on_device(array) and hasattr(array, "__dlpack__")
    found = cp.from_dlpack(array) if by_dlpack else cp.asarray(array)
    return found.astype(dtype, copy=False).reshape(-1)


@cache
def staying(cp) -> Callable[[Any], jax.Array] | None:
    """Return the function that turns CuPy arrays into JAX arrays without a copy.

    Return None if JAX does not have this device. One array is converted to find out, because JAX
    may not see the device, or the device may be virtual.
    """
    try:
        jax.dlpack.from_dlpack(cp.zeros(2, np.float32))
    except (RuntimeError, BufferError):
        return None
    return jax.dlpack.from_dlpack
