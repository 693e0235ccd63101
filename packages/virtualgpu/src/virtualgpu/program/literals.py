"""PTX literals as arrays of one element."""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import PTXSyntaxError
from virtualgpu.operations.types import UNSIGNED
from virtualgpu.ptx import Immediate
from virtualgpu.wording import a_or_an


def literal(value: Immediate, want: np.dtype) -> np.ndarray:
    """Return a literal as an array of dtype ``want`` and shape (1,)."""
    if value.type is None:
        if want.kind == "f":
            raise PTXSyntaxError(f"integer {value.value} where a float is required")
        if want.kind == "b":
            return np.array([bool(value.value)])
        if not -(1 << 63) <= value.value < 1 << 64:
            raise PTXSyntaxError(f"{value.value} does not fit 64 bits")
        bits = value.value & ((1 << 8 * want.itemsize) - 1)
        return np.array([bits], UNSIGNED[want.itemsize]).view(want)
    have = np.dtype("f4" if value.type == "f32" else "f8")
    array = np.array([value.value], UNSIGNED[have.itemsize]).view(have)
    if want.kind == "f" and want != have:
        with np.errstate(all="ignore"):
            array = array.astype(want)
    elif want.itemsize != have.itemsize:
        raise PTXSyntaxError(f"{a_or_an(value.type)} literal where {want} is required")
    return array.view(want)
