"""Floating-point formats as expressions: encodings, canonical NaN, flushing, saturation.

f16 has one sign, five exponent and ten fraction bits; bf16 is the upper half of an f32; e4m3 and
e5m2 are the two eight-bit formats of sm_89 and later. LLVM's own ``half`` is not used, because on
processors without conversion instructions it calls functions that may not exist.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence

from virtualgpu.operations.expression import (
    Body,
    Value,
    bits_of,
    magnitude,
    opaque,
    select,
    sign_bit,
    with_sign_of,
)

NAN_F32 = 0x7FFFFFFF  # NaN that all of NVIDIA's f32 instructions return: CUDART_NAN_F
NAN_F64 = 0xFFF8000000000000  # result of 0/0 in f64: CUDART_NAN in CUDA's math_constants.h
QUIET_F64 = 1 << 51  # bit that distinguishes a quiet NaN from a signalling one
NAN_16 = 0x7FFF  # NaN that f16 and bf16 instructions return
_SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}


def is_nan(x: Value) -> Value:
    return x != x


def canonical(x: Value) -> Value:
    """Replace every NaN by the canonical one of its format, as f32 instructions do.

    Otherwise the payload would depend on the host's processor and on the order in which LLVM
    arranges the operands.
    """
    nan = x.number(NAN_F32, "u32") if x.kind == "f32" else x.number(NAN_F64, "u64")
    settled = select(is_nan(x), nan.view(x.kind), x)
    return Value(x.builder, settled.node, x.kind, loose=x)


def is_quiet(x: Value) -> bool:
    """Return True if the f64 ``x`` is known not to be a signalling NaN.

    A value with a different ``loose`` form is the result of a computation, so it is quiet.
    """
    return x.loose is not x


def quiet(x: Value) -> Value:
    """Return the f64 ``x``, a NaN, with its quiet bit set."""
    return x if is_quiet(x) else (x.view("u64") | QUIET_F64).view("f64")


def inherited(x: Value, *operands: Value) -> Value:
    """Return the f64 ``x`` with the NaN bits of f64 instructions.

    They are the bits of the first of ``operands`` that is NaN, made quiet, with its sign. If none
    is NaN, they are the bits of 0/0.
    """
    bits = x.number(NAN_F64, "u64")
    for operand in reversed(operands):
        bits = select(is_nan(operand.loose), operand.view("u64"), bits)
    settled = select(is_nan(x), (bits | QUIET_F64).view("f64"), x)
    return Value(x.builder, settled.node, x.kind, loose=x)


# True if the processor's own f64 instructions return the NaN of the only NaN operand, made quiet,
# and otherwise 0xfff8000000000000: AMD64 Architecture Programmer's Manual, volume 1, 4.7.1, and
# Intel's SDM, volume 1, 4.8.3.5 and table 4-7. (On an ARM processor it is positive.)
PASSES_NAN_ON = platform.machine().lower() in ("x86_64", "amd64")


def passed_on(body: Body, *operands: Value, order: Sequence[int]) -> Value:
    """Compute ``body(*operands)`` in f64 with the NaN bits of :func:`inherited`.

    ``body`` must be one f64 instruction on the processor. ``order`` is the order in which the GPU
    instruction looks for a NaN.

    For a single NaN operand, the processor gives the same result. For several it may choose
    another one, and LLVM may have exchanged operands. So only the operands before the last of
    ``order`` are tested for NaN. For an addition this takes one comparison and one selection,
    where :func:`inherited` takes three of each.
    """
    if not PASSES_NAN_ON:
        return inherited(body(*(one.loose for one in operands)), *(operands[i] for i in order))
    asked: list[Value] = []  # in this order; a repeated operand (x * x) is tested once
    for one in (operands[i] for i in order):
        if all(one.node is not other.node for other in asked):
            asked.append(one)
    *before, last = asked
    x = body(*(_no_identity(one if one.node is last.node else one.loose) for one in operands))
    settled = x
    if len(before) == 1:
        settled = select(is_nan(before[0].loose), quiet(before[0]), x)
    elif before:
        first, second = (one.loose for one in before)
        chosen = select(is_nan(first), *before)
        if not all(is_quiet(one) for one in before):
            chosen = quiet(chosen)
        settled = select(first.unordered(second), chosen, x)
    return Value(x.builder, settled.node, x.kind, loose=x)


def _no_identity(x: Value) -> Value:
    """Hide a constant operand from LLVM if it is an identity of the operation.

    LLVM would remove the operation, which makes a NaN quiet and keeps its sign.
    """
    return opaque(x) if x.constant in (0.0, 1.0, -1.0) else x


def converted(x: Value, kind: str, rounded: Value) -> Value:
    """Return ``rounded``, a converted ``x``, with defined NaN bits.

    ``x`` is an f32 converted to f64, or an f64 converted to a shorter type. The sign and the upper
    part of the payload are kept, and the quiet bit is set. (bf16 from f64: 0x7fff; the result of a
    GPU is unknown.)
    """
    if kind == "bf16":
        return rounded
    bits = x.view(f"u{bits_of(x.kind)}")
    if kind == "f64":
        bits = bits.to("u64")
        nan = ((bits & 0x80000000) << 32) | ((bits & 0x7FFFFF) << 29) | 0x7FF8000000000000
    elif kind == "f16":
        nan = (((bits >> 48) & 0x8000) | ((bits >> 42) & 0x3FF) | 0x7E00).to("u16")
        return select(is_nan(x), nan, rounded)
    else:
        nan = (((bits >> 32) & 0x80000000) | ((bits >> 29) & 0x7FFFFF) | 0x7FC00000).to("u32")
    return select(is_nan(x), nan.view(kind), rounded)


def flush(x: Value, kind: str | None = None) -> Value:
    """Apply ``.ftz``: replace subnormals (of ``kind``, if given) by zeros of their sign."""
    tiny = magnitude(x) < _SMALLEST_NORMAL[kind or x.kind]
    return select(tiny, with_sign_of(x.number(0), x), x)


def saturate(x: Value) -> Value:
    """Apply ``.sat``: clamp to [0, 1]; NaN and -0 become +0."""
    return select(x > 0, select(x < 1, x, 1), 0)


def clamp_negative(x: Value) -> Value:
    """Apply ``.relu``: replace negative numbers and -0 by +0; NaN stays NaN."""
    return select(x <= 0, 0, x)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return ``a + b`` rounded and the exact rounding error (Knuth, TAOCP 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def round_to_odd(total: Value, error: Value) -> Value:
    """Round ``total + error`` to odd: an inexact result gets the last bit 1.

    A value rounded to odd with two extra bits can be rounded again without error (Boldo and
    Melquiond, "Emulation of FMA and correctly rounded sums", 2008). ``error`` must be below one
    unit in the last place of ``total``. Only its sign is used, so it may have a wider kind.
    """
    unsigned = f"u{bits_of(total.kind)}"
    encoding = total.view(unsigned)
    inexact = (error > 0) | (error < 0)
    even = (encoding & 1) == 0
    outwards = (error > 0) ^ ((encoding & sign_bit(total.kind)) != 0)
    odd = encoding + select(outwards, encoding.number(1), encoding.number(-1))
    return select(inexact & even, odd, encoding).view(total.kind)


def odd_f32(x: Value) -> Value:
    """Round an f64 to f32 by rounding to odd, before a rounding to 16 bits or fewer."""
    nearest = x.to("f32")
    return round_to_odd(nearest, x - nearest.to("f64"))


def encode(x: Value, fraction: int) -> Value:
    """Convert f32 to a 16-bit-like format with ``fraction`` bits (u32), to nearest even.

    The format has one sign bit and five exponent bits.

    Numbers beyond the largest become infinity. NaN is all ones except the sign.
    """
    shift = 23 - fraction
    everything = x.view("u32")
    sign = everything & 0x80000000
    size = everything ^ sign
    # Rebias the exponent by 127 - 15 = 112; a carry from the fraction increments it.
    rounding = ((size >> shift) & 1) + ((1 << (shift - 1)) - 1)
    normal = (size + rounding - (112 << 23)) >> shift
    # Adding a number whose last place is the format's quantum makes the hardware round there.
    anchor = x.number(2.0 ** (9 - fraction))
    subnormal = (magnitude(x) + anchor).view("u32") - anchor.view("u32")
    result = select(size < 0x38800000, subnormal, normal)  # below 2**-14
    result = select(size < 0x47800000, result, 31 << fraction)  # from 2**16
    result = result | (sign >> (26 - fraction))
    return select(size > 0x7F800000, (1 << (5 + fraction)) - 1, result)


def f32_from_f16(bits: Value) -> Value:
    """Return the exact value; NaN stays NaN."""
    wide = bits.to("u32")
    shifted = (wide & 0x7FFF) << 13
    # Multiplying by 2**112 rebiases both normal and subnormal numbers exactly.
    finite = shifted.view("f32") * 2.0**112
    special = (shifted | 0x7F800000).view("f32")
    value = select(shifted >= 0x0F800000, special, finite)
    return (value.view("u32") | ((wide & 0x8000) << 16)).view("f32")


def f16_from_f32(x: Value) -> Value:
    """Convert to nearest even; NaN gives 0x7fff."""
    return encode(x, 10).to("u16")


def f32_from_bf16(bits: Value) -> Value:
    return (bits.to("u32") << 16).view("f32")


def bf16_from_f32(x: Value) -> Value:
    """Convert to nearest even; NaN gives 0x7fff."""
    everything = x.view("u32")
    rounded = (everything + 0x7FFF + ((everything >> 16) & 1)) >> 16
    return select(is_nan(x), NAN_16, rounded).to("u16")


def e5m2_from_f32(x: Value) -> Value:
    """Convert with ``.satfinite``: clamp at ±57344; NaN gives 0x7f."""
    limited = select(magnitude(x) > 57344, with_sign_of(x.number(57344), x), x)
    return encode(limited, 2).to("u8")


def e4m3_from_f32(x: Value) -> Value:
    """Convert with ``.satfinite``: clamp at ±448; NaN gives 0x7f.

    e4m3 has one exponent bit less than the result of :func:`encode` and a bias of 7. After scaling
    by 2**(7 - 15) the upper exponent bit is always 0, and the sign moves down by one bit.
    """
    limited = select(magnitude(x) > 448, with_sign_of(x.number(448), x), x)
    encoded = encode(limited * 2.0**-8, 3)
    signed = (encoded & 0x7F) | ((encoded & 0x100) >> 1)
    return select(is_nan(x), 0x7F, signed).to("u8")


def f32_from_e5m2(bits: Value) -> Value:
    return f32_from_f16((bits.to("u16")) << 8)


def f32_from_e4m3(bits: Value) -> Value:
    """Convert exactly. The format has no infinities; 0x7f and 0xff are NaN."""
    wide = bits.to("u16")
    scaled = f32_from_f16(((wide & 0x7F) << 7) | ((wide & 0x80) << 8)) * 2.0**8
    return select((wide & 0x7F) == 0x7F, scaled.number(math.nan), scaled)


# Decoders and encoders of the 16-bit formats.
DECODE = {"f16": f32_from_f16, "bf16": f32_from_bf16}
ENCODE = {"f16": f16_from_f32, "bf16": bf16_from_f32}


def halves(packed: Value) -> tuple[Value, Value]:
    """Return the lower and the upper 16 bits of a u32."""
    return packed.to("u16"), (packed >> 16).to("u16")


def join(low: Value, high: Value) -> Value:
    """Join a u32 from its lower and upper 16 bits."""
    return low.to("u32") | (high.to("u32") << 16)


def on_halves(body: Body) -> Body:
    """Apply ``body`` to the lower and to the upper 16 bits of its operands, u16 each."""

    def both(*words: Value) -> Value:
        low, high = zip(*map(halves, words), strict=True)
        return join(body(*low), body(*high))

    return both
