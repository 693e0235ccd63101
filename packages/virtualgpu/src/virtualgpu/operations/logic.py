"""Logic and shifts (PTX ISA 9.7.8). Shift amounts beyond the width are clamped to it."""

from __future__ import annotations

import operator

import numpy as np

from virtualgpu.operations.expression import Value, bits_of, is_signed, select, smaller
from virtualgpu.operations.table import BITS, INTEGERS, Form, Operation, operation

LOGICAL = ("pred", *BITS)
_BINARY = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_PREDICATE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


@operation("and", types=LOGICAL, section="9.7.8.1")
@operation("or", types=LOGICAL, section="9.7.8.2")
@operation("xor", types=LOGICAL, section="9.7.8.3")
def and_or_xor(form: Form) -> Operation:
    """Build ``and|or|xor.type d, a, b``."""
    kind = form.choice(*LOGICAL)
    form.end(2)
    if kind == "pred":  # NumPy takes ten times as long if one side is uniform
        return form.compiled(_PREDICATE[form.opcode], [kind, kind], [kind])
    return form.plain(_BINARY[form.opcode], [kind, kind], [kind])


@operation("not", types=LOGICAL, section="9.7.8.4")
def not_(form: Form) -> Operation:
    """Build ``not.type d, a``."""
    kind = form.choice(*LOGICAL)
    form.end(1)
    return form.plain(np.invert, [kind], [kind])


@operation("cnot", types=BITS, section="9.7.8.5")
def cnot(form: Form) -> Operation:
    """Build ``cnot.type d, a``: 1 if a is 0, else 0."""
    kind = form.choice(*BITS)
    form.end(1)
    return form.compiled(lambda a: select(a == 0, a.number(1), 0), [kind], [kind])


def by_table(a: Value, b: Value, c: Value, table: Value) -> Value:
    """Apply a function of three bits to all 32 bits: it is bit ``4a + 2b + c`` of the table."""
    result = a.number(0)
    for index in range(8):
        term = a if index & 4 else ~a
        term = term & (b if index & 2 else ~b) & (c if index & 1 else ~c)
        chosen = (table.view("s32") << (31 - index)) >> 31  # all ones if the bit is set
        result = result | (term & chosen.view("u32"))
    return result


@operation("lop3", types=("b32",), section="9.7.8.6")
def lop3(form: Form) -> Operation:
    """Build ``lop3.b32 d, a, b, c, table`` and ``lop3.or|and.b32 d|p, a, b, c, table, q``.

    p is ``(d != 0) or|and q``.
    """
    boolean = form.choice("or", "and", default=None)
    form.choice("b32")
    form.end(5 if boolean else 4, 2 if boolean else 1)
    if boolean is None:
        return form.compiled(by_table, ["b32"] * 4, ["b32"])

    def body(a: Value, b: Value, c: Value, table: Value, q: Value) -> tuple[Value, Value]:
        result = by_table(a, b, c, table)
        return result, (result != 0) | q if boolean == "or" else (result != 0) & q

    return form.compiled(body, [*["b32"] * 4, "pred"], ["b32", "pred"])


def _clamped(amount: Value, limit: int) -> Value:
    return smaller(amount, amount.number(limit))


@operation("shf", types=("b32",), section="9.7.8.7")
def shf(form: Form) -> Operation:
    """Build ``shf.l|r.clamp|wrap.b32 d, a, b, c``: shift the 64 bits of b:a.

    .l returns the upper 32 bits of the result and .r the lower 32.
    """
    side, mode = form.choice("l", "r"), form.choice("clamp", "wrap")
    form.choice("b32")
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        amount = (_clamped(c, 32) if mode == "clamp" else c & 31).to("u64")
        both = a.to("u64") | (b.to("u64") << 32)
        return ((both << amount) >> 32).to("u32") if side == "l" else (both >> amount).to("u32")

    return form.compiled(body, ["b32", "b32", "u32"], ["b32"])


@operation("shl", types=BITS, section="9.7.8.8")
def shl(form: Form) -> Operation:
    """Build ``shl.type d, a, b``."""
    kind = form.choice(*BITS)
    form.end(2)

    def body(a: Value, b: Value) -> Value:
        width = bits_of(a.kind)
        if b.known is not None and b.known < width:
            return a << b.to(a.kind)
        return select(b < width, a << _clamped(b, width - 1).to(a.kind), 0)

    return form.compiled(body, [kind, "u32"], [kind])


@operation("shr", types=(*BITS, *INTEGERS), section="9.7.8.9")
def shr(form: Form) -> Operation:
    """Build ``shr.type d, a, b``, which fills with the sign for .s types, else with zeros."""
    kind = form.choice(*BITS, *INTEGERS)
    form.end(2)

    def body(a: Value, b: Value) -> Value:
        width = bits_of(a.kind)
        if b.known is not None and b.known < width:
            return a >> b.to(a.kind)
        shifted = a >> _clamped(b, width - 1).to(a.kind)
        return shifted if is_signed(a.kind) else select(b < width, shifted, 0)

    return form.compiled(body, [kind, "u32"], [kind])
