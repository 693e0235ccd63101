"""Integer arithmetic (PTX ISA 9.7.1). Results wrap unless ``.sat`` is given.

The ISA does not specify division by zero. Here quotient and remainder are all ones, signed or
unsigned, as in the constant folding of NVIDIA's assembler (ptxas 13.4 for sm_80). The smallest
number divided by -1 wraps to itself, with remainder 0.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.operations.expression import (
    Body,
    Value,
    bits_of,
    call,
    is_signed,
    larger,
    select,
    smaller,
)
from virtualgpu.operations.formats import on_halves
from virtualgpu.operations.table import INTEGERS, SIGNED, Form, Operation, operation

PAIRS = ("s16x2", "u16x2")
WORDS = ("s32", "u32")


def widened(kind: str) -> str:
    """Return the integer kind of twice the width."""
    return f"{kind[0]}{2 * bits_of(kind)}"


def pairwise(body: Body, kind: str) -> Body:
    """Apply ``body`` to each 16-bit half (``s16`` or ``u16``) of packed words."""
    return on_halves(lambda *parts: body(*(part.view(kind) for part in parts)).view("u16"))


@operation("add", types=(*INTEGERS, *PAIRS), section="9.7.1.1")
@operation("sub", types=INTEGERS, section="9.7.1.2")
def add_sub(form: Form) -> Operation:
    """Build ``add|sub.type d, a, b``, ``add|sub.sat.s32`` and ``add.u16x2|s16x2``."""
    saturate = form.flag("sat")
    kind = (
        form.choice("s32")
        if saturate
        else form.choice(*INTEGERS, *(PAIRS if form.opcode == "add" else ()))
    )
    form.end(2)
    if saturate:
        name = f"s{form.opcode}.sat"
        return form.compiled(lambda a, b: call(name, [a, b]), [kind] * 2, [kind])
    if kind in PAIRS:
        body = pairwise(lambda a, b: a + b, kind[:3])
        return form.compiled(body, ["u32", "u32"], ["u32"])
    function = np.add if form.opcode == "add" else np.subtract
    return form.plain(function, [kind] * 2, [kind])


def product(a: Value, b: Value, part: str) -> Value:
    """Return the low or high half of a product, or the whole product in twice the width."""
    if part == "lo":
        return a * b
    whole = a.to(widened(a.kind)) * b.to(widened(b.kind))
    return whole if part == "wide" else (whole >> bits_of(a.kind)).to(a.kind)


def _part(form: Form) -> tuple[str, str, str]:
    """Read .hi, .lo or .wide and the type; return them and the type of the result."""
    part = form.choice("hi", "lo", "wide")
    saturate = form.flag("sat") if part == "hi" and form.opcode == "mad" else False
    if saturate:
        return "hi.sat", form.choice("s32"), "s32"
    kind = form.choice("s16", "u16", "s32", "u32", *(() if part == "wide" else ("s64", "u64")))
    return part, kind, widened(kind) if part == "wide" else kind


@operation("mul", types=INTEGERS, section="9.7.1.3")
def mul(form: Form) -> Operation:
    """Build ``mul.hi|lo|wide.type d, a, b``."""
    part, kind, result = _part(form)
    form.end(2)
    if part == "lo":
        return form.plain(np.multiply, [kind] * 2, [kind])
    return form.compiled(lambda a, b: product(a, b, part), [kind] * 2, [result])


@operation("mad", types=INTEGERS, section="9.7.1.4")
def mad(form: Form) -> Operation:
    """Build ``mad.hi|lo|wide.type d, a, b, c`` and ``mad.hi.sat.s32``."""
    part, kind, result = _part(form)
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        if part == "hi.sat":
            return call("sadd.sat", [product(a, b, "hi"), c])
        return product(a, b, part) + c

    return form.compiled(body, [kind, kind, result], [result])


def _product24(a: Value, b: Value, part: str) -> Value:
    """Return bits 31..0 or 47..16 of the product of the operands' low 24 bits."""
    narrow = [(x << 8) >> 8 for x in (a, b)]
    whole = narrow[0].to(widened(a.kind)) * narrow[1].to(widened(a.kind))
    return (whole if part == "lo" else whole >> 16).to(a.kind)


@operation("mul24", types=WORDS, section="9.7.1.5")
def mul24(form: Form) -> Operation:
    """Build ``mul24.hi|lo.type d, a, b``."""
    part, kind = form.choice("hi", "lo"), form.choice(*WORDS)
    form.end(2)
    return form.compiled(lambda a, b: _product24(a, b, part), [kind] * 2, [kind])


@operation("mad24", types=WORDS, section="9.7.1.6")
def mad24(form: Form) -> Operation:
    """Build ``mad24.hi|lo.type d, a, b, c`` and ``mad24.hi.sat.s32``."""
    part = form.choice("hi", "lo")
    saturate = part == "hi" and form.flag("sat")
    kind = form.choice("s32") if saturate else form.choice(*WORDS)
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        high_or_low = _product24(a, b, part)
        return call("sadd.sat", [high_or_low, c]) if saturate else high_or_low + c

    return form.compiled(body, [kind] * 3, [kind])


def absolute_difference(a: Value, b: Value) -> Value:
    """Return |a - b| as an unsigned number of the same width."""
    unsigned = f"u{bits_of(a.kind)}"
    return select(a < b, b.view(unsigned) - a.view(unsigned), a.view(unsigned) - b.view(unsigned))


@operation("sad", types=INTEGERS, section="9.7.1.7")
def sad(form: Form) -> Operation:
    """Build ``sad.type d, a, b, c``: c + abs(a - b)."""
    kind = form.choice(*INTEGERS)
    form.end(3)
    return form.compiled(
        lambda a, b, c: c + absolute_difference(a, b).view(kind), [kind] * 3, [kind]
    )


def divide(a: Value, b: Value, remainder: bool = False) -> Value:
    """Return the quotient or remainder, defined for every pair of operands.

    The processor's own division only gets pairs that it can divide.
    """
    zero = b == 0
    bad = zero
    if is_signed(a.kind):
        bad = bad | ((b == -1) & (a == -(1 << (bits_of(a.kind) - 1))))
    divisor = select(bad, 1, b)
    if bits_of(a.kind) <= 32:
        # This is exact, because a non-integer quotient of 32-bit numbers differs by at least 2**-32
        # from an integer, and f64 is precise to 2**-21 of that. The processor has vector division
        # for f64 but not for integers.
        quotient = (a.to("f64") / divisor.to("f64")).to(a.kind)
        rest = a - quotient * divisor
    else:
        quotient, rest = a // divisor, a % divisor
    return select(zero, -1, rest if remainder else quotient)


@operation("div", types=INTEGERS, section="9.7.1.8")
@operation("rem", types=INTEGERS, section="9.7.1.9")
def div_rem(form: Form) -> Operation:
    """Build ``div|rem.type d, a, b``: towards zero; the remainder has the dividend's sign."""
    kind = form.choice(*INTEGERS)
    form.end(2)
    return form.compiled(lambda a, b: divide(a, b, form.opcode == "rem"), [kind] * 2, [kind])


@operation("abs", types=SIGNED, section="9.7.1.10")
@operation("neg", types=SIGNED, section="9.7.1.11")
def abs_neg(form: Form) -> Operation:
    """Build ``abs|neg.type d, a``, which do not change the smallest number."""
    kind = form.choice(*SIGNED)
    form.end(1)
    return form.plain(np.absolute if form.opcode == "abs" else np.negative, [kind], [kind])


@operation("min", types=(*INTEGERS, *PAIRS), section="9.7.1.12")
@operation("max", types=(*INTEGERS, *PAIRS), section="9.7.1.13")
def min_max(form: Form) -> Operation:
    """Build ``min|max.type d, a, b``, with {.relu} for .s32 and .s16x2.

    The text of the ISA has .relu before the type, but NVCC writes it after the type.
    """
    relu = form.flag("relu")
    kind = form.choice("s32", "s16x2") if relu else form.choice(*INTEGERS, *PAIRS)
    if kind in ("s32", "s16x2") and not relu:
        relu = form.flag("relu")
    form.end(2)
    pick = smaller if form.opcode == "min" else larger

    def body(a: Value, b: Value) -> Value:
        result = pick(a, b)
        return larger(result, result.number(0)) if relu else result

    if kind in PAIRS:
        return form.compiled(pairwise(body, kind[:3]), ["u32"] * 2, ["u32"])
    return form.compiled(body, [kind] * 2, [kind])
