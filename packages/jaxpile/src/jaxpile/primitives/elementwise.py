"""Translators of elementwise primitives: arithmetic, comparison, functions, conversions."""

from __future__ import annotations

import math

import numpy as np

from jaxpile.expressions import BOOL, Expr, apply, const, dims_of, index, linear
from jaxpile.registry import FunctionTranslator, translates
from jaxpile.values import Value, broadcast, cast, pointwise

#: Scalar operation of each JAX primitive, in the operands' dtype.
SAME = {
    "add": "add",
    "add_any": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "div",
    "rem": "rem",
    "max": "max",
    "min": "min",
    "neg": "neg",
    "abs": "abs",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "not": "not",
    "sqrt": "sqrt",
    "exp": "exp",
    "log": "log",
    "expm1": "expm1",
    "log1p": "log1p",
    "tanh": "tanh",
    "sin": "sin",
    "cos": "cos",
    "floor": "floor",
    "ceil": "ceil",
    "shift_left": "shl",
    "shift_right_logical": "shr_l",
    "shift_right_arithmetic": "shr_a",
    "population_count": "popcnt",
    "clz": "clz",
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
#: Functions from the C library, with its accuracy, computed one element at a time.
LIBRARY = {
    "pow": "pow",
    "tan": "tan",
    "asin": "asin",
    "acos": "acos",
    "atan": "atan",
    "atan2": "atan2",
    "sinh": "sinh",
    "cosh": "cosh",
    "asinh": "asinh",
    "acosh": "acosh",
    "atanh": "atanh",
    "lgamma": "lgamma",
    "erf": "erf",
    "erfc": "erfc",
    "cbrt": "cbrt",
    "nextafter": "nextafter",
    "exp2": "exp2",
    "log2": "log2",
    "log10": "log10",
}

# Giles (2010), "Approximating the erfinv function": in w - 2.5 below w = 5, in sqrt(w) - 3 above
CENTRAL = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
TAIL = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)


def _operation(name: str, op: str, attr=None) -> FunctionTranslator:
    def translate(driver, equation, *operands: Value) -> Value:
        return pointwise(op, operands[0].dtype, *level(operands), attr=attr)

    return FunctionTranslator(translate, (name,), "pointwise")


def level(operands) -> list[Value]:
    """Broadcast operands to one shape, because JAX does not repeat scalars and axes of size 1."""
    shape = np.broadcast_shapes(*(v.shape for v in operands))
    return [
        v if v.shape == shape else broadcast(v, shape, range(len(shape) - len(v.shape), len(shape)))
        for v in operands
    ]


made = {name: _operation(name, op) for name, op in SAME.items()}
made |= {name: _operation(name, "libm", function) for name, function in LIBRARY.items()}
made.pop("pow")


@translates(*COMPARISONS, kind="pointwise")
def comparison(driver, equation, x, y):
    return pointwise(equation.primitive.name, BOOL, *level((x, y)))


@translates("lt_to", "le_to", "eq_to", kind="pointwise")
def total_order(driver, equation, x, y):
    """Compare so that NaN comes after infinity, and -0 before 0."""
    return pointwise(
        equation.primitive.name[:2],
        BOOL,
        *(Value(v.shape, v.dtype, rank(v.expr)) for v in level((x, y))),
    )


def rank(x: Expr) -> Expr:
    """Return an integer that orders floats.

    It has the bits of the float, with all bits but the sign flipped for negative numbers.
    """
    if x.dtype.kind != "f":
        return x
    kind = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = apply("bitcast", kind, x)
    sign = apply("shr_a", kind, bits, const(8 * kind.itemsize - 1, kind))
    return apply("xor", kind, bits, apply("and", kind, sign, const(np.iinfo(kind).max, kind)))


@translates("select_n", kind="pointwise")
def select_n(driver, equation, which, *cases):
    shape = cases[0].shape
    chosen = cases[-1].expr
    for k in range(len(cases) - 2, -1, -1):
        if which.dtype == BOOL:
            hit = apply("not", BOOL, which.expr)
        else:
            hit = apply("le", BOOL, which.expr, const(k, which.dtype))
        chosen = apply("select", cases[0].dtype, hit, cases[k].expr, chosen)
    return Value(shape, cases[0].dtype, chosen)


@translates("clamp", kind="pointwise")
def clamp(driver, equation, low, x, high):
    raised = apply("max", x.dtype, x.expr, low.expr)
    return Value(x.shape, x.dtype, apply("min", x.dtype, raised, high.expr))


@translates("convert_element_type", kind="pointwise")
def convert_element_type(driver, equation, x):
    return cast(x, equation.params["new_dtype"])


@translates("bitcast_convert_type", kind="pointwise")
def bitcast_convert_type(driver, equation, x):
    target, shape = np.dtype(equation.params["new_dtype"]), equation.outvars[0].aval.shape
    wide, narrow = (
        np.dtype(f"uint{8 * size}")
        for size in (max(target.itemsize, x.dtype.itemsize), min(target.itemsize, x.dtype.itemsize))
    )
    if wide == narrow:
        return pointwise("bitcast", target, x) if target != x.dtype else x
    if BOOL in (target, x.dtype):
        raise driver.refuse(equation, "booleans have no bits to reinterpret; convert to integers")
    dims, count = dims_of((*shape, *x.shape[len(shape) :])), wide.itemsize // narrow.itemsize
    bits = pointwise("bitcast", f"uint{8 * x.dtype.itemsize}", x)
    if target.itemsize == narrow.itemsize:  # the lowest bits first, along a new axis
        place = apply("cast", wide, linear([(dims[-1], 8 * narrow.itemsize)]))
        expr = apply("cast", narrow, apply("shr_l", wide, bits.at(dims[:-1]), place))
    else:
        expr = const(0, wide)
        for k in range(count):
            part = apply("cast", wide, bits.at([*dims[: len(shape)], index(k)]))
            part = apply("shl", wide, part, const(8 * narrow.itemsize * k, wide))
            expr = apply("or", wide, expr, part)
    return Value(tuple(shape), target, apply("bitcast", target, expr))


@translates(
    "copy",
    "copy_p",
    "optimization_barrier",
    "stop_gradient",
    "name",
    "random_clone",
    kind="pointwise",
)
def copy(driver, equation, *operands):
    return list(operands)


@translates("device_put")
def device_put(driver, equation, *operands):
    return list(operands)


@translates("reduce_precision", kind="pointwise")
def reduce_precision(driver, equation, x):
    own = np.finfo(x.dtype)
    exponent, mantissa = (
        min(equation.params[f"{name}_bits"], most)
        for name, most in (("exponent", own.nexp), ("mantissa", own.nmant))
    )
    return Value(x.shape, x.dtype, rounded(x.expr, exponent, mantissa))


def rounded(x: Expr, exponent: int, mantissa: int) -> Expr:
    """Round to the nearest float with fewer bits, ties to even.

    Numbers that are too large become infinite, and numbers that are too small become 0.
    """
    own, kind = np.finfo(x.dtype), np.dtype(f"uint{8 * x.dtype.itemsize}")
    result = x
    if own.nmant > mantissa:
        # As in XLA, add half of the last place, minus one if it is even, then cut off the other
        # bits.
        spare = own.nmant - mantissa
        bits = apply("bitcast", kind, x)
        last = apply("and", kind, apply("shr_l", kind, bits, const(spare, kind)), const(1, kind))
        bits = apply(
            "add", kind, apply("add", kind, bits, last), const((1 << (spare - 1)) - 1, kind)
        )
        full = np.iinfo(kind).max
        result = apply(
            "bitcast", x.dtype, apply("and", kind, bits, const(full ^ ((1 << spare) - 1), kind))
        )
    if own.nexp > exponent:
        bias = (1 << (exponent - 1)) - 1
        size = apply("abs", x.dtype, result)
        for op, end, instead in (("ge", bias + 1, np.inf), ("lt", 1 - bias, 0)):
            other = apply("copysign", x.dtype, const(instead, x.dtype), x)
            beyond = apply(op, BOOL, size, const(2.0**end, x.dtype))
            result = apply("select", x.dtype, beyond, other, result)
    return apply("select", x.dtype, apply("eq", BOOL, x, x), result, x)


@translates("square", kind="pointwise")
def square(driver, equation, x):
    return pointwise("mul", x.dtype, x, x)


@translates("one_minus_square", kind="pointwise")
def one_minus_square(driver, equation, x):
    """Compute (1 + x) (1 - x), which is exact if x is near 1."""
    one = const(1, x.dtype)
    expr = apply("mul", x.dtype, *(apply(op, x.dtype, one, x.expr) for op in ("add", "sub")))
    return Value(x.shape, x.dtype, expr)


@translates("polynomial", kind="pointwise")
def polynomial(driver, equation, *operands):
    """Evaluate a polynomial by Horner's rule, beginning with the constant term's coefficient."""
    x, *coefficients = level(operands)
    total = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = pointwise("add", x.dtype, pointwise("mul", x.dtype, total, x), coefficient)
    return total


@translates("rsqrt", kind="pointwise")
def rsqrt(driver, equation, x):
    one = const(1, x.dtype)
    return Value(x.shape, x.dtype, apply("div", x.dtype, one, apply("sqrt", x.dtype, x.expr)))


@translates("logistic", kind="pointwise")
def logistic(driver, equation, x):
    one = const(1, x.dtype)
    small = apply("exp", x.dtype, apply("neg", x.dtype, x.expr))
    return Value(
        x.shape, x.dtype, apply("div", x.dtype, one, apply("exact_add", x.dtype, one, small))
    )


@translates("complex", "real", "imag", kind="pointwise")
def complex_parts(driver, equation, *operands):
    return pointwise(equation.primitive.name, equation.outvars[0].aval.dtype, *level(operands))


@translates("conj", kind="pointwise")
def conj(driver, equation, x):
    dtype = equation.outvars[0].aval.dtype
    z = cast(x, dtype)
    real, imaginary = (pointwise(part, np.finfo(dtype).dtype, z) for part in ("real", "imag"))
    return pointwise("complex", dtype, real, pointwise("neg", imaginary.dtype, imaginary))


@translates("is_finite", kind="pointwise")
def is_finite(driver, equation, x):
    size = apply("abs", x.dtype, x.expr)
    return Value(x.shape, BOOL, apply("lt", BOOL, size, const(np.inf, x.dtype)))


@translates("sign", kind="pointwise")
def sign(driver, equation, x):
    zero, one = const(0, x.dtype), const(1, x.dtype)
    if x.dtype.kind == "u":
        expr = apply("select", x.dtype, apply("ne", BOOL, x.expr, zero), one, zero)
        return Value(x.shape, x.dtype, expr)
    # zeros keep their sign, NaN stays NaN
    expr = apply("select", x.dtype, apply("lt", BOOL, x.expr, zero), const(-1, x.dtype), x.expr)
    expr = apply("select", x.dtype, apply("gt", BOOL, x.expr, zero), one, expr)
    return Value(x.shape, x.dtype, expr)


@translates("round", kind="pointwise")
def round_(driver, equation, x):
    even = int(equation.params["rounding_method"]) == 1
    return pointwise("round_even" if even else "round_away", x.dtype, x)


@translates("integer_pow", kind="pointwise")
def integer_pow(driver, equation, x):
    return Value(x.shape, x.dtype, power(x.expr, int(equation.params["y"])))


def power(x: Expr, exponent: int) -> Expr:
    """Raise to a power by squaring; a negative exponent divides 1 by the positive power."""
    if exponent < 0:
        return apply("div", x.dtype, const(1, x.dtype), power(x, -exponent))
    result, base = None, x
    while exponent:
        if exponent & 1:
            result = base if result is None else apply("mul", x.dtype, result, base)
        exponent >>= 1
        if exponent:
            base = apply("mul", x.dtype, base, base)
    return const(1, x.dtype) if result is None else result


@translates("pow", kind="pointwise")
def pow_(driver, equation, x, y):
    if y.dtype.kind in "iu":
        if x.dtype.kind != "f":
            raise driver.refuse(
                equation,
                "integer bases with integer arrays as exponents; use a Python int as exponent",
            )
        y = cast(y, x.dtype)
    return pointwise("libm", x.dtype, *level((x, y)), attr="pow")


@translates("erf_inv", kind="pointwise")
def erf_inv(driver, equation, x):
    return Value(x.shape, x.dtype, inverse_error(x.expr))


def inverse_error(x: Expr) -> Expr:
    """Compute Giles' approximation (7 digits), refined by two Newton steps for float64."""
    t = x.dtype

    def number(value):
        return const(value, t)

    def polynomial(at, coefficients):
        total = number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = apply("add", t, apply("mul", t, total, at), number(coefficient))
        return total

    product = apply("mul", t, x, x)
    w = apply("neg", t, apply("log1p", t, apply("neg", t, product)))
    central = polynomial(apply("sub", t, w, number(2.5)), CENTRAL)
    tail = polynomial(apply("sub", t, apply("sqrt", t, w), number(3)), TAIL)
    factor = apply("select", t, apply("lt", BOOL, w, number(5)), central, tail)
    y = apply("mul", t, factor, x)
    if t == np.float64:
        size, target = apply("abs", t, y), apply("exact_sub", t, number(1), apply("abs", t, x))
        for _ in range(2):
            off = apply("exact_sub", t, apply("libm", t, size, attr="erfc"), target)
            near = apply("exact_sub", t, apply("abs", t, x), apply("libm", t, size, attr="erf"))
            off = apply("select", t, apply("lt", BOOL, target, number(0.5)), off, near)
            slope = apply(
                "mul",
                t,
                number(math.sqrt(math.pi) / 2),
                apply("exp", t, apply("mul", t, size, size)),
            )
            size = apply("add", t, size, apply("mul", t, off, slope))
        y = apply("copysign", t, size, x)
    edge = apply("eq", BOOL, apply("abs", t, x), number(1))
    return apply("select", t, edge, apply("mul", t, x, number(np.inf)), y)
