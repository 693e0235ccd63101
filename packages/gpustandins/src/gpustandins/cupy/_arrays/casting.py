"""Casts with a GPU's results: floats outside an integer type's range are clamped to it.

In NumPy the result of such a cast depends on the CPU (on x86-64, −1.0 as uint32 is 4294967295 and
infinity as int32 is −2147483648). On a GPU, ``cvt.rzi`` clamps to the range of the 32-bit or
64-bit integer (PTX ISA, "cvt"), and a type of 8 or 16 bits takes the low bits of the clamped
32-bit value. NaN becomes 0 if a float32 or float16 is converted to 32 bits; otherwise only the
sign bit is set.
"""

from __future__ import annotations

import numpy as np


def cast(source: np.ndarray, target: np.ndarray) -> None:
    """Write ``source`` into ``target``, broadcast and cast as on a GPU.

    Gives a ComplexWarning if an imaginary part is discarded.
    """
    if source.dtype.kind == "c" and target.dtype.kind in "fiu":
        np.copyto(target, source, casting="unsafe")  # gives the ComplexWarning
        source = source.real
    if source.dtype.kind == "f" and target.dtype.kind in "iu" and source.size:
        if source.dtype == np.float16:  # float16 cannot represent the limits
            source = source.astype(np.float32)
        if target.dtype.char in "il" or target.dtype == np.int64:
            try:
                with np.errstate(invalid="raise"):  # the CPU reports a value that does not fit
                    np.copyto(target, source, casting="unsafe")
                return
            except FloatingPointError:
                source = saturate(source, target.dtype)
        elif not _fits(source, target.dtype):
            source = saturate(source, target.dtype)
    with np.errstate(over="ignore"):
        np.copyto(target, source, casting="unsafe")


def saturate(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert floats to the integer type ``dtype``, clamped as ``cvt.rzi`` does."""
    wide = np.dtype(f"{dtype.kind}{max(dtype.itemsize, 4)}")
    limits = np.iinfo(wide)
    # 2**32 and 2**64 are floats, but the largest integers below them are not.
    too_high = values >= float(limits.max + 1)
    too_low = values <= float(limits.min)
    nan = np.isnan(values)
    inside = np.where(too_high | too_low | nan, 0, values)
    result = np.asarray(inside.astype(wide))
    result[too_high] = limits.max
    result[too_low] = limits.min
    sign_bit = 1 << (8 * wide.itemsize - 1)
    zero = wide.itemsize == 4 and values.dtype.itemsize < 8
    result[nan] = 0 if zero else limits.min if dtype.kind == "i" else sign_bit
    return result.astype(dtype)


def _fits(values: np.ndarray, dtype: np.dtype) -> bool:
    limits = np.iinfo(dtype)
    # Comparisons with NaN are false.
    return bool(
        values.min() > float(limits.min) - (dtype.itemsize < 8)
        and values.max() < float(limits.max + 1)
    )
