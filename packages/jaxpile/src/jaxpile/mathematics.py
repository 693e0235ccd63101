"""exp, log, expm1, log1p, tanh, sin and cos as arithmetic that LLVM can vectorise.

A library call in a loop prevents LLVM from using vector instructions. The errors, measured against
extended precision (tests/test_mathematics.py), are at most 2 units in the last place, and 3 for
tanh. sin and cos require |x| <= 2**48 and return NaN for larger arguments. NaN, infinities and
signed zeros follow IEEE 754. The operations are the ``exact_`` ones, which LLVM may not contract,
because the compensated steps depend on each rounding. Reductions and coefficients are from fdlibm
(Sun Microsystems 1993), and for exp from Taylor's series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jaxpile.expressions import BOOL, Expr, apply, const

F4, F8 = np.dtype(np.float32), np.dtype(np.float64)
I4, I8 = np.dtype(np.int32), np.dtype(np.int64)

LOG = {
    8: (
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    ),
    4: (0.66666662693, 0.40000972152, 0.28498786688, 0.24279078841),
}
SIN = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
COS = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
# pi / 2 as a sum of three doubles, the first with all its bits
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
LN2 = {
    8: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
    4: (6.9313812256e-01, 9.0580006145e-06),
}


# --- small words -----------------------------------------------------------------------------


def number(x: Expr, value) -> Expr:
    return const(value, x.dtype)


def add(x: Expr, y: Expr) -> Expr:
    return apply("exact_add", x.dtype, x, y)


def sub(x: Expr, y: Expr) -> Expr:
    return apply("exact_sub", x.dtype, x, y)


def mul(x: Expr, y: Expr) -> Expr:
    return apply("exact_mul", x.dtype, x, y)


def fma(x: Expr, y: Expr, z: Expr) -> Expr:
    return apply("fma", x.dtype, x, y, z)


def div(x: Expr, y: Expr) -> Expr:
    return apply("div", x.dtype, x, y)


def neg(x: Expr) -> Expr:
    return apply("neg", x.dtype, x)


def test(op: str, x: Expr, y) -> Expr:
    return apply(op, BOOL, x, y if isinstance(y, Expr) else number(x, y))


def choose(condition: Expr, x: Expr, y: Expr) -> Expr:
    return apply("select", x.dtype, condition, x, y)


def bits(x: Expr) -> Expr:
    return apply("bitcast", I8 if x.dtype == F8 else I4, x)


def unbits(x: Expr) -> Expr:
    return apply("bitcast", F8 if x.dtype == I8 else F4, x)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Evaluate a polynomial whose coefficients begin with the constant term."""
    total = number(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = fma(total, x, number(x, coefficient))
    return total


def nearest(x: Expr) -> tuple[Expr, Expr]:
    """Return the nearest integer as a float and as an integer.

    Valid for |x| < 2**51 (2**22 in float32). Adding 1.5 * 2**52 puts the integer into the low
    bits, which avoids the conversion that AVX2 lacks.
    """
    magic = 1.5 * 2.0 ** (52 if x.dtype == F8 else 23)
    shifted = add(x, number(x, magic))
    whole = bits(shifted)
    return (sub(shifted, number(x, magic)), apply("sub", whole.dtype, whole, bits_of(x, magic)))


def bits_of(x: Expr, value: float) -> Expr:
    kind = I8 if x.dtype == F8 else I4
    return const(np.array(value, x.dtype).view(kind), kind)


def power_of_two(x: Expr, exponent: Expr) -> Expr:
    """Return 2**exponent in the type of x, for an exponent in the range of normal numbers."""
    mantissa, bias = (52, 1023) if x.dtype == F8 else (23, 127)
    kind = exponent.dtype
    return unbits(
        apply("shl", kind, apply("add", kind, exponent, const(bias, kind)), const(mantissa, kind))
    )


# --- functions -------------------------------------------------------------------------------


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """Return e**r - 1 and the integer k of the reduction x = k ln 2 + r."""
    k, whole = nearest(mul(x, number(x, 1 / math.log(2))))
    large, small = LN2[x.dtype.itemsize]
    r = fma(neg(k), number(x, small), fma(neg(k), number(x, large), x))
    terms = 14 if x.dtype == F8 else 8
    tail = polynomial(r, [1 / math.factorial(n) for n in range(2, terms)])
    return fma(mul(r, r), tail, r), whole


def _within(x: Expr, low: float, high: float) -> tuple[Expr, Expr, Expr]:
    """Reduce x after clamping it to low <= x <= high; 2**k is returned as two factors.

    2**k itself may be too large or too small for a float.
    """
    x = choose(test("lt", x, low), number(x, low), x)
    x = choose(test("gt", x, high), number(x, high), x)
    p, whole = _reduced(x)
    half = apply("shr_a", whole.dtype, whole, const(1, whole.dtype))
    rest = apply("sub", whole.dtype, whole, half)
    return p, power_of_two(x, half), power_of_two(x, rest)


def _limits(x: Expr) -> tuple[float, float]:
    return (-745.14, 709.7827128933841) if x.dtype == F8 else (-103.98, 88.72283935546875)


def exp(x: Expr) -> Expr:
    low, high = _limits(x)
    p, first, second = _within(x, low, high)
    result = mul(mul(add(number(x, 1), p), first), second)
    result = choose(test("gt", x, high), number(x, np.inf), result)
    return choose(test("lt", x, low), number(x, 0), result)


def expm1(x: Expr) -> Expr:
    low, high = (-40.0, _limits(x)[1]) if x.dtype == F8 else (-20.0, _limits(x)[1])
    p, first, second = _within(x, low, high)
    # 2**k (p + 1) - 1 = 2**k p + (2**k - 1), with two factors because 2**1024 overflows
    scaled = mul(mul(p, first), second)
    shift = mul(first, second)
    big = mul(mul(add(p, number(x, 1)), first), second)
    result = add(scaled, sub(shift, number(x, 1)))
    result = choose(test("gt", x, high - 1), big, result)
    result = choose(test("gt", x, high), number(x, np.inf), result)
    return choose(test("eq", x, 0), x, result)


def log(x: Expr) -> Expr:
    double = x.dtype == F8
    mantissa = 52 if double else 23
    root = 0x3FE6A09E00000000 if double else 0x3F3504F3
    one = 0x3FF0000000000000 if double else 0x3F800000
    tiny = test("lt", x, float(np.finfo(x.dtype).tiny))
    scale = 54 if double else 25
    scaled = choose(tiny, mul(x, number(x, 2.0**scale)), x)
    whole = bits(scaled)
    kind = whole.dtype
    moved = apply("add", kind, whole, const(one - root, kind))
    exponent = apply(
        "sub",
        kind,
        apply("shr_a", kind, moved, const(mantissa, kind)),
        apply(
            "select",
            kind,
            tiny,
            const((1023 if double else 127) + scale, kind),
            const(1023 if double else 127, kind),
        ),
    )
    inner = apply("and", kind, moved, const((1 << mantissa) - 1, kind))
    m = unbits(apply("add", kind, inner, const(root, kind)))
    magic = 1.5 * 2.0**mantissa
    k = sub(unbits(apply("add", kind, exponent, bits_of(x, magic))), number(x, magic))
    f = sub(m, number(x, 1))
    s = div(f, add(number(x, 2), f))
    z = mul(s, s)
    rest = mul(z, polynomial(z, LOG[x.dtype.itemsize]))
    half = mul(mul(number(x, 0.5), f), f)
    large, small = LN2[x.dtype.itemsize]
    inner_sum = add(mul(s, add(half, rest)), mul(k, number(x, small)))
    result = sub(mul(k, number(x, large)), sub(sub(half, inner_sum), f))
    result = choose(test("eq", x, np.inf), x, result)
    result = choose(test("eq", x, 0), number(x, -np.inf), result)
    # NaN fails every comparison and reaches the last branch
    return choose(test("ge", x, 0), result, number(x, np.nan))


def log1p(x: Expr) -> Expr:
    u = add(number(x, 1), x)
    correction = div(sub(x, sub(u, number(x, 1))), u)
    ordinary = choose(test("lt", x, float(np.finfo(x.dtype).max)), correction, number(x, 0))
    ordinary = choose(test("eq", x, -1), number(x, 0), ordinary)
    return choose(test("eq", u, 1), x, add(log(u), ordinary))


def tanh(x: Expr) -> Expr:
    size = apply("abs", x.dtype, x)
    p, whole = _reduced(mul(number(x, 2), choose(test("gt", size, 22), number(x, 22), size)))
    power = power_of_two(x, whole)  # at most 2**64
    t = add(mul(p, power), sub(power, number(x, 1)))
    # t / (t + 2) below 1, and 1 - 2 / (t + 2) above, with one division
    low = test("lt", size, 1)
    part = div(choose(low, t, number(x, 2)), add(t, number(x, 2)))
    result = choose(low, part, sub(number(x, 1), part))
    return choose(test("eq", x, 0), x, apply("copysign", x.dtype, result, x))


def _circle(x: Expr, turn: int) -> Expr:
    if x.dtype == F4:
        return apply("cast", F4, _circle(apply("cast", F8, x), turn))
    inside = test("le", apply("abs", F8, x), 2.0**48)
    safe = choose(inside, x, number(x, 0))
    k, quadrant = nearest(mul(safe, number(x, 2 / math.pi)))
    # exact: both are multiples of 2**-52 (or of the last place of x), and the difference is below 1
    first = fma(neg(k), number(x, HALF_PI[0]), safe)
    second = mul(k, number(x, HALF_PI[1]))
    r = sub(first, second)
    tail = sub(sub(first, r), second)
    lost = add(fma(k, number(x, HALF_PI[1]), neg(second)), mul(k, number(x, HALF_PI[2])))
    tail = sub(tail, lost)
    z = mul(r, r)
    v = mul(z, r)
    inner = sub(mul(number(x, 0.5), tail), mul(v, polynomial(z, SIN[1:])))
    sine = sub(r, sub(sub(mul(z, inner), tail), mul(v, number(x, SIN[0]))))
    half = mul(number(x, 0.5), z)
    w = sub(number(x, 1), half)
    left = sub(sub(number(x, 1), w), half)
    cosine = add(w, add(left, sub(mul(mul(z, z), polynomial(z, COS)), mul(r, tail))))
    quadrant = apply("add", I8, quadrant, const(turn, I8))
    odd = test("ne", apply("and", I8, quadrant, const(1, I8)), 0)
    minus = test("ne", apply("and", I8, quadrant, const(2, I8)), 0)
    result = choose(odd, cosine, sine)
    result = choose(minus, neg(result), result)
    if turn == 0:
        result = choose(test("eq", x, 0), x, result)
    return choose(inside, result, number(x, np.nan))


def sin(x: Expr) -> Expr:
    return _circle(x, 0)


def cos(x: Expr) -> Expr:
    return _circle(x, 1)


#: Operations that are written as arithmetic before LLVM sees them.
WRITTEN_OUT: dict[str, Callable[[Expr], Expr]] = {
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "tanh": tanh,
    "sin": sin,
    "cos": cos,
}
