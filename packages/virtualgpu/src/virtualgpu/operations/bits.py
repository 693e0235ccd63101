"""Counting, finding, moving and masking of bits (PTX ISA 9.7.1.14 to 9.7.1.22, prmt 9.7.9.7)."""

from __future__ import annotations

from virtualgpu.operations.expression import (
    Value,
    bits_of,
    count_ones,
    is_signed,
    larger,
    leading_zeros,
    reverse_bits,
    select,
    smaller,
)
from virtualgpu.operations.table import Form, Operation, operation

WIDE = ("b32", "b64")
WIDE_INTEGERS = ("u32", "u64", "s32", "s64")


@operation("popc", types=WIDE, section="9.7.1.14")
@operation("clz", types=WIDE, section="9.7.1.15")
@operation("brev", types=WIDE, section="9.7.1.18")
def popc_clz_brev(form: Form) -> Operation:
    """Build ``popc|clz.type d, a`` (d is u32) and ``brev.type d, a``."""
    kind = form.choice(*WIDE)
    form.end(1)
    if form.opcode == "brev":
        return form.compiled(reverse_bits, [kind], [kind])
    count = count_ones if form.opcode == "popc" else leading_zeros
    return form.compiled(lambda a: count(a).to("u32"), [kind], ["u32"])


@operation("bfind", types=WIDE_INTEGERS, section="9.7.1.16")
def bfind(form: Form) -> Operation:
    """Build ``bfind{.shiftamt}.type d, a``: find the highest bit that is not a sign bit.

    The result is the position of the bit or, with .shiftamt, its distance from the top. It is
    0xffffffff if there is no such bit.
    """
    shift = form.flag("shiftamt")
    kind = form.choice(*WIDE_INTEGERS)
    form.end(1)

    def body(a: Value) -> Value:
        width = bits_of(a.kind)
        found = select(a < 0, ~a, a) if is_signed(a.kind) else a
        zeros = leading_zeros(found).to("u32")
        return select(found == 0, -1, zeros if shift else zeros.number(width - 1) - zeros)

    return form.compiled(body, [kind], ["u32"])


@operation("fns", types=("b32",), section="9.7.1.17")
def fns(form: Form) -> Operation:
    """Build ``fns.b32 d, mask, base, offset``: find the n-th set bit from ``base``.

    It searches upwards for positive offsets and downwards for negative ones. The result is
    0xffffffff if there is no such bit, or if the base is above 31. For the least offset, which has
    no positive counterpart, ptxas 13.0 returns 0.
    """
    form.choice("b32")
    form.end(3)

    def body(mask: Value, base: Value, offset: Value) -> Value:
        result, up, down = mask.number(-1), offset.number(0), offset.number(0)
        for position in range(32):
            hit = ((mask >> position) & 1 != 0) & (base <= position)
            up = up + hit.to("u32").view("s32")
            result = select(hit & (offset == up), position, result)
            result = select(hit & (offset == 0) & (base == position), position, result)
        for position in reversed(range(32)):
            hit = ((mask >> position) & 1 != 0) & (base >= position) & (base < 32)
            down = down - hit.to("u32").view("s32")
            result = select(hit & (offset == down), position, result)
        return select(offset == -(1 << 31), 0, result)

    return form.compiled(body, ["b32", "u32", "s32"], ["b32"])


def low_mask(length: Value, kind: str) -> Value:
    """Return a mask of ``length`` ones from bit 0 up (u32 to the unsigned ``kind``)."""
    width = bits_of(kind)
    one = length.number(1, kind)
    below = (one << smaller(length, length.number(width - 1)).to(kind)) - 1
    return select(length < width, below, -1)


def counted(width: int, *values: Value) -> tuple[Value, ...]:
    """Return the significant bits of the position and length of a field."""
    return values if width == 64 else tuple(value & 0xFF for value in values)


@operation("bfe", types=WIDE_INTEGERS, section="9.7.1.19")
def bfe(form: Form) -> Operation:
    """Build ``bfe.type d, a, b, c``: extract c bits from bit b on, sign-extended for .s types.

    Only the low eight bits of b and c are used for 32-bit types, and all bits for 64-bit types (as
    on an H200).
    """
    kind = form.choice(*WIDE_INTEGERS)
    form.end(3)

    def body(a: Value, b: Value, c: Value) -> Value:
        width, (position, length) = bits_of(a.kind), counted(bits_of(a.kind), b, c)
        shifted = a >> smaller(position, position.number(width - 1)).to(a.kind)
        if not is_signed(a.kind):
            return select(position < width, shifted & low_mask(length, a.kind), 0)
        unused = larger(
            length.number(width) - smaller(length, length.number(width)), length.number(0)
        )
        unused = smaller(unused, length.number(width - 1)).to(a.kind)
        return select(length == 0, 0, (shifted << unused) >> unused)

    return form.compiled(body, [kind, "u32", "u32"], [kind])


@operation("bfi", types=WIDE, section="9.7.1.20")
def bfi(form: Form) -> Operation:
    """Build ``bfi.type f, a, b, c, d``: insert the low d bits of a into b from bit c on.

    Only the low eight bits of c and d are used for 32-bit types, and all bits for 64-bit types (as
    on an H200).
    """
    kind = form.choice(*WIDE)
    form.end(4)

    def body(a: Value, b: Value, c: Value, d: Value) -> Value:
        width, (position, length) = bits_of(a.kind), counted(bits_of(a.kind), c, d)
        shift = smaller(position, position.number(width - 1)).to(a.kind)
        mask = low_mask(length, a.kind) << shift
        return select(position < width, (b & ~mask) | ((a << shift) & mask), b)

    return form.compiled(body, [kind, kind, "u32", "u32"], [kind])


@operation("szext", types=("u32", "s32"), section="9.7.1.21")
def szext(form: Form) -> Operation:
    """Build ``szext.clamp|wrap.type d, a, b``: sign- or zero-extend the low b bits of a."""
    mode, kind = form.choice("clamp", "wrap"), form.choice("u32", "s32")
    form.end(2)

    def body(a: Value, b: Value) -> Value:
        length = smaller(b, b.number(32)) if mode == "clamp" else b & 31
        if kind == "u32":
            return a & low_mask(length, "u32")
        unused = smaller(length.number(32) - length, length.number(31)).to("s32")
        return select(length == 0, 0, (a << unused) >> unused)

    return form.compiled(body, [kind, "u32"], [kind])


@operation("bmsk", types=("b32",), section="9.7.1.22")
def bmsk(form: Form) -> Operation:
    """Build ``bmsk.clamp|wrap.b32 d, a, b``: a mask of b ones from bit a on."""
    mode = form.choice("clamp", "wrap")
    form.choice("b32")
    form.end(2)

    def body(a: Value, b: Value) -> Value:
        start, length = (a, b) if mode == "clamp" else (a & 31, b & 31)
        mask = low_mask(length, "u32") << smaller(start, start.number(31))
        return select(start < 32, mask, 0)

    return form.compiled(body, ["u32", "u32"], ["b32"])


# Bytes that the special modes select, lowest first, for a control value of 0 to 3.
PERMUTATIONS = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


@operation("prmt", types=("b32",), section="9.7.9.7")
def prmt(form: Form) -> Operation:
    """Build ``prmt.b32{.mode} d, a, b, c``: choose four of the eight bytes of b:a.

    Each nibble of c selects a byte. With its highest bit, it spreads the sign of that byte
    instead. A mode is one of the special permutations.
    """
    form.choice("b32")
    mode = form.choice(*PERMUTATIONS, default=None)
    form.end(3)

    def selectors(c: Value) -> Value:
        if mode is None:
            return c
        codes = [int(digits, 16) for digits in PERMUTATIONS[mode]]
        chosen = c.number(codes[0])
        for value in (1, 2, 3):
            chosen = select((c & 3) == value, codes[value], chosen)
        return chosen

    def body(a: Value, b: Value, c: Value) -> Value:
        both, control = a.to("u64") | (b.to("u64") << 32), selectors(c)
        result = a.number(0)
        for place in range(4):
            nibble = (control >> (4 * place)) & 0xF
            byte = (both >> ((nibble & 7) << 3).to("u64")).to("u8")
            sign = (byte.view("s8") >> 7).view("u8")
            result = result | (select(nibble >= 8, sign, byte).to("u32") << (8 * place))
        return result

    return form.compiled(body, ["b32", "b32", "b32"], ["b32"])
