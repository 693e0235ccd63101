"""Extended-precision integer arithmetic with the condition code CC.CF (PTX ISA 9.7.2).

Additions read and write CC.CF as a carry, subtractions as a borrow.
"""

from __future__ import annotations

from collections.abc import Callable

from virtualgpu.operations.expression import Value, select
from virtualgpu.operations.integer import product
from virtualgpu.operations.table import Form, Operation, operation

TYPES = ("s32", "u32", "s64", "u64")
# Function from the operands and the carry-in to the result and the carry-out.
Step = Callable[[tuple[Value, ...], Value | None], tuple[Value, Value]]


def _add(a: Value, b: Value, carry: Value | None) -> tuple[Value, Value]:
    """Return the sum of two unsigned numbers and a carry, and the carry-out."""
    total = a + b
    out = total < a
    if carry is not None:
        with_carry = total + select(carry, total.number(1), 0)
        out = out | (with_carry < total)
        total = with_carry
    return total, out


def _subtract(a: Value, b: Value, borrow: Value | None) -> tuple[Value, Value]:
    """Return the difference of two unsigned numbers and a borrow, and the borrow-out."""
    total, out = a - b, a < b
    if borrow is not None:
        with_borrow = total - select(borrow, total.number(1), 0)
        out = out | (with_borrow > total)
        total = with_borrow
    return total, out


def _chain(
    form: Form, step: Step, kind: str, operands: int, carry_in: bool, carry_out: bool
) -> Operation:
    """Build an operation from ``step(operands, carry) -> (result, carry out)``."""
    form.end(operands)

    def body(*values: Value) -> Value | tuple[Value, Value]:
        carry = values[-1] if carry_in else None
        total, out = step(values[:operands], carry)
        return (total.view(kind), out) if carry_out else total.view(kind)

    return form.compiled(body, [kind] * operands, [kind], carry_in=carry_in, carry_out=carry_out)


def _unsigned(value: Value) -> Value:
    return value.view(f"u{value.kind[1:]}")


@operation("add", types=TYPES, section="9.7.2.1", needs="cc")
@operation("addc", types=TYPES, section="9.7.2.2")
@operation("sub", types=TYPES, section="9.7.2.3", needs="cc")
@operation("subc", types=TYPES, section="9.7.2.4")
def add_sub(form: Form) -> Operation:
    """Build ``add|sub.cc.type d, a, b`` and ``addc|subc{.cc}.type d, a, b``."""
    carry_in = form.opcode.endswith("c")
    carry_out = form.flag("cc")
    kind = form.choice(*TYPES)
    combine = _add if form.opcode.startswith("add") else _subtract

    def step(operands: tuple[Value, ...], carry: Value | None) -> tuple[Value, Value]:
        a, b = map(_unsigned, operands)
        return combine(a, b, carry)

    return _chain(form, step, kind, 2, carry_in, carry_out)


@operation("mad", types=TYPES, section="9.7.2.5", needs="cc")
@operation("madc", types=TYPES, section="9.7.2.6")
def mad(form: Form) -> Operation:
    """Build ``mad.hi|lo.cc.type d, a, b, c`` and ``madc.hi|lo{.cc}.type d, a, b, c``."""
    carry_in = form.opcode == "madc"
    part = form.choice("hi", "lo")
    carry_out = form.flag("cc")
    kind = form.choice(*TYPES)

    def step(operands: tuple[Value, ...], carry: Value | None) -> tuple[Value, Value]:
        a, b, c = operands
        return _add(_unsigned(product(a, b, part)), _unsigned(c), carry)

    return _chain(form, step, kind, 3, carry_in, carry_out)
