"""Packed integers in a 32-bit word: dot products and video instructions.

dp4a, dp2a (PTX ISA 9.7.1.23 and .24) and the video instructions that add, subtract, compare and
select, on a word, its halves or its bytes. Operand selectors and masks are not supported, because
the parser cannot pass them.

A clamped unsigned result is clamped on both sides, as the ISA says. ptxas 13.0 for sm_90 omits the
upper clamp if it composes ``vadd.u32.u32.u32.sat`` of other instructions (according to its code;
not run).
"""

from __future__ import annotations

from virtualgpu.operations.expression import Body, Value, larger, select, smaller
from virtualgpu.operations.integer import absolute_difference
from virtualgpu.operations.table import Form, Operation, operation

WORDS = ("u32", "s32")


def lanes(word: Value, count: int, signed: bool) -> list[Value]:
    """Split a word into 2 or 4 equal parts, lowest first, each extended to 32 bits (s32)."""
    width = 32 // count
    whole = word.view("s32" if signed else "u32")
    parts = [(whole << (32 - width * (i + 1))) >> (32 - width) for i in range(count)]
    return [part.view("s32") for part in parts]


def pack(parts: list[Value]) -> Value:
    """Pack the low bits of each part into a word (u32), lowest first."""
    width = 32 // len(parts)
    word = parts[0].number(0, "u32")
    for i, part in enumerate(parts):
        word = word | ((part.view("u32") & ((1 << width) - 1)) << (i * width))
    return word


def _accumulator(a: str, b: str) -> str:
    return "u32" if a == b == "u32" else "s32"


@operation("dp4a", types=WORDS, section="9.7.1.23")
def dp4a(form: Form) -> Operation:
    """Build ``dp4a.atype.btype d, a, b, c``: c plus the dot product of four bytes each."""
    a_type, b_type = form.choice(*WORDS), form.choice(*WORDS)
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        total = c.view("s32")
        pairs = zip(lanes(a, 4, a_type == "s32"), lanes(b, 4, b_type == "s32"), strict=True)
        for x, y in pairs:
            total = total + x * y
        return total.view(c.kind)

    kind = _accumulator(a_type, b_type)
    return form.compiled(body, [a_type, b_type, kind], [kind])


@operation("dp2a", types=WORDS, section="9.7.1.24")
def dp2a(form: Form) -> Operation:
    """Build ``dp2a.lo|hi.atype.btype d, a, b, c``.

    The result is c plus the dot product of the two halves of a and the lower or upper two bytes of
    b.
    """
    mode = form.choice("lo", "hi")
    a_type, b_type = form.choice(*WORDS), form.choice(*WORDS)
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        bytes_ = lanes(b, 4, b_type == "s32")
        low, high = bytes_[:2] if mode == "lo" else bytes_[2:]
        first, second = lanes(a, 2, a_type == "s32")
        return (c.view("s32") + first * low + second * high).view(c.kind)

    kind = _accumulator(a_type, b_type)
    return form.compiled(body, [a_type, b_type, kind], [kind])


_LANEWISE: dict[str, Body] = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: absolute_difference(x, y).view("s32"),
    "vmin": smaller,
    "vmax": larger,
}


_COMPARISONS: dict[str, Body] = {
    "eq": Value.__eq__,
    "ne": Value.__ne__,
    "lt": Value.__lt__,
    "le": Value.__le__,
    "gt": Value.__gt__,
    "ge": Value.__ge__,
}
_MERGED: dict[str | None, Body] = {
    "add": lambda x, c: x + c,
    "min": smaller,
    "max": larger,
    None: lambda x, c: x,
}


def _limits(kind: str, width: int) -> tuple[int, int]:
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind == "s32" else (0, (1 << width) - 1)


def _clamped(x: Value, lowest: int, highest: int) -> Value:
    return select(x < lowest, lowest, select(x > highest, highest, x))


def _merged(form: Form, body: Body, sources: list[str], result: str) -> Operation:
    """Build ``body`` of two operands, combined with a third by ``{.add|.min|.max}`` if given."""
    then = form.choice("add", "min", "max", default=None)
    form.end(len(sources) + (then is not None))

    def whole(a: Value, b: Value, c: Value | None = None) -> Value:
        first = body(a, b)
        return first if c is None else _MERGED[then](first, c)

    return form.compiled(whole, [*sources, *[result] * (then is not None)], [result])


def _scalar(form: Form) -> Operation:
    """Build ``vop.dtype.atype.btype{.sat}{.add|.min|.max} d, a, b{, c}``.

    The exact result is clamped with .sat; otherwise it is truncated to its type.
    """
    result, a_type, b_type = (form.choice(*WORDS) for _ in range(3))
    sat = form.flag("sat")

    def body(a: Value, b: Value) -> Value:
        exact = _WIDE[form.opcode](a.to("s64"), b.to("s64"))
        if sat:
            exact = _clamped(exact, *_limits(result, 32))
        return exact.to("u32").view(result)

    return _merged(form, body, [a_type, b_type], result)


@operation("vset", types=WORDS, section="Scalar video instructions")
def vset(form: Form) -> Operation:
    """Build ``vset.atype.btype.cmp{.add|.min|.max} d, a, b{, c}``: 1 if the comparison holds."""
    a_type, b_type = form.choice(*WORDS), form.choice(*WORDS)
    compare = _COMPARISONS[form.choice(*_COMPARISONS)]
    return _merged(
        form, lambda a, b: compare(a.to("s64"), b.to("s64")).to("u32"), [a_type, b_type], "u32"
    )


@operation("vset2", types=WORDS, section="SIMD video instructions")
@operation("vset4", types=WORDS, section="SIMD video instructions")
def vset_parts(form: Form) -> Operation:
    """Build ``vset2|vset4.atype.btype.cmp{.add} d, a, b, c``.

    Each part is 1 if its comparison holds. With .add, the result is the number of such parts plus
    c.
    """
    count = int(form.opcode[-1])
    a_type, b_type = form.choice(*WORDS), form.choice(*WORDS)
    compare = _COMPARISONS[form.choice(*_COMPARISONS)]
    add = form.flag("add")
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        pairs = zip(lanes(a, count, a_type == "s32"), lanes(b, count, b_type == "s32"), strict=True)
        parts = [compare(x, y).to("u32") for x, y in pairs]
        return sum(parts, c) if add else pack(parts)

    return form.compiled(body, [a_type, b_type, "u32"], ["u32"])


def _video(form: Form) -> Operation:
    """Build ``vop2|vop4.dtype.atype.btype{.sat|.add} d, a, b, c``: work on each part.

    Results are truncated or clamped to the width of a part. With .add, the parts are added to c.
    """
    count = int(form.opcode[-1])
    result, a_type, b_type = (form.choice(*WORDS) for _ in range(3))
    finish = form.choice("sat", "add", default=None)
    form.end(3)
    limits = _limits(result, 32 // count)

    def body(a: Value, b: Value, c: Value) -> Value:
        pairs = zip(lanes(a, count, a_type == "s32"), lanes(b, count, b_type == "s32"), strict=True)
        parts = [_LANEWISE[form.opcode[:-1]](x, y) for x, y in pairs]
        if finish == "add":
            return sum(parts, c.view("s32")).view(c.kind)
        if finish == "sat":
            parts = [_clamped(x, *limits) for x in parts]
        return pack(parts).view(c.kind)

    return form.compiled(body, [a_type, b_type, result], [result])


# For a whole word, numbers are kept in 64 bits, where a difference of two cannot wrap.
_WIDE = {**_LANEWISE, "vabsdiff": lambda x, y: select(x < y, y - x, x - y)}

for _name in _LANEWISE:
    operation(_name, types=WORDS, section="Scalar video instructions")(_scalar)
    for _count in "24":
        operation(_name + _count, types=WORDS, section="SIMD video instructions")(_video)
