"""Arrays on a CUDA device: inputs are read there, and results stay there.

Both go by DLPack, so the stream of one library waits for what the other has queued.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.dlpack
import numpy as np

#: kDLCUDA of DLPack.
CUDA = 2


def on_device(array) -> bool:
    """Return True if an array lies on a CUDA device: JAX's, CuPy's or Numba's."""
    kind = type(array)  # a class has these names too
    if hasattr(kind, "__dlpack_device__"):
        return not isinstance(array, np.ndarray) and array.__dlpack_device__()[0] == CUDA
    return hasattr(kind, "__cuda_array_interface__")


def arriving(array):
    """Return an argument unchanged if it lies on a device, else as a NumPy array."""
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

    None where JAX has no such device.

    Tried with one: the device may be missing in JAX, or be virtual.
    """
    try:
        jax.dlpack.from_dlpack(cp.zeros(2, np.float32))
    except (RuntimeError, BufferError):
        return None
    return jax.dlpack.from_dlpack
