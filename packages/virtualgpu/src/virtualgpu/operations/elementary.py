"""exp2, log2, sine, cosine and tanh in double precision, as expressions.

They serve arguments of single precision and shorter: errors stay below 2**-40 of the result, so
that rounding to f32 gives the nearest number but for one case in ten thousand. Every step is a
multiplication, addition, division or selection that IEEE 754 defines, so all processors give the
same bits, which no C library promises. Methods: J.-M. Muller, "Elementary Functions" (3rd
edition, 2016): polynomials of Taylor after argument reduction by Cody and Waite (11.2), for large
arguments by Payne and Hanek (11.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from virtualgpu.operations.expression import (
    Value,
    integral,
    is_finite,
    larger,
    magnitude,
    select,
    smaller,
    with_sign_of,
)

_FRACTION, _BIAS = (1 << 52) - 1, 1023
# pi / 2 in three parts of 29 bits, whose products with numbers below 2**24 are exact, and the rest.
_HALF_PI = tuple(map(float.fromhex, (
    "0x1.921fb54p+0", "0x1.10b4611p-30", "0x1.4c4c662p-59", "0x1.1701b839a252p-88")))
# 2 / pi to 200 bits behind the point, cut in two.
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE
_LOW_BITS = 105


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """``c[0] + c[1] x + ...`` by Horner's rule."""
    total = x.number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


def exp2(x: Value) -> Value:
    """Two to the ``x``: below -200 as at -200, above 200 as at 200."""
    x = select(x < -200, -200, select(x > 200, 200, x))
    whole = integral(x, "n")
    scale = ((whole.to("s64") + _BIAS) << 52).view("f64")
    powers = [math.log(2) ** k / math.factorial(k) for k in range(14)]
    return _polynomial(x - whole, powers) * scale


def log2(x: Value) -> Value:
    """NaN below zero; ``x`` is no subnormal double."""
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
    result = select(x < math.inf, result, x)  # and NaN stays
    result = select(x == 0, -math.inf, result)
    return select(x < 0, math.nan, result)


def tanh(x: Value) -> Value:
    size = magnitude(x)
    squared = x * x
    near_zero = size * _polynomial(squared, [1, -1 / 3, 2 / 15, -17 / 315, 62 / 2835])
    q = exp2(size * (-2 / math.log(2)))
    result = select(size < 0.01, near_zero, (-q + 1) / (q + 1))
    return with_sign_of(result, x)


def sine(x: Value) -> Value:
    return select(x == 0, x, _turned(x, 0))


def cosine(x: Value) -> Value:
    return _turned(x, 1)


def _turned(x: Value, quarters: int) -> Value:
    """The sine of ``x`` and so many right angles; NaN for what is not finite."""
    near, near_quadrant = _cody_waite(x)
    far, far_quadrant = _payne_hanek(magnitude(x))
    negative = x < 0
    far = select(negative, -far, far)
    far_quadrant = select(negative, -far_quadrant, far_quadrant)
    small = magnitude(x) < 2.0**24
    rest, quadrant = select(small, near, far), select(small, near_quadrant, far_quadrant)
    squared = rest * rest
    sines = rest * _polynomial(squared, [
        (-1) ** k / math.factorial(2 * k + 1) for k in range(9)])
    cosines = _polynomial(squared, [(-1) ** k / math.factorial(2 * k) for k in range(10)])
    quadrant = quadrant + quarters
    result = select((quadrant & 1) == 0, sines, cosines)
    result = select((quadrant & 2) == 0, result, -result)
    return select(is_finite(x), result, math.nan)


def _cody_waite(x: Value) -> tuple[Value, Value]:
    """What ``x`` is beyond a multiple of pi/2, and the multiple; right below 2**24."""
    turns = integral(x * (2 / math.pi), "n")
    for part in _HALF_PI:
        x = x - turns * part
    return x, turns.to("s64")


def _payne_hanek(x: Value) -> tuple[Value, Value]:
    """The same for integers of 24 significant bits from 2**24 to 2**128: the product with those
    bits of 2/pi that can matter, in integers modulo 4."""
    bits = x.view("u64")
    exponent = (bits >> 52).view("s64") - (_BIAS + 23)  # x = integer * 2**exponent
    shift = smaller(larger(-exponent + 106, 0), _LOW_BITS)
    integer = (((bits & _FRACTION) | (1 << 52)) >> 29).to("u128")
    by = shift.view("u64").to("u128")
    low = integer.number(_TWO_OVER_PI & ((1 << _LOW_BITS) - 1))
    high = integer.number(_TWO_OVER_PI >> _LOW_BITS)
    window = (high << (-by + _LOW_BITS)) | (low >> by)
    turns = (integer * window) & ((1 << 96) - 1)  # two bits before the point, 94 behind
    nearest = (turns + (1 << 93)) >> 94
    rest = (turns - (nearest << 94)).view("s128")
    upper = (rest >> 30).to("s64").to("f64")
    lower = (rest.view("u128") & ((1 << 30) - 1)).to("u64").to("f64")
    angle = (upper + lower * 2.0**-30) * (math.pi / 2 * 2.0**-64)
    return angle, nearest.to("u64").view("s64")
