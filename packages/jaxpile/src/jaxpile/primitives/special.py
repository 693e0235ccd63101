"""Special functions that the C library lacks, as arithmetic."""

from __future__ import annotations

import math

import numpy as np

from jaxpile.expressions import BOOL, Expr, apply, const
from jaxpile.registry import translates
from jaxpile.values import Value

#: Coefficients B(2k) / 2k of digamma's asymptotic series in 1 / x², Abramowitz and Stegun (1964)
#: 6.3.18.
SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
#: From this argument the series is exact to the last place.
FAR = 10


@translates("digamma", kind="pointwise")
def digamma(driver, equation, x):
    return Value(x.shape, x.dtype, derivative_of_lgamma(x.expr))


def derivative_of_lgamma(x: Expr) -> Expr:
    """Compute lgamma's derivative by reflection, recurrence and a series.

    Arguments below 1/2 are reflected, and small ones are raised with psi(x + 1) = psi(x) + 1 / x.

    It is NaN at the poles, which are 0 and the negative integers.
    """
    kind = x.dtype

    def number(value: float) -> Expr:
        return const(value, kind)

    def do(op: str, *args: Expr) -> Expr:
        return apply(op, kind, *args)

    def choose(condition: Expr, yes: Expr, no: Expr) -> Expr:
        return do("select", condition, yes, no)

    low = apply("lt", BOOL, x, number(0.5))
    y, moved = choose(low, do("sub", number(1), x), x), number(0)
    for _ in range(FAR):
        near = apply("lt", BOOL, y, number(FAR))
        moved = choose(near, do("add", moved, do("div", number(1), y)), moved)
        y = choose(near, do("add", y, number(1)), y)
    z = do("div", number(1), do("mul", y, y))
    series = number(SERIES[-1])
    for coefficient in SERIES[-2::-1]:
        series = do("add", do("mul", series, z), number(coefficient))
    result = do("sub", do("log", y), do("div", number(0.5), y))
    result = do("sub", do("sub", result, do("mul", z, series)), moved)
    turn = do("mul", number(math.pi), do("sub", x, do("floor", x)))
    mirrored = do("sub", result, do("div", number(math.pi), apply("libm", kind, turn, attr="tan")))
    result = choose(low, mirrored, result)
    pole = apply("and", BOOL, apply("le", BOOL, x, number(0)), apply("eq", BOOL, x, do("floor", x)))
    return choose(pole, number(np.nan), result)
