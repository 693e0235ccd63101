"""Operations on complex numbers, as operations on their real and imaginary parts.

A back end needs only three more operations: ``complex`` of two floats, and the parts ``real`` and
``imag``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jaxpile.errors import UnsupportedType
from jaxpile.expressions import BOOL, Expr, apply, const, defines, make

Parts = tuple[Expr, Expr]


def parts(z: Expr) -> Parts:
    """Return the real and imaginary parts; a real number has the imaginary part 0."""
    if z.dtype.kind != "c":
        return z, const(0, z.dtype)
    if z.op == "complex":
        return z.args[0], z.args[1]
    kind = real_type(z.dtype)
    if z.op == "const":
        return const(z.attr.real, kind), const(z.attr.imag, kind)
    return make("real", kind, (z,)), make("imag", kind, (z,))


def real_type(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"float{4 * dtype.itemsize}")


def do(op: str, *args: Expr, attr=None) -> Expr:
    """Build an operation on floats."""
    return apply(op, args[-1].dtype, *args, attr=attr)


def test(op: str, x: Expr, y: Expr) -> Expr:
    return apply(op, BOOL, x, y)


def number(x: Expr, value: float) -> Expr:
    return const(value, x.dtype)


def size_of(z: Parts) -> Expr:
    return do("libm", *z, attr="hypot")


def times(x: Parts, y: Parts) -> Parts:
    return (
        do("sub", do("mul", x[0], y[0]), do("mul", x[1], y[1])),
        do("add", do("mul", x[0], y[1]), do("mul", x[1], y[0])),
    )


def over(x: Parts, y: Parts) -> Parts:
    """Divide by Smith's "Algorithm 116" (1962); division by 0 gives infinity as in C."""
    flat = test("ge", do("abs", y[0]), do("abs", y[1]))
    large, small = (do("select", flat, *pair) for pair in (y, y[::-1]))
    ratio = do("div", small, large)
    below = do("add", large, do("mul", small, ratio))
    first = do(
        "select",
        flat,
        do("add", x[0], do("mul", x[1], ratio)),
        do("add", do("mul", x[0], ratio), x[1]),
    )
    second = do(
        "select",
        flat,
        do("sub", x[1], do("mul", x[0], ratio)),
        do("sub", do("mul", x[1], ratio), x[0]),
    )
    null = apply("and", BOOL, *(test("eq", part, number(part, 0)) for part in y))
    endless = do("copysign", number(y[0], np.inf), y[0])
    return (
        do("select", null, do("mul", endless, x[0]), do("div", first, below)),
        do("select", null, do("mul", endless, x[1]), do("div", second, below)),
    )


def exp(z: Parts) -> Parts:
    """Return the exponential, for a large argument as (exp(x / 2) cos y) exp(x / 2).

    For complex64, exp(89) overflows, although exp(89) cos 1 is finite.
    """
    large = test("gt", z[0], number(z[0], {"f4": 88, "f8": 709}[z[0].dtype.str[1:]]))
    size = do("exp", do("select", large, do("mul", number(z[0], 0.5), z[0]), z[0]))
    again = do("select", large, size, number(size, 1))
    turned = do("mul", do("mul", size, do("sin", z[1])), again)
    return (
        do("mul", do("mul", size, do("cos", z[1])), again),
        do("select", test("eq", z[1], number(size, 0)), z[1], turned),
    )


def log(z: Parts) -> Parts:
    return do("log", size_of(z)), do("libm", z[1], z[0], attr="atan2")


def sqrt(z: Parts) -> Parts:
    """Return the square root whose real part is not negative.

    If the imaginary part is infinite, both parts of the result are infinite (C99, G.6.4.2),
    whatever the real part.
    """
    half = do("mul", number(z[0], 0.5), do("add", do("abs", z[0]), size_of(z)))
    root = do("sqrt", half)
    other = do("div", do("abs", z[1]), do("mul", number(root, 2), root))
    other = do("select", test("eq", root, number(root, 0)), number(root, 0), other)
    right = test("ge", z[0], number(root, 0))
    size = do("abs", z[1])
    endless = test("eq", size, number(size, np.inf))
    return (
        do("select", endless, size, do("select", right, root, other)),
        do("select", endless, z[1], do("copysign", do("select", right, other, root), z[1])),
    )


def _circle(z: Parts, first: str, second: str) -> Parts:
    return (
        _stretched(do(first, z[0]), do("libm", z[1], attr="cosh")),
        _stretched(do(second, z[0]), do("libm", z[1], attr="sinh")),
    )


def _stretched(part: Expr, factor: Expr) -> Expr:
    """Return the product, which is zero if ``part`` is zero, whatever the factor (C99, G.6.2)."""
    signed = do("copysign", number(part, 1), factor)
    factor = do("select", test("eq", part, number(part, 0)), signed, factor)
    return do("mul", part, factor)


def sin(z: Parts) -> Parts:
    return _circle(z, "sin", "cos")


def cos(z: Parts) -> Parts:
    real, imaginary = _circle(z, "cos", "sin")
    return real, do("neg", imaginary)


FUNCTIONS: dict[str, Callable[..., Parts]] = {
    "mul": times,
    "div": over,
    "exp": exp,
    "log": log,
    "sqrt": sqrt,
    "sin": sin,
    "cos": cos,
}


@defines("c")
def lowered(op: str, dtype: np.dtype, args: tuple[Expr, ...]) -> Expr:
    """Lower an operation with complex operands or results; raise UnsupportedType for others."""
    if op in ("select", "complex"):
        return make(op, dtype, args)
    pairs = [parts(arg) for arg in args]
    name = op.rpartition("_")[2] if op.startswith(("sum_", "exact_")) else op
    match name:
        case "real" | "imag":
            return pairs[0][name == "imag"]
        case "cast" if dtype == BOOL:
            return apply("or", BOOL, *(test("ne", part, number(part, 0)) for part in pairs[0]))
        case "cast" if dtype.kind == "c":
            return make(
                "complex", dtype, tuple(apply("cast", real_type(dtype), part) for part in pairs[0])
            )
        case "cast":
            return apply("cast", dtype, pairs[0][0])
        case "eq" | "ne":
            return apply(
                "and" if name == "eq" else "or",
                BOOL,
                *(test(name, *both) for both in zip(*pairs, strict=True)),
            )
        case "abs":
            return size_of(pairs[0])
        case "add" | "sub" | "neg":
            return make("complex", dtype, tuple(do(op, *both) for both in zip(*pairs, strict=True)))
        case _ if name in FUNCTIONS:
            return make("complex", dtype, FUNCTIONS[name](*pairs))
    raise UnsupportedType(f"{name!r} of complex numbers is not translated")
