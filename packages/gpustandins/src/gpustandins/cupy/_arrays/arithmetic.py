"""Arithmetic in which the results of CuPy's kernels differ from NumPy's.

Each function receives host views of the arguments and of the results, and returns True if it wrote
the results. If it returns False, NumPy's own loop gives the right result. The formulas are those
of CuPy 14.2's kernels (``_routines_math``, ``carray.cuh``).
"""

from __future__ import annotations

import numpy as np


def power(inputs, targets) -> bool:
    """Raise integers to negative powers: the result is 1, −1 or 0, where NumPy raises an error."""
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
    """Compute reciprocals of integers for which 1/0 is 0."""
    (x,), (target,) = inputs, targets
    if target.dtype.kind not in "iu" or np.all(x):
        return False
    target[...] = np.where(x == 0, 0, np.reciprocal(np.where(x == 0, 1, x)))
    return True


def floor_divide(inputs, targets) -> bool:
    """Compute ``floor(x / y)`` for floats: 1 // 0.1 is 10 (it is 9 in NumPy and Python)."""
    (target,) = targets
    if target.dtype.kind != "f":
        return False
    np.true_divide(*inputs, out=target, casting="unsafe")
    np.floor(target, out=target)
    return True


def remainder(inputs, targets) -> bool:
    """Compute ``x - floor(x / y) * y`` for floats, rounded after each step.

    PTX allows a GPU to combine the last two steps into one fma. The virtual GPU never does this,
    but on a real GPU ``1 % 0.1`` can be -5.6e-17 instead of 0.
    """
    (target,) = targets
    if target.dtype.kind != "f":
        return False
    x, y = (np.asarray(one, target.dtype) for one in inputs)
    rest = np.empty_like(target) if any(map(np.may_share_memory, (x, y), (target,) * 2)) else target
    np.true_divide(x, y, out=rest)
    np.floor(rest, out=rest)
    np.multiply(rest, y, out=rest)
    np.subtract(x, rest, out=target)
    return True


def divmod_(inputs, targets) -> bool:
    """Compute both the floored quotient and the remainder of floats."""
    quotient, rest = targets
    if quotient.dtype.kind != "f":
        return False
    x, y = (np.asarray(one, quotient.dtype) for one in inputs)
    whole = np.floor(x / y)
    result = x - whole * y
    quotient[...] = whole
    rest[...] = result
    return True


SPECIAL = {
    "cupy_power": power,
    "cupy_reciprocal": reciprocal,
    "cupy_floor_divide": floor_divide,
    "cupy_remainder": remainder,
    "cupy_divmod": divmod_,
}
