"""Packed conversions: pairs of halves, eight-bit floats, tf32 and small integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import BF16, F16, F32, INF, NAN, Format, call

F32_BITS = np.array(
    [
        *reference.edges(F32),
        *reference.samples(F32, 400, 8),
        *(F32.round(Fraction(n, 64)) for n in range(0, 40_000, 97)),
    ],
    np.uint32,
)
OTHER = np.roll(F32_BITS, 11)
E4M3 = Format(4, 3, 0x7F)
E5M2 = Format(5, 2, 0x7F)


def converted(fmt, bits, mode="n", relu=False, satfinite=False):
    """One f32 in a smaller format with infinities."""
    value, negative = F32.value(int(bits)), F32.negative(int(bits))
    if value == NAN:
        return fmt.nan
    if relu and negative:
        return 0
    sign = fmt.sign if negative else 0
    if value == INF:
        return (fmt.infinity - 1 if satfinite else fmt.infinity) | sign
    result = fmt.round(value, mode, negative)
    return result - 1 if satfinite and result & (fmt.sign - 1) == fmt.infinity else result


@pytest.mark.parametrize(("kind", "fmt"), [("f16", F16), ("bf16", BF16)])
@pytest.mark.parametrize("mode", ["n", "z"])
@pytest.mark.parametrize("suffix", ["", ".relu", ".satfinite", ".relu.satfinite"])
def test_pairs_put_the_first_operand_above(kind, fmt, mode, suffix):
    flags = {"relu": "relu" in suffix, "satfinite": "satfinite" in suffix}
    one = [converted(fmt, bits, mode, **flags) for bits in F32_BITS]
    got = call(f"cvt.r{mode}{suffix}.{kind}x2.f32", OTHER, F32_BITS)
    assert (got & np.uint32(0xFFFF)).tolist() == one
    assert (got >> np.uint32(16)).tolist() == np.roll(one, 11).tolist()
    if suffix:
        single = call(f"cvt.r{mode}{suffix}.{kind}.f32", F32_BITS)
        assert single.view(np.uint16).tolist() == one


def eight(name, bits, relu=False):
    """One f32 in e5m2 or e4m3, limited to the largest number. e4m3 uses the encodings that would
    be infinity for numbers, all but the last: 448 is its largest."""
    if name == "e5m2":
        return converted(E5M2, bits, relu=relu, satfinite=True)
    value, negative = F32.value(int(bits)), F32.negative(int(bits))
    if value == NAN:
        return 0x7F
    if relu and negative:
        return 0
    size = Fraction(448) if value == INF else min(abs(value), Fraction(448))
    wide = Format(5, 3, 0)  # one more exponent bit, so that 448 is an ordinary number
    shifted = wide.round(size * Fraction(2) ** (E4M3.bias - wide.bias))
    return shifted | (0x80 if negative else 0)


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
@pytest.mark.parametrize("relu", [False, True])
def test_eight_bit_floats(name, relu):
    suffix = ".relu" if relu else ""
    one = [eight(name, bits, relu) for bits in F32_BITS]
    got = call(f"cvt.rn.satfinite{suffix}.{name}x2.f32", OTHER, F32_BITS)
    assert (got & np.uint16(0xFF)).tolist() == one
    assert (got >> np.uint16(8)).tolist() == np.roll(one, 11).tolist()

    halves = np.arange(1 << 16, dtype=np.uint32)[::37].astype(np.uint16)
    with np.errstate(all="ignore"):
        wide = halves.view(np.float16).astype(np.float32).view(np.uint32)
    one = [eight(name, bits, relu) for bits in wide]
    pair = halves.astype(np.uint32) | np.roll(halves, 3).astype(np.uint32) << np.uint32(16)
    got = call(f"cvt.rn.satfinite{suffix}.{name}x2.f16x2", pair)
    assert (got & np.uint16(0xFF)).tolist() == one
    assert (got >> np.uint16(8)).tolist() == np.roll(one, 3).tolist()


@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
def test_eight_bit_floats_back_to_f16(name):
    bits = np.arange(256, dtype=np.uint16)
    expected = []
    for b in bits.tolist():
        if name == "e5m2":
            value = E5M2.value(b)
        else:
            value = NAN if b & 0x7F == 0x7F else Format(5, 3, 0).value(b & 0x7F) * 2**8
            value = -value if b & 0x80 and value != NAN else value
        if value == NAN:
            expected.append(0x7FFF)
        elif value == INF:
            expected.append(F16.infinity | (0x8000 if b & 0x80 else 0))
        else:
            expected.append(F16.round(value, "n", bool(b & 0x80)))
    packed = bits | bits[::-1] << np.uint16(8)
    got = call(f"cvt.rn.f16x2.{name}x2", packed)
    assert (got & np.uint32(0xFFFF)).tolist() == expected
    assert (got >> np.uint32(16)).tolist() == expected[::-1]
    clamped = [0 if e & 0x8000 else e for e in expected]
    got = call(f"cvt.rn.relu.f16x2.{name}x2", packed)
    assert (got & np.uint32(0xFFFF)).tolist() == clamped


@pytest.mark.parametrize("mode", ["rna", "rn", "rz"])
@pytest.mark.parametrize("suffix", ["", ".relu", ".satfinite"])
def test_tf32_has_ten_bits_of_fraction(mode, suffix):
    tf32 = Format(8, 10, 0)
    expected = []
    for bits in F32_BITS.tolist():
        value, negative = F32.value(bits), F32.negative(bits)
        if value == NAN:  # .rna cuts it as it does numbers
            expected.append(bits & 0xFFFFE000 if mode == "rna" else 0x7FFFE000)
        elif suffix == ".relu" and negative:
            expected.append(0)
        elif value == INF:
            expected.append(bits - 0x2000 if suffix == ".satfinite" else bits)
        else:
            result = tf32.round(value, "z" if mode == "rz" else "n", negative)
            down = tf32.round(value, "z", negative)
            if mode == "rna" and result == down:  # a tie goes away from zero
                twice = 2 * abs(value) - abs(tf32.value(down))
                away = tf32.value((down & 0x3FFFF) + 1)
                result = down + 1 if away != INF and twice == away else down
                if away == INF and twice == abs(tf32.value(down)) + Fraction(2) ** 117:
                    result = down + 1
            if suffix == ".satfinite" and result & 0x3FFFF == tf32.infinity:
                result -= 1
            expected.append(result << 13)
    got = call(f"cvt.{mode}{suffix}.tf32.f32", F32_BITS)
    wrong = [
        (hex(b), hex(g), hex(e))
        for b, g, e in zip(F32_BITS.tolist(), got.tolist(), expected, strict=True)
        if g != e
    ]
    assert not wrong, wrong[:3]


RANGES = {
    "u2": (0, 3),
    "s2": (-2, 1),
    "u4": (0, 15),
    "s4": (-8, 7),
    "u8": (0, 255),
    "s8": (-128, 127),
    "u16": (0, 65535),
    "s16": (-32768, 32767),
}


@pytest.mark.parametrize("kind", RANGES)
def test_cvt_pack_clamps_and_keeps_the_rest_of_c(kind):
    a, b = reference.combinations("s32", "s32")
    c = np.arange(len(a), dtype=np.uint32) * np.uint32(0x9E3779B1)
    low, high = RANGES[kind]
    width = int(kind[1:])
    mask = (1 << width) - 1
    expected = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        x, y = (max(low, min(high, v)) & mask for v in (x, y))
        rest = 0 if width == 16 else z << 2 * width
        expected.append((y | x << width | rest) & 0xFFFFFFFF)
    if width == 16:
        got = call(f"cvt.pack.sat.{kind}.s32", a, b)
    else:
        got = call(f"cvt.pack.sat.{kind}.s32.b32", a, b, c)
    assert got.tolist() == expected
