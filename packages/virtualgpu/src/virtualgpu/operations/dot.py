"""Packed integers in a 32-bit word: dp4a, dp2a (PTX ISA 9.7.1.23 and .24) and those SIMD video
instructions that NVCC still writes for its ``__vabsdiff``, ``__vsad`` and ``__vadd`` intrinsics.
"""

from __future__ import annotations

from virtualgpu.operations.expression import Body, Value, larger, select, smaller
from virtualgpu.operations.integer import absolute_difference
from virtualgpu.operations.table import Form, Operation, operation

WORDS = ("u32", "s32")


def lanes(word: Value, count: int, signed: bool) -> list[Value]:
    """The 2 or 4 equal parts of a word, lowest first, each extended to 32 bits (s32)."""
    width = 32 // count
    whole = word.view("s32" if signed else "u32")
    parts = [(whole << (32 - width * (i + 1))) >> (32 - width) for i in range(count)]
    return [part.view("s32") for part in parts]


def pack(parts: list[Value]) -> Value:
    """A word (u32) from the low bits of each part, lowest first."""
    width = 32 // len(parts)
    word = parts[0].number(0, "u32")
    for i, part in enumerate(parts):
        word = word | ((part.view("u32") & ((1 << width) - 1)) << (i * width))
    return word


def _accumulator(a: str, b: str) -> str:
    return "u32" if a == b == "u32" else "s32"


@operation("dp4a", types=WORDS, section="9.7.1.23")
def dp4a(form: Form) -> Operation:
    """dp4a.atype.btype d, a, b, c: c plus the dot product of four bytes each."""
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
    """dp2a.lo|hi.atype.btype d, a, b, c: c plus the dot product of the two halves of a with the
    lower or upper two bytes of b."""
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


def _video(form: Form) -> Operation:
    """vop2|vop4.dtype.atype.btype{.sat|.add} d, a, b, c: the operation on each part, cut or
    clamped to the part's width; with .add the sum of the parts plus c. Operand selectors and
    masks are not supported: the parser has no way to pass them."""
    count = int(form.opcode[-1])
    result, a_type, b_type = (form.choice(*WORDS) for _ in range(3))
    finish = form.choice("sat", "add", default=None)
    form.end(3)
    width = 32 // count
    lowest, highest = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if result == "s32" else (0, (1 << width) - 1))

    def body(a: Value, b: Value, c: Value) -> Value:
        pairs = zip(lanes(a, count, a_type == "s32"), lanes(b, count, b_type == "s32"),
                    strict=True)
        parts = [_LANEWISE[form.opcode[:-1]](x, y) for x, y in pairs]
        if finish == "add":
            return sum(parts, c.view("s32")).view(c.kind)
        if finish == "sat":
            parts = [select(x < lowest, lowest, select(x > highest, highest, x)) for x in parts]
        return pack(parts).view(c.kind)
    return form.compiled(body, [a_type, b_type, result], [result])


for _name in _LANEWISE:
    for _count in "24":
        operation(_name + _count, types=WORDS, section="SIMD video instructions")(_video)
