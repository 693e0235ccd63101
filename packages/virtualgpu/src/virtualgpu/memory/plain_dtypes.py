"""Plain dtypes: NumPy types whose elements are only bytes, which a device can hold.

An element of an array of Python objects is an address in this process. On a device it would be an
ordinary number, which a kernel can read and change, and back on the host NumPy would dereference
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Numbers, booleans, fixed-length strings, times and records. NumPy's StringDType has a different
# kind, and its elements are addresses too.
KINDS = frozenset("biufcSUMmV")


def is_plain(dtype: np.dtype) -> bool:
    """Return True if elements of this type consist only of bytes, also inside records."""
    return dtype.kind in KINDS and not dtype.hasobject


def demand_plain(dtype: Any, what: str = "an array") -> None:
    """Raise TypeError for an array type whose elements are addresses of Python objects."""
    dtype = np.dtype(dtype)
    if not is_plain(dtype):
        raise TypeError(
            f"{what} of dtype {dtype} cannot be on a device: its elements are addresses of "
            "Python objects in this process. NumPy makes such an array of None, of lists of "
            "unequal lengths, and of integers above 64 bits. Give the type of the numbers, "
            "as in np.array(values, dtype=np.float64)"
        )
