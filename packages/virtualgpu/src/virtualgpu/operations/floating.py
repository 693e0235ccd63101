"""f32 and f64 arithmetic (PTX ISA 9.7.3).

Rounding, subnormals and signed zeros follow IEEE 754. ``mul`` and ``add`` without a rounding
modifier, which an optimiser may fuse, are not fused here, because NVVM has already fused as much
as it chose to.

Where the ISA leaves a choice, results are those of an H200 (``tests/operations/h200``). A NaN
result of f32 is 0x7fffffff, also for ``abs`` and ``neg``. A NaN result of f64 is a NaN operand,
made quiet: of two operands the second for additions, products, ``min`` and ``max``, and the first
for quotients; of three operands the second, then the third. ``abs`` and ``neg`` keep its sign.
Without a NaN operand it is 0xfff8000000000000. ``.ftz`` on ``mul`` flushes results that are
subnormal before rounding; elsewhere it flushes those that are subnormal after rounding.
``.approx`` and ``.full`` of f32 give the correctly rounded value, which is more accurate than the
hardware and within every bound of the ISA.
"""

from __future__ import annotations

from virtualgpu.operations import rounding
from virtualgpu.operations.expression import (
    Body,
    Value,
    fma,
    magnitude,
    select,
    sqrt,
    with_sign_of,
)
from virtualgpu.operations.formats import (
    canonical,
    flush,
    inherited,
    is_nan,
    passed_on,
    quiet,
    saturate,
)
from virtualgpu.operations.table import Form, Operation, operation

FLOATS = ("f32", "f64")
NAN_GROSS_F64 = 0x7FFFFFFF00000000  # rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64
UPPER = 0xFFFFFFFF00000000

# Function of each opcode, rounding to nearest even. Directed rounding for f32 and f64 follows.
_NEAREST: dict[str, Body] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": fma,
    "div": lambda a, b: a / b,
    "rcp": lambda a: a.number(1) / a,
    "sqrt": sqrt,
}
_DIRECTED: dict[tuple[str, str], Body] = {
    ("add", "f32"): rounding.add_f32,
    ("add", "f64"): rounding.add_f64,
    ("sub", "f32"): lambda a, b, mode: rounding.add_f32(a, -b, mode),
    ("sub", "f64"): lambda a, b, mode: rounding.add_f64(a, -b, mode),
    ("mul", "f32"): rounding.multiply_f32,
    ("mul", "f64"): rounding.multiply_f64,
    ("fma", "f32"): rounding.fma_f32,
    ("fma", "f64"): rounding.fma_f64,
    ("div", "f32"): rounding.divide_f32,
    ("div", "f64"): rounding.divide_f64,
    ("rcp", "f32"): lambda a, mode: rounding.divide_f32(a.number(1), a, mode),
    ("rcp", "f64"): lambda a, mode: rounding.divide_f64(a.number(1), a, mode),
    ("sqrt", "f32"): rounding.sqrt_f32,
    ("sqrt", "f64"): rounding.sqrt_f64,
}


# Order in which f64 instructions look for a NaN among their operands, by the number of operands. (A
# quotient looks at the first before the second.)
_NAN_ORDER = {1: (0,), 2: (1, 0), 3: (1, 2, 0)}


def _tiny_product(a: Value, b: Value) -> Value:
    """Return True where the exact ``a * b`` of f32 is below the normal numbers (or is 0)."""
    return magnitude(a.to("f64") * b.to("f64")) < 2.0**-126


def treated(body: Body, *, ftz: bool = False, sat: bool = False, tiny: Body | None = None) -> Body:
    """Wrap ``body`` with flushing, saturation and canonical NaN, according to the modifiers.

    ``tiny`` determines from the inputs which results to flush if their rounded value does not show
    it.
    """

    def whole(*values: Value) -> Value:
        values = tuple(value.loose for value in values)
        if not ftz:
            result = body(*values)
        else:
            values = tuple(flush(value) for value in values)
            result = body(*values)
            result = (
                flush(result)
                if tiny is None
                else select(tiny(*values), with_sign_of(result.number(0), result), result)
            )
        return saturate(result) if sat else canonical(result)

    return whole


def passing(body: Body, *order: int) -> Body:
    """Wrap an f64 ``body`` so that its NaN result is one of its operands.

    ``order`` is the order in which the instruction looks for a NaN.
    """

    def whole(*operands: Value) -> Value:
        result = body(*(operand.loose for operand in operands))
        return inherited(result, *(operands[i] for i in order))

    return whole


def _settling(body: Body) -> Body:
    """Wrap ``abs``, ``neg``, ``min`` or ``max`` of f64.

    These return a NaN only if the last operand is one, and then they return that one.
    """

    def whole(*operands: Value) -> Value:
        last = operands[-1]
        result = body(*(operand.loose for operand in operands))
        settled = select(is_nan(result), quiet(last), result)
        return Value(result.builder, settled.node, result.kind, loose=result)

    return whole


def _rounded(
    form: Form, opcode: str, mode: str, ftz: bool, sat: bool, kind: str, operands: int
) -> Operation:
    """Build an operation that IEEE 754 defines, in one of its rounding modes."""
    form.end(operands)
    body = _NEAREST[opcode]
    if mode != "rn":
        exact = _DIRECTED[opcode, kind]

        def body(*values: Value) -> Value:
            return exact(*values, mode[1])

    tiny = _tiny_product if opcode == "mul" else None
    if kind == "f64":
        order = (0, 1) if opcode == "div" else _NAN_ORDER[operands]
        whole = (
            passing(body, *order)
            if mode != "rn"
            else (lambda *values: passed_on(body, *values, order=order))
        )
    else:
        whole = treated(body, ftz=ftz, sat=sat, tiny=tiny)
    return form.compiled(whole, [kind] * operands, [kind])


def _modifiers(form: Form, saturates: bool) -> tuple[bool, bool, str]:
    """Read ``{.ftz}{.sat}.f32`` or ``.f64``."""
    ftz = form.flag("ftz")
    sat = saturates and form.flag("sat")
    return ftz, sat, form.choice("f32") if ftz or sat else form.choice(*FLOATS)


@operation("add", types=FLOATS, section="9.7.3.3")
@operation("sub", types=FLOATS, section="9.7.3.4")
@operation("mul", types=FLOATS, section="9.7.3.5")
def add_sub_mul(form: Form) -> Operation:
    """Build ``add|sub|mul{.rnd}{.ftz}{.sat}.type d, a, b``."""
    mode = form.choice(*rounding.MODES, default="rn")
    return _rounded(form, form.opcode, mode, *_modifiers(form, saturates=True), 2)


@operation("fma", types=FLOATS, section="9.7.3.6")
@operation("mad", types=FLOATS, section="9.7.3.7")
def fused_multiply_add(form: Form) -> Operation:
    """Build ``fma|mad.rnd{.ftz}{.sat}.type d, a, b, c``, with one rounding."""
    mode = form.choice(*rounding.MODES)
    return _rounded(form, "fma", mode, *_modifiers(form, saturates=True), 3)


def _approximate_quotient(a: Value, b: Value) -> Value:
    """Return ``a * (1/b)``.

    For |b| above 2**126 the reciprocal is flushed to zero (PTX ISA 9.7.3.8).
    """
    huge = (magnitude(b) > 2.0**126) & (magnitude(b) < float("inf"))
    return select(huge, a * with_sign_of(b.number(0), b), a / b)


@operation("div", types=FLOATS, section="9.7.3.8")
def div(form: Form) -> Operation:
    """Build ``div.approx|full|rnd{.ftz}.type d, a, b``."""
    mode = form.choice("approx", "full", *rounding.MODES)
    if mode in rounding.MODES:
        ftz, sat, kind = _modifiers(form, saturates=False)
        return _rounded(form, "div", mode, ftz, sat, kind, 2)
    ftz, kind = form.flag("ftz"), form.choice("f32")
    form.end(2)
    body = _approximate_quotient if mode == "approx" else _NEAREST["div"]
    return form.compiled(treated(body, ftz=ftz), [kind, kind], [kind])


def _gross(body: Body) -> Body:
    """Build an operation on the upper 32 bits of an f64 (1.11.20).

    The lower 32 bits of the result are cut off. An H200 does the same for the reciprocal except in
    three of a hundred cases.
    """

    def whole(a: Value) -> Value:
        upper = (a.view("u64") & UPPER).view("f64")
        exact = body(flush(upper))
        result = flush((exact.view("u64") & UPPER).view("f64"))
        return select(is_nan(exact), a.number(NAN_GROSS_F64, "u64").view("f64"), result)

    return whole


def _reciprocal_root(a: Value) -> Value:
    return a.number(1) / sqrt(a)


def _reciprocal_root_f32(a: Value) -> Value:
    return _reciprocal_root(a.to("f64")).to("f32")


def _refined_root(a: Value) -> Value:
    """Return ``rsqrt.approx.f64`` as ptxas 13.0 compiles it for sm_90.

    It is an estimate with 20 fraction bits, refined once.
    """
    tiny = magnitude(a) < 2.0**-1022
    x = select(tiny, a * 2.0**54, a)
    guess = (_reciprocal_root(x).view("u64") & UPPER).view("f64")
    error = fma(x, -(guess * guess), x.number(1))
    root = fma(fma(error, x.number(0.375), 0.5), guess * error, guess)
    root = select(tiny, root * 2.0**27, root)
    return select((a > 0) & (a < float("inf")), root, _reciprocal_root(a))


@operation("rcp", types=FLOATS, section="9.7.3.13")
@operation("sqrt", types=FLOATS, section="9.7.3.15")
def rcp_sqrt(form: Form) -> Operation:
    """Build ``rcp|sqrt.approx|rnd{.ftz}.type d, a`` and ``rcp.approx.ftz.f64`` (9.7.3.14)."""
    mode = form.choice("approx", *rounding.MODES)
    if mode in rounding.MODES:
        return _rounded(form, form.opcode, mode, *_modifiers(form, saturates=False), 1)
    ftz = form.flag("ftz")
    kind = form.choice(*FLOATS) if ftz and form.opcode == "rcp" else form.choice("f32")
    form.end(1)
    body = _NEAREST[form.opcode]
    body = _gross(body) if kind == "f64" else treated(body, ftz=ftz)
    return form.compiled(body, [kind], [kind])


@operation("rsqrt", types=FLOATS, section="9.7.3.16")
def rsqrt(form: Form) -> Operation:
    """Build ``rsqrt.approx{.ftz}.type d, a`` and ``rsqrt.approx.ftz.f64`` (9.7.3.17)."""
    form.choice("approx")
    ftz, kind = form.flag("ftz"), form.choice(*FLOATS)
    form.end(1)
    if kind == "f32":
        body = treated(_reciprocal_root_f32, ftz=ftz)
    else:
        body = _gross(_reciprocal_root) if ftz else passing(_refined_root, 0)
    return form.compiled(body, [kind], [kind])


@operation("abs", types=FLOATS, section="9.7.3.9")
@operation("neg", types=FLOATS, section="9.7.3.10")
def abs_neg(form: Form) -> Operation:
    """Build ``abs|neg{.ftz}.type d, a``."""
    ftz, _, kind = _modifiers(form, saturates=False)
    form.end(1)
    body = magnitude if form.opcode == "abs" else Value.__neg__
    whole = _settling(body) if kind == "f64" else treated(body, ftz=ftz)
    return form.compiled(whole, [kind], [kind])


@operation("copysign", types=FLOATS, section="9.7.3.2")
def copysign(form: Form) -> Operation:
    """Build ``copysign.type d, a, b``: the sign of a on the magnitude of b."""
    kind = form.choice(*FLOATS)
    form.end(2)
    return form.compiled(lambda a, b: with_sign_of(b, a), [kind, kind], [kind])


def extreme(opcode: str, nan: bool, xorsign: bool) -> Body:
    """Return min or max of two floats: +0 is above -0, and NaN loses, or wins with ``.NaN``."""

    def body(a: Value, b: Value) -> Value:
        unsigned = "u32" if a.kind == "f32" else "u64"
        signs = (a.view(unsigned) ^ b.view(unsigned)).view(a.kind)
        if xorsign:
            a, b = magnitude(a), magnitude(b)
        first = a < b if opcode == "min" else a > b
        # Equal numbers have equal bits, except zeros: for these, min combines the signs with or,
        # and max with and.
        bits_a, bits_b = a.view(unsigned), b.view(unsigned)
        equal = ((bits_a | bits_b) if opcode == "min" else (bits_a & bits_b)).view(a.kind)
        result = select(first, a, select(a == b, equal, b))
        result = select(is_nan(a), b, select(is_nan(b), b if nan else a, result))
        if nan:
            result = select(is_nan(a), a, result)
        if xorsign:
            result = select(is_nan(result), result, with_sign_of(result, signs))
        return result

    return body


@operation("min", types=FLOATS, section="9.7.3.11")
@operation("max", types=FLOATS, section="9.7.3.12")
def min_max(form: Form) -> Operation:
    """Build ``min|max{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b`` and ``min|max.f64 d, a, b``."""
    ftz, nan = form.flag("ftz"), form.flag("NaN")
    xorsign = form.flag("xorsign")
    if xorsign:
        form.choice("abs")
    kind = form.choice("f32") if ftz or nan or xorsign else form.choice(*FLOATS)
    form.end(2)
    body = extreme(form.opcode, nan, xorsign)
    whole = _settling(body) if kind == "f64" else treated(body, ftz=ftz)
    return form.compiled(whole, [kind, kind], [kind])
