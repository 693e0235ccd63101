"""f16 and bf16 arithmetic, single and in pairs (PTX ISA 9.7.4).

Everything is computed in a format wide enough that one rounding to sixteen bits gives the
correctly rounded result: f32 for additions and products, and f64 rounded to odd for fused
multiply-add. (f32 is enough for bf16 too. A product has 16 bits, so f32 rounds only products that
are zero in bf16.) NaN results are 0x7fff.
"""

from __future__ import annotations

from virtualgpu.operations.expression import Body, Value, magnitude, select, with_sign_of
from virtualgpu.operations.floating import extreme
from virtualgpu.operations.formats import (
    DECODE,
    ENCODE,
    NAN_16,
    clamp_negative,
    odd_f32,
    on_halves,
    round_to_odd,
    saturate,
    two_sum,
)
from virtualgpu.operations.table import Form, Operation, operation

F16 = ("f16", "f16x2")
BF16 = ("bf16", "bf16x2")
HALVES = F16 + BF16
_SMALLEST_NORMAL = 2.0**-14  # of f16; .ftz exists only for f16


def _flush(x: Value) -> Value:
    return select(magnitude(x) < _SMALLEST_NORMAL, with_sign_of(x.number(0), x), x)


def _fma(a: Value, b: Value, c: Value) -> Value:
    """Return ``a * b + c`` in f64 (the product is exact there), rounded to odd."""
    return round_to_odd(*two_sum(a * b, c))


_ARITHMETIC: dict[str, Body] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "fma": _fma,
}


def _elementwise(form: Form, kind: str, body: Body, operands: int) -> Operation:
    """Build ``body`` on 16-bit values (u16), or on both halves of pairs."""
    form.end(operands)
    whole = body if kind in ("f16", "bf16") else on_halves(body)
    return form.compiled(whole, [kind] * operands, [kind])


def _arithmetic(
    form: Form, kind: str, operands: int, ftz: bool, sat: bool, relu: bool
) -> Operation:
    element = kind.removesuffix("x2")
    compute = _ARITHMETIC[form.opcode]
    wide = form.opcode == "fma"

    def body(*values: Value) -> Value:
        values = tuple(DECODE[element](value) for value in values)
        if ftz:
            values = tuple(map(_flush, values))
        if wide:
            values = tuple(value.to("f64") for value in values)
        result = compute(*values)
        result = odd_f32(result) if wide else result
        if ftz:
            result = _flush(result)
        if sat:
            result = saturate(result)
        if relu:
            result = clamp_negative(result)
        return ENCODE[element](result)

    return _elementwise(form, kind, body, operands)


@operation("add", types=HALVES, section="9.7.4.1")
@operation("sub", types=HALVES, section="9.7.4.2")
@operation("mul", types=HALVES, section="9.7.4.3")
def add_sub_mul(form: Form) -> Operation:
    """Build ``add|sub|mul{.rn}{.ftz}{.sat}.type d, a, b``."""
    form.flag("rn")
    ftz, sat = form.flag("ftz"), form.flag("sat")
    kind = form.choice(*(F16 if ftz or sat else HALVES))
    return _arithmetic(form, kind, 2, ftz, sat, relu=False)


@operation("fma", types=HALVES, section="9.7.4.4")
def fma(form: Form) -> Operation:
    """Build ``fma.rn{.ftz}{.sat|.relu}.type d, a, b, c``."""
    form.choice("rn")
    ftz = form.flag("ftz")
    finish = form.choice("sat", "relu", default=None)
    kind = form.choice(*(F16 if ftz or finish == "sat" else HALVES))
    return _arithmetic(form, kind, 3, ftz, finish == "sat", finish == "relu")


@operation("neg", types=HALVES, section="9.7.4.5")
@operation("abs", types=HALVES, section="9.7.4.6")
def neg_abs(form: Form) -> Operation:
    """Build ``neg|abs{.ftz}.type d, a`` on the sign bit; a NaN becomes 0x7fff."""
    ftz = form.flag("ftz")
    kind = form.choice(*(F16 if ftz else HALVES))

    def body(a: Value) -> Value:
        if ftz:
            a = select((a & 0x7C00) == 0, a & 0x8000, a)
        result = a ^ 0x8000 if form.opcode == "neg" else a & 0x7FFF
        infinity = 0x7C00 if kind in F16 else 0x7F80
        return select((a & 0x7FFF) > infinity, NAN_16, result)

    return _elementwise(form, kind, body, 1)


@operation("min", types=HALVES, section="9.7.4.7")
@operation("max", types=HALVES, section="9.7.4.8")
def min_max(form: Form) -> Operation:
    """Build ``min|max{.ftz}{.NaN}{.xorsign.abs}.type d, a, b``."""
    ftz, nan, xorsign = form.flag("ftz"), form.flag("NaN"), form.flag("xorsign")
    if xorsign:
        form.choice("abs")
    kind = form.choice(*(F16 if ftz else HALVES))
    element = kind.removesuffix("x2")
    pick = extreme(form.opcode, nan, xorsign)

    def body(*values: Value) -> Value:
        values = tuple(DECODE[element](value) for value in values)
        return ENCODE[element](pick(*(map(_flush, values) if ftz else values)))

    return _elementwise(form, kind, body, 2)
