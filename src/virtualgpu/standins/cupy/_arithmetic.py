"""Arithmetic where CuPy's kernels give another answer than NumPy.

Each function takes the host's views of the arguments and of the results, and returns whether it
wrote the results; where it did not, NumPy's own loop is right. The formulas are those of CuPy
14.2's kernels (``_routines_math``, ``carray.cuh``).
"""

from __future__ import annotations

import numpy as np

_SPLIT = 134217729.0  # 2**27 + 1: halves a double's digits (Dekker)
_PIECE = 16384  # elements: ten arrays of them fit into a second-level cache


def power(inputs, targets) -> bool:
    """Negative exponents of integers: NumPy refuses, CuPy's loop gives 1, −1 or 0."""
    (target,) = targets
    if target.dtype.kind != "i":
        return False
    base, exponent = (np.asarray(x, target.dtype) for x in inputs)
    if exponent.size == 0 or exponent.min() >= 0:
        return False
    negative = exponent < 0
    target[...] = np.power(base, np.where(negative, 0, exponent))
    inverse = np.where(base == -1, np.where(exponent & 1, -1, 1), base == 1)
    np.copyto(target, inverse.astype(target.dtype), where=negative)
    return True


def reciprocal(inputs, targets) -> bool:
    """1/0 of integers is 0."""
    (x,), (target,) = inputs, targets
    if target.dtype.kind not in "iu" or np.all(x):
        return False
    target[...] = np.where(x == 0, 0, np.reciprocal(np.where(x == 0, 1, x)))
    return True


def floor_divide(inputs, targets) -> bool:
    """``floor(x / y)`` for floats: 1 // 0.1 is 10, where NumPy and Python say 9."""
    (target,) = targets
    if target.dtype.kind != "f":
        return False
    np.true_divide(*inputs, out=target, casting="unsafe")
    np.floor(target, out=target)
    return True


def remainder(inputs, targets) -> bool:
    """``x - floor(x / y) * y`` for floats, with one rounding (the compiler makes it an fma)."""
    (target,) = targets
    if target.dtype.kind != "f":
        return False
    x, y = (np.broadcast_to(one, target.shape) for one in inputs)
    _in_pieces(target, x, y, lambda x, y: _rest(x, y, target.dtype))
    return True


def divmod_(inputs, targets) -> bool:
    """Both of the above."""
    quotient, rest = targets
    if quotient.dtype.kind != "f":
        return False
    result = np.empty(rest.shape, rest.dtype)
    remainder(inputs, (result,))
    floor_divide(inputs, (quotient,))
    rest[...] = result
    return True


def _in_pieces(target, x, y, function) -> None:
    """Compute piece by piece along the first axis, so that what lies between stays in a cache."""
    target, x, y = np.atleast_1d(target, x, y)
    rows = max(1, _PIECE * len(target) // max(target.size, 1))
    for start in range(0, len(target), rows):
        part = slice(start, start + rows)
        target[part] = function(x[part], y[part])


def _rest(x, y, dtype: np.dtype) -> np.ndarray:
    x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
    quotient = x / y
    np.floor(quotient, out=quotient)
    if dtype.itemsize < 8:  # the product is exact in double precision
        return x.astype(np.float64) - quotient.astype(np.float64) * y
    product = quotient * y
    high_q, high_y = _high(quotient), _high(y)
    low_q, low_y = quotient - high_q, y - high_y
    error = high_q * high_y
    error -= product
    error += high_q * low_y
    error += low_q * high_y
    error += low_q * low_y
    rest = x - product
    # Where the product overflows there is no error to speak of.
    return np.subtract(rest, error, out=rest, where=np.isfinite(error))


def _high(x: np.ndarray) -> np.ndarray:
    scaled = x * _SPLIT
    return scaled - (scaled - x)


SPECIAL = {
    "cupy_power": power,
    "cupy_reciprocal": reciprocal,
    "cupy_floor_divide": floor_divide,
    "cupy_remainder": remainder,
    "cupy_divmod": divmod_,
}
