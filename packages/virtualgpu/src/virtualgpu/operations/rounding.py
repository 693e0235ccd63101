"""Directed rounding: .rz (to zero), .rm (down) and .rp (up), exact to the last bit.

Each function computes the nearest value and the exact sign of the rounding error, and then steps
to the neighbour if the mode requires it. For f32 arithmetic, f64 gives the error. For f64,
error-free transformations give it (Boldo and Muller, "Exact and approximated error of the FMA",
2011), on operands that are scaled to avoid overflow and underflow. The tests compare with exact
fractions.
"""

from __future__ import annotations

from virtualgpu.operations.expression import (
    Value,
    bits_of,
    fma,
    is_finite,
    larger,
    magnitude,
    select,
    sign_bit,
    smaller,
    sqrt,
    with_sign_of,
)
from virtualgpu.operations.formats import two_sum

MODES = ("rn", "rz", "rm", "rp")


def directed(nearest: Value, above: Value, below: Value, mode: str) -> Value:
    """Step the encoding of a float (sign and magnitude, unsigned) in a rounding direction.

    ``mode`` is the direction (``z``, ``m``, ``p``; ``n`` does nothing). ``above`` or ``below`` is
    True if the exact result is above or below ``nearest``.
    """
    if mode == "n":
        return nearest
    negative = (nearest & (1 << (bits_of(nearest.kind) - 1))) != 0
    inwards, outwards = nearest - 1, nearest + 1
    if mode == "z":
        return select(select(negative, above, below), inwards, nearest)
    if mode == "m":
        return select(below, select(negative, outwards, inwards), nearest)
    return select(above, select(negative, inwards, outwards), nearest)


def narrow(total: Value, error: Value | None, mode: str) -> Value:
    """Round ``total + error`` (f64, error below half a unit of the total) to f32 with ``mode``."""
    nearest = total.to("f32")
    back = nearest.to("f64")
    above, below = total > back, total < back
    if error is not None:
        above = above | ((total == back) & (error > 0))
        below = below | ((total == back) & (error < 0))
    return directed(nearest.view("u32"), above, below, mode).view("f32")


def _zero_sum(total: Value, a: Value, b: Value, mode: str) -> Value:
    """Correct an exactly zero sum: rounding down gives -0 unless both terms are +0."""
    if mode != "m":
        return total
    either = (a.view("u64") | b.view("u64")).view("f64")
    return select(total == 0, with_sign_of(total, either), total)


def add_f32(a: Value, b: Value, mode: str) -> Value:
    a, b = a.to("f64"), b.to("f64")
    total, error = two_sum(a, b)
    return narrow(_zero_sum(total, a, b, mode), error, mode)


def multiply_f32(a: Value, b: Value, mode: str) -> Value:
    return narrow(a.to("f64") * b.to("f64"), None, mode)  # 48 bits: exact in f64


def fma_f32(a: Value, b: Value, c: Value, mode: str) -> Value:
    product, c = a.to("f64") * b.to("f64"), c.to("f64")
    total, error = two_sum(product, c)
    return narrow(_zero_sum(total, product, c, mode), error, mode)


def divide_f32(a: Value, b: Value, mode: str) -> Value:
    # A quotient or root that is not an f32 differs from every f32 by at least 2**-49 of itself, so
    # its f64 (2**-53) is on the right side of its neighbours without an error term.
    return narrow(a.to("f64") / b.to("f64"), None, mode)


def sqrt_f32(a: Value, mode: str) -> Value:
    return narrow(sqrt(a.to("f64")), None, mode)


def _power_of_two(exponent: Value) -> Value:
    """Return 2**exponent as f64, for s64 exponents from -1022 to 1023."""
    return ((exponent + 1023) << 52).view("f64")


def _normalised(x: Value) -> tuple[Value, Value]:
    """Return the significand in ±[1, 2) and the exponent (s64) of a finite nonzero f64."""
    tiny = magnitude(x) < 2.0**-1022
    encoding = select(tiny, x * 2.0**54, x).view("u64")
    exponent = ((encoding >> 52) & 0x7FF).to("s64") - select(
        tiny, encoding.number(1077, "s64"), 1023
    )
    significand = (encoding & 0x800FFFFFFFFFFFFF) | 0x3FF0000000000000
    return significand.view("f64"), exponent


def _scaled(value: Value, error: Value, exponent: Value, mode: str) -> Value:
    """Round ``(value + error) * 2**exponent`` to f64 once, with ``mode``."""
    significand, own = _normalised(value)
    exponent = smaller(larger(own + exponent, own.number(-2040)), 2040)
    first = exponent >> 1
    second = exponent - first
    # The first product is exact; the second rounds only if the result is subnormal.
    nearest = (significand * _power_of_two(first)) * _power_of_two(second)
    back = (nearest * _power_of_two(-second)) * _power_of_two(-first)
    same = significand == back
    above = (significand > back) | (same & (error > 0))
    below = (significand < back) | (same & (error < 0))
    return directed(nearest.view("u64"), above, below, mode).view("f64")


def fma_f64(a: Value, b: Value, c: Value, mode: str) -> Value:
    plain = fma(a, b, c)
    significand_a, exponent_a = _normalised(a)
    significand_b, exponent_b = _normalised(b)
    significand_c, exponent_c = _normalised(c)
    no_c = c == 0
    exponent = exponent_a + exponent_b
    ahead = select(no_c, exponent.number(0), exponent_c - exponent)
    # Beyond 200 binary places, the smaller term only determines on which side of the larger one the
    # sum is, so it may be moved closer.
    near = smaller(larger(ahead, ahead.number(-200)), 200)
    exponent = exponent + select(ahead > 200, ahead - 200, 0)
    c_scaled = select(no_c, c, significand_c * _power_of_two(near))

    total = fma(significand_a, significand_b, c_scaled)
    product = significand_a * significand_b
    product_error = fma(significand_a, significand_b, -product)
    upper, lower = two_sum(c_scaled, product_error)
    sum_upper, sum_lower = two_sum(product, upper)
    error = ((sum_upper - total) + sum_lower) + lower

    sign = ((a.view("u64") ^ b.view("u64")) | c.view("u64")).view("f64")
    zero = with_sign_of(plain, sign) if mode == "m" else plain
    simple = select(plain == 0, zero, plain)
    exact = is_finite(a) & is_finite(b) & is_finite(c) & (a != 0) & (b != 0) & (total != 0)
    return select(exact, _scaled(total, error, exponent, mode), simple)


def add_f64(a: Value, b: Value, mode: str) -> Value:
    return fma_f64(a, a.number(1), b, mode)


def multiply_f64(a: Value, b: Value, mode: str) -> Value:
    sign = (a.view("u64") ^ b.view("u64")) & sign_bit("f64")
    return fma_f64(a, b, sign.view("f64"), mode)


def divide_f64(a: Value, b: Value, mode: str) -> Value:
    significand_a, exponent_a = _normalised(a)
    significand_b, exponent_b = _normalised(b)
    quotient = significand_a / significand_b
    remainder = fma(-quotient, significand_b, significand_a)
    error = select(significand_b < 0, -remainder, remainder)
    exact = is_finite(a) & is_finite(b) & (a != 0) & (b != 0)
    return select(exact, _scaled(quotient, error, exponent_a - exponent_b, mode), a / b)


def sqrt_f64(a: Value, mode: str) -> Value:
    significand, exponent = _normalised(a)
    odd = (exponent & 1) != 0
    significand = select(odd, significand * 2, significand)
    root = sqrt(significand)
    error = fma(-root, root, significand)
    exact = is_finite(a) & (a > 0)
    return select(exact, _scaled(root, error, exponent >> 1, mode), sqrt(a))
