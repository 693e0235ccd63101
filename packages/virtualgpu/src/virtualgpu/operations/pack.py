"""Packed forms of cvt (PTX ISA 9.7.9.21 and cvt.pack, 9.7.9.22).

These are pairs of f16 and bf16, pairs of eight-bit floats, tf32, and pairs of small integers.

The first of two operands becomes the upper half of the result.
"""

from __future__ import annotations

from virtualgpu.operations.expression import Value, magnitude, select, with_sign_of
from virtualgpu.operations.formats import (
    DECODE,
    ENCODE,
    clamp_negative,
    e4m3_from_f32,
    e5m2_from_f32,
    f16_from_f32,
    f32_from_e4m3,
    f32_from_e5m2,
    halves,
    is_nan,
    join,
)
from virtualgpu.operations.rounding import directed
from virtualgpu.operations.table import Form, Operation

_LARGEST = {
    "f16": 65504.0,
    "bf16": float.fromhex("0x1.fep127"),
    "tf32": float.fromhex("0x1.ffcp127"),
}
_EIGHT = {"e4m3x2": (e4m3_from_f32, f32_from_e4m3), "e5m2x2": (e5m2_from_f32, f32_from_e5m2)}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
PACKED_SOURCES = ("f16x2", *_EIGHT, "b32")  # last types of packed forms beyond the plain ones
_SMALL = {
    "u2": (0, 3),
    "s2": (-2, 1),
    "u4": (0, 15),
    "s4": (-8, 7),
    "u8": (0, 255),
    "s8": (-128, 127),
    "u16": (0, 65535),
    "s16": (-32768, 32767),
}


def limited(x: Value, kind: str) -> Value:
    """Apply ``.satfinite``: clamp to the largest number of the type."""
    largest = x.number(_LARGEST[kind])
    return select(magnitude(x) > largest, with_sign_of(largest, x), x)


def packed_form(form: Form) -> Operation | None:
    """Return the operation of a packed cvt, or None for a plain one."""
    modifiers = form.modifiers
    if modifiers[:1] == ("pack",):
        return _pack_integers(form)
    if "tf32" in modifiers:
        return _tf32(form)
    if modifiers[-1] in _EIGHT:
        return _from_eight(form)
    if len(modifiers) > 1 and modifiers[-2] in _EIGHT:
        return _to_eight(form)
    if len(modifiers) > 1 and modifiers[-2] in _PAIRS:
        return _pair(form)
    return None


def _finish(form: Form) -> tuple[bool, bool]:
    """Read {.relu} and {.satfinite} in either order, because the ISA's text has both orders."""
    flags = {form.choice("relu", "satfinite", default=None) for _ in range(2)}
    return "relu" in flags, "satfinite" in flags


def _pair(form: Form) -> Operation:
    """Build ``cvt.rn|rz{.relu}{.satfinite}.f16x2|bf16x2.f32 d, a, b``."""
    mode = form.choice("rn", "rz")
    relu, satfinite = _finish(form)
    kind = form.choice(*_PAIRS)
    form.choice("f32")
    form.end(2)
    element = _PAIRS[kind]

    def convert(x: Value) -> Value:
        if relu:
            x = clamp_negative(x)
        if satfinite:
            x = limited(x, element)
        nearest = ENCODE[element](x)
        back = DECODE[element](nearest)
        return directed(nearest, x > back, x < back, mode[1])

    return form.compiled(lambda a, b: join(convert(b), convert(a)), ["f32", "f32"], [kind])


def _to_eight(form: Form) -> Operation:
    """Build ``cvt.rn.satfinite{.relu}.e4m3x2|e5m2x2.f32 d, a, b`` and ``….f16x2 d, a``."""
    form.choice("rn")
    form.choice("satfinite")
    relu = form.flag("relu")
    encode, _ = _EIGHT[form.choice(*_EIGHT)]
    source = form.choice("f32", "f16x2")
    form.end(2 if source == "f32" else 1)

    def join_bytes(low: Value, high: Value) -> Value:
        low, high = (encode(clamp_negative(x) if relu else x).to("u16") for x in (low, high))
        return low | (high << 8)

    if source == "f32":
        return form.compiled(lambda a, b: join_bytes(b, a), ["f32", "f32"], ["b16"])
    return form.compiled(lambda a: join_bytes(*map(DECODE["f16"], halves(a))), ["f16x2"], ["b16"])


def _from_eight(form: Form) -> Operation:
    """Build ``cvt.rn{.relu}.f16x2.e4m3x2|e5m2x2 d, a``."""
    form.choice("rn")
    relu = form.flag("relu")
    form.choice("f16x2")
    _, decode = _EIGHT[form.choice(*_EIGHT)]
    form.end(1)

    def body(a: Value) -> Value:
        values = [decode(byte.to("u8")) for byte in (a, a >> 8)]
        return join(*(f16_from_f32(clamp_negative(x) if relu else x) for x in values))

    return form.compiled(body, ["b16"], ["f16x2"])


def _tf32(form: Form) -> Operation:
    """Build ``cvt.rna|rn|rz{.satfinite}{.relu}.tf32.f32 d, a``, which keeps ten fraction bits."""
    mode = form.choice("rna", "rn", "rz")
    relu, satfinite = _finish(form)
    form.choice("tf32")
    form.choice("f32")
    form.end(1)

    def body(a: Value) -> Value:
        x = clamp_negative(a) if relu else a
        bits = x.view("u32")
        if mode == "rna":
            bits = bits + 0x1000
        elif mode == "rn":
            bits = bits + 0xFFF + ((bits >> 13) & 1)
        rounded = select(magnitude(x) < float("inf"), bits, x.view("u32")) & 0xFFFFE000
        # .rna is composed of integer instructions (ptxas 13.0 for sm_90), which truncate a NaN like
        # any number, so a NaN with few bits becomes infinity.
        nan = rounded if mode == "rna" else x.number(0x7FFFE000, "u32")
        if satfinite:
            rounded = limited(rounded.view("f32"), "tf32").view("u32")
        return select(is_nan(x), nan, rounded)

    return form.compiled(body, ["f32"], ["b32"])


def _pack_integers(form: Form) -> Operation:
    """Build ``cvt.pack.sat.type.s32 d, a, b`` (16 bits) and ``….type.s32.b32 d, a, b, c``.

    The second form puts the low bits of c above the pair.
    """
    form.choice("pack")
    form.choice("sat")
    kind = form.choice(*_SMALL)
    form.choice("s32")
    width, (lowest, highest) = int(kind[1:]), _SMALL[kind]
    if width < 16:
        form.choice("b32")
    form.end(2 if width == 16 else 3)

    def clamp(x: Value) -> Value:
        limited_ = select(x < lowest, lowest, select(x > highest, highest, x))
        return limited_.view("u32") & ((1 << width) - 1)

    def body(a: Value, b: Value, c: Value | None = None) -> Value:
        pair = clamp(b) | (clamp(a) << width)
        return pair if c is None else pair | (c << (2 * width))

    return form.compiled(body, ["s32", "s32", *["b32"] * (width < 16)], ["u32"])
