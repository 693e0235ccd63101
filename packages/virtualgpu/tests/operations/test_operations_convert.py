"""Conversions: every pair of types in every rounding mode, against exact fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import FORMATS, INF, NAN, call, wrap

INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
MODES = ("n", "z", "m", "p")


def limits(kind):
    width = int(kind[1:])
    return (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def wide_integers(kind):
    """Edge values, and powers of two with bits at the ends of their significands."""
    low, high = limits(kind)
    values = set(reference.integers(kind))
    for place in range(4, int(kind[1:]), 1 if kind[1:] in ("8", "16") else 3):
        base = 1 << place
        values |= {base - 1, base, base + 1, base | base >> 24 | base >> 23}
        for bits in (8, 11, 24, 53):  # the ties of each format, and just above them
            values |= {base | base >> bits, base | base >> bits | 1}
    values |= {-v for v in values}
    return sorted(v for v in values if low <= v <= high)


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer(source):
    values = reference.integers(source)
    array = np.array(values, reference.dtype(source))
    for to in INTEGERS:
        assert call(f"cvt.{to}.{source}", array).tolist() == [wrap(v, to) for v in values]
        low, high = limits(to)
        got = call(f"cvt.sat.{to}.{source}", array).tolist()
        assert got == [max(low, min(high, v)) for v in values], to


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("to", FLOATS)
def test_integer_to_float(source, to):
    values, fmt = wide_integers(source), FORMATS[to]
    array = np.array(values, reference.dtype(source))
    for mode in MODES:
        expected = [fmt.round(Fraction(v), mode) for v in values]
        reference.assert_bits(fmt, call(f"cvt.r{mode}.{to}.{source}", array), expected, array)


def rounded(value, mode):
    """A fraction rounded to an integer."""
    floor, rest = divmod(value, 1)
    if mode == "n":
        return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2))
    if mode == "z":
        return floor + (rest > 0 and value < 0)
    return floor + (rest > 0) if mode == "p" else floor


def float_operands(kind):
    fmt = FORMATS[kind]
    bits = [*reference.edges(fmt), *map(int, reference.samples(fmt, 100, 6))]
    bits += [
        fmt.round(Fraction(v) + part)
        for v in (
            0,
            1,
            2,
            3,
            126,
            127,
            128,
            255,
            256,
            32767,
            65535,
            2**31 - 1,
            2**31,
            2**32,
            2**53,
            2**63,
            2**64,
        )
        for part in (Fraction(-1, 2), Fraction(0), Fraction(1, 2), Fraction(1, 3))
    ]
    return bits + [b ^ fmt.sign for b in bits]


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", INTEGERS)
def test_float_to_integer_clamps(source, to):
    """NaN is 0 unless a 64-bit type takes part: then it is the highest bit."""
    fmt, bits = FORMATS[source], float_operands(source)
    array = np.array(bits, reference.BITS_DTYPE[fmt.width])
    low, high = limits(to)
    width = int(to[1:])
    nan = wrap(1 << width - 1, to) if source == "f64" or width == 64 else 0
    for mode in MODES:
        expected = []
        for b in bits:
            value = fmt.value(b)
            if value == NAN:
                expected.append(nan)
            elif value == INF:
                expected.append(low if fmt.negative(b) else high)
            else:
                expected.append(max(low, min(high, int(rounded(value, mode)))))
        got = call(f"cvt.r{mode}i.{to}.{source}", array).tolist()
        wrong = [(hex(b), g, e) for b, g, e in zip(bits, got, expected, strict=True) if g != e]
        assert not wrong, (mode, wrong[:3])


def test_float_to_integer_flushes_subnormals():
    tiny = np.array([1, 0x80000001], np.uint32)
    assert call("cvt.rpi.s32.f32", tiny).tolist() == [1, 0]
    assert call("cvt.rmi.s32.f32", tiny).tolist() == [0, -1]
    assert call("cvt.rpi.ftz.s32.f32", tiny).tolist() == [0, 0]
    assert call("cvt.rmi.ftz.s32.f32", tiny).tolist() == [0, 0]


def converted(bits, source, to, mode="n"):
    """A float's encoding in another format; NaN becomes canonical, but between f32 and f64, from
    f64 to f16 and from bf16 keeps its sign and the upper part of its payload."""
    have, want = FORMATS[source], FORMATS[to]
    value, negative = have.value(bits), have.negative(bits)
    if value == NAN:
        if (source, to) == ("bf16", "f32"):
            return bits << 16
        if source == to == "f64":
            return reference.nan_of(want, bits)
        if (
            source == to
            or (to != "f64" and source != "f64")
            or to == "bf16"
            or (want.width == 16 and source != "f64")
        ):
            return want.nan
        if source == "f16":
            have, bits, negative = FORMATS["f32"], FORMATS["f32"].nan, False
        quiet = 1 << (want.fraction_bits - 1)
        shift = want.fraction_bits - have.fraction_bits
        fraction = bits & ((1 << have.fraction_bits) - 1)
        fraction = fraction << shift if shift > 0 else fraction >> -shift
        return want.infinity | quiet | fraction | (want.sign if negative else 0)
    if value == INF:
        return want.infinity | (want.sign if negative else 0)
    return want.round(value, mode, negative)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", FLOATS)
def test_float_to_float(source, to):
    fmt, want = FORMATS[source], FORMATS[to]
    narrows = want.width < fmt.width or (want.width == fmt.width and source != to)
    bits = float_operands(source)
    if narrows:  # numbers next to those of the narrower format, and to the ties between them
        some = [reference.samples(want, 60, 7), np.array(reference.edges(want)[1:12])]
        for middle in itertools.chain(*some):
            value = want.value(int(middle))
            if value in (NAN, INF):
                continue
            quantum = want.value(int(middle) ^ 1) - value
            bits += [fmt.round(value + quantum / 2 + e * quantum / 2**20) for e in (-1, 0, 1)]
    array = np.array(bits, reference.BITS_DTYPE[fmt.width])
    for mode in MODES if narrows else ("",):
        name = f"cvt.r{mode}.{to}.{source}" if mode else f"cvt.{to}.{source}"
        expected = [converted(b, source, to, mode or "n") for b in bits]
        reference.assert_bits(want, call(name, array), expected, array)


def test_nan_payloads_between_f32_and_f64():
    """The upper part of the payload stays, quiet."""
    assert (
        call("cvt.f64.f32", np.array([0xFFC12345], np.uint32)).view(np.uint64) >> np.uint64(32)
        == 0xFFF82468
    )
    assert (
        call("cvt.rn.f32.f64", np.array([0xFFF8000100000000], np.uint64)).view(np.uint32)
        == 0xFFC00008
    )
    assert call("cvt.f32.f16", np.array([0xFE01], np.uint16)).view(np.uint32) == 0x7FFFFFFF
    assert call("cvt.f32.bf16", np.array([0xFF81], np.uint16)).view(np.uint32) == 0xFF810000
    assert (
        call("cvt.rn.f16.f64", np.array([0xFFF8123456789ABC], np.uint64)).view(np.uint16) == 0xFE04
    )
    assert call("cvt.f64.f16", np.array([0xFE01], np.uint16)).view(np.uint64) == 0x7FFFFFFFE0000000


@pytest.mark.parametrize("kind", FLOATS)
def test_rounding_to_integers_in_place(kind):
    fmt, bits = FORMATS[kind], float_operands(kind)
    array = np.array(bits, reference.BITS_DTYPE[fmt.width])
    for mode in MODES:
        expected = []
        for b in bits:
            value = fmt.value(b)
            if value in (NAN, INF):
                expected.append(reference.nan_of(fmt, b) if value == NAN else b)
            else:
                expected.append(fmt.round(Fraction(rounded(value, mode)), "n", fmt.negative(b)))
        reference.assert_bits(fmt, call(f"cvt.r{mode}i.{kind}.{kind}", array), expected, array)


def test_sat_and_ftz_between_floats():
    special = np.array([0x80000000, 0x7FC00000, 0xBF800000, 0x3F000000, 0x40000000, 1], np.uint32)
    assert call("cvt.sat.f32.f32", special).view(np.uint32).tolist() == [
        0,
        0,
        0,
        0x3F000000,
        0x3F800000,
        1,
    ]
    assert call("cvt.ftz.sat.f32.f32", special).view(np.uint32).tolist()[-1] == 0
    assert call("cvt.ftz.f64.f32", special)[-1] == 0
    assert call("cvt.rn.ftz.f32.f64", [2.0**-127, -(2.0**-127)]).view(np.uint32).tolist() == [
        0,
        0x80000000,
    ]
    assert call("cvt.rn.f32.f64", [2.0**-127]).view(np.uint32) == 0x00400000
    below = [float.fromhex("0x1.ffffffp-127")]  # an H200 flushes it before it is rounded
    assert call("cvt.rn.f32.f64", below).view(np.uint32) == 0x00800000
    assert call("cvt.rn.ftz.f32.f64", below).view(np.uint32) == 0
    assert call("cvt.rn.sat.f16.f32", special).view(np.uint16).tolist() == [
        0,
        0,
        0,
        0x3800,
        0x3C00,
        0,
    ]
    assert call("cvt.rpi.ftz.f32.f32", special).tolist()[-1] == 0
    assert call("cvt.rn.ftz.f16.f32", [2.0**-24]).view(np.uint16) == 1  # f16 keeps subnormals
