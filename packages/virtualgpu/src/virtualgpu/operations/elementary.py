"""Expressions for exp2, log2, sine and tanh in double precision.

They are for arguments of single precision or less. Errors are below 2**-40 of the result, so
rounding to f32 gives the nearest number except in one case in ten thousand. Every step is a
multiplication, addition, division or selection that IEEE 754 defines, so all processors give the
same bits; no C library guarantees that. The method is argument reduction followed by Taylor
polynomials (J.-M. Muller, "Elementary Functions", 3rd edition, 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from virtualgpu.operations.expression import (
    Value,
    integral,
    magnitude,
    select,
    with_sign_of,
)

_FRACTION, _BIAS = (1 << 52) - 1, 1023


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate ``c[0] + c[1] x + ...`` with Horner's rule."""
    total = x.number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def exp2(x: Value) -> Value:
    """Return two to the power of ``x``, with ``x`` clamped to -200 … 200."""
    x = select(x < -200, -200, select(x > 200, 200, x))
    whole = integral(x, "n")
    scale = ((whole.to("s64") + _BIAS) << 52).view("f64")
    powers = [math.log(2) ** k / math.factorial(k) for k in range(14)]
    return _polynomial(x - whole, powers) * scale


def log2(x: Value) -> Value:
    """Return the binary logarithm, NaN below zero; ``x`` must not be a subnormal double."""
    bits = x.view("u64")
    exponent = (bits >> 52).view("s64") - _BIAS
    fraction = ((bits & _FRACTION) | (_BIAS << 52)).view("f64")  # in [1, 2)
    upper = fraction > math.sqrt(2)
    fraction = select(upper, fraction * 0.5, fraction)
    exponent = select(upper, exponent + 1, exponent)
    # log f = 2 artanh((f - 1) / (f + 1))
    s = (fraction - 1) / (fraction + 1)
    series = _polynomial(s * s, [2 / math.log(2) / k for k in range(1, 24, 2)])
    result = exponent.to("f64") + s * series
    result = select(x < math.inf, result, x)  # NaN is kept too
    result = select(x == 0, -math.inf, result)
    return select(x < 0, math.nan, result)


def tanh(x: Value) -> Value:
    size = magnitude(x)
    squared = x * x
    near_zero = size * _polynomial(squared, [1, -1 / 3, 2 / 15, -17 / 315, 62 / 2835])
    q = exp2(size * (-2 / math.log(2)))
    result = select(size < 0.01, near_zero, (-q + 1) / (q + 1))
    return with_sign_of(result, x)


def sine_of_turn(x: Value) -> Value:
    """Return the sine of ``x`` times 2 pi, for ``x`` from 0 to 1/4."""
    angle = x * (2 * math.pi)
    squared = angle * angle
    return angle * _polynomial(squared, [(-1) ** k / math.factorial(2 * k + 1) for k in range(12)])
