"""Comparison and selection against the ISA's definitions, on numbers that are exact fractions."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import FORMATS, call, combinations

ORDER = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
UNSIGNED_NAMES = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
BOOLEAN = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
FLOAT_NAMES = [*ORDER, *(f"{name[:2]}u" for name in ORDER), "num", "nan"]


def number(fmt, bits):
    value = fmt.value(bits)
    return float("-inf" if fmt.negative(bits) else "inf") if value == reference.INF else value


def float_compare(fmt, name, a, b):
    x, y = number(fmt, a), number(fmt, b)
    unordered = reference.NAN in (x, y)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    return len(name) == 3 if unordered else ORDER[name[:2]](x, y)


def operands_of(kind):
    """Edge values of a floating type against each other, as bits."""
    fmt = FORMATS[kind]
    rows = list(itertools.product(reference.edges(fmt), reference.edges(fmt)[::2]))
    rows += [(a, a) for a in reference.edges(fmt)]
    return rows, [
        np.array(column, reference.BITS_DTYPE[fmt.width]) for column in zip(*rows, strict=True)
    ]


@pytest.mark.parametrize("kind", ["s16", "s32", "s64", "u16", "u32", "u64", "b16", "b32", "b64"])
def test_integers(kind):
    number_type = kind.replace("b", "u")
    a, b = combinations(number_type, number_type)
    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    names = dict(ORDER)
    if kind[0] == "b":
        names = {"eq": operator.eq, "ne": operator.ne}
    elif kind[0] == "u":
        names |= UNSIGNED_NAMES
    for name, compare in names.items():
        truth = [compare(x, y) for x, y in rows]
        assert call(f"setp.{name}.{kind}", a, b).tolist() == truth
        assert call(f"set.{name}.u32.{kind}", a, b).tolist() == [0xFFFFFFFF * t for t in truth]


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("name", FLOAT_NAMES)
def test_floats_and_nan(kind, name):
    rows, (a, b) = operands_of(kind)
    truth = [float_compare(FORMATS[kind], name, x, y) for x, y in rows]
    assert call(f"setp.{name}.{kind}", a, b).tolist() == truth
    assert call(f"set.{name}.u32.{kind}", a, b).tolist() == [0xFFFFFFFF * t for t in truth]
    p, q = call(f"setp.{name}.{kind}", a, b, destinations=2)
    assert p.tolist() == truth
    assert q.tolist() == [not t for t in truth]


def test_true_is_one_in_floats():
    rows, (a, b) = operands_of("f32")
    truth = [float_compare(FORMATS["f32"], "ltu", x, y) for x, y in rows]
    assert call("set.ltu.f32.f32", a, b).tolist() == [1.0 * t for t in truth]
    assert call("set.ltu.s32.f32", a, b).tolist() == [-t for t in truth]
    rows, (a, b) = operands_of("f16")
    truth = [float_compare(FORMATS["f16"], "ge", x, y) for x, y in rows]
    assert call("set.ge.f16.f16", a, b).tolist() == [1.0 * t for t in truth]
    assert call("set.ge.u16.f16", a, b).tolist() == [0xFFFF * t for t in truth]
    assert call("set.ge.f32.s32", [1, 2], [2, 2]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("boolean", BOOLEAN)
def test_boolean_operators_combine_with_a_predicate(boolean):
    a = np.array([1, 1, 2, 2] * 5, np.int32)
    b = np.array([1] * 20, np.int32)
    c = np.array([False, True] * 10)
    truth, combine = (a == b).tolist(), BOOLEAN[boolean]
    expected = [combine(t, x) for t, x in zip(truth, c.tolist(), strict=True)]
    opposite = [combine(not t, x) for t, x in zip(truth, c.tolist(), strict=True)]
    assert call(f"setp.eq.{boolean}.s32", a, b, c).tolist() == expected
    p, q = call(f"setp.eq.{boolean}.s32", a, b, c, destinations=2)
    assert p.tolist() == expected
    assert q.tolist() == opposite
    assert call(f"set.eq.{boolean}.u32.s32", a, b, c).tolist() == [0xFFFFFFFF * e for e in expected]


def test_ftz_compares_subnormals_as_zero():
    tiny = np.array([1, 0x80000001, 0x00800000], np.uint32)
    zero = np.zeros(3, np.uint32)
    assert call("setp.eq.ftz.f32", tiny, zero).tolist() == [True, True, False]
    assert call("setp.eq.f32", tiny, zero).tolist() == [False, False, False]
    assert call("set.gt.ftz.u32.f32", tiny, zero).tolist() == [0, 0, 0xFFFFFFFF]
    half = np.array([1, 0x8001, 0x0400], np.uint16)
    assert call("setp.eq.ftz.f16", half, zero.astype(np.uint16)).tolist() == [True, True, False]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_compare_half_by_half(kind):
    rows, (a, b) = operands_of(kind)
    low = [float_compare(FORMATS[kind], "lt", x, y) for x, y in rows]
    high = np.roll(low, 5).tolist()
    packed = [np.stack([x, np.roll(x, 5)], axis=1).copy().view(np.uint32).ravel() for x in (a, b)]
    p, q = call(f"setp.lt.{kind}x2", *packed, destinations=2)
    assert p.tolist() == low
    assert q.tolist() == high
    one = {"f16": 0x3C00, "bf16": 0x3F80}[kind]
    assert call(f"set.lt.{kind}x2.{kind}x2", *packed).view(np.uint32).tolist() == [
        one * x | one * y << 16 for x, y in zip(low, high, strict=True)
    ]
    assert call(f"set.lt.u32.{kind}x2", *packed).tolist() == [
        0xFFFF * x | 0xFFFF * y << 16 for x, y in zip(low, high, strict=True)
    ]
    c = np.arange(len(low)) % 2 == 1
    p, q = call(f"setp.lt.or.{kind}x2", *packed, c, destinations=2)
    assert p.tolist() == (np.array(low) | c).tolist()
    assert q.tolist() == (np.array(high) | c).tolist()


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u16", "s32", "u64", "f32", "f64"])
def test_selection_copies_bits(kind):
    """selp and slct do not touch what they copy, NaN payloads included."""
    width = int(kind[1:])
    unsigned = np.dtype(f"u{width // 8}")
    a = np.full(20, 0x7FF0_0001_FF80_0001 & ((1 << width) - 1), unsigned)
    b = np.arange(20).astype(unsigned)
    c = np.arange(20) % 3 == 0
    assert call(f"selp.{kind}", a, b, c).view(unsigned).tolist() == [
        int(a[i]) if c[i] else int(b[i]) for i in range(20)
    ]
    sign = np.array([-1, 0, 1, -(2**31), 2**31 - 1] * 4, np.int32)
    assert call(f"slct.{kind}.s32", a, b, sign).view(unsigned).tolist() == [
        int(a[i]) if sign[i] >= 0 else int(b[i]) for i in range(20)
    ]


def test_slct_by_a_float():
    """-0 counts as not below zero, NaN chooses b, and .ftz makes a negative subnormal zero."""
    c = np.array([0x80000000, 0x80000001, 0x7FC00000, 0x3F800000, 0xBF800000], np.uint32)
    a, b = [10] * 5, [20] * 5
    assert call("slct.s32.f32", a, b, c).tolist() == [10, 20, 20, 10, 20]
    assert call("slct.ftz.s32.f32", a, b, c).tolist() == [10, 10, 20, 10, 20]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_testp(kind):
    fmt = FORMATS[kind]
    bits = np.array(reference.edges(fmt), reference.BITS_DTYPE[fmt.width])
    values = [fmt.value(int(x)) for x in bits]
    subnormal = [fmt.is_subnormal(int(x)) for x in bits]
    finite = [v not in (reference.NAN, reference.INF) for v in values]
    expected = {
        "finite": finite,
        "infinite": [v == reference.INF for v in values],
        "number": [v != reference.NAN for v in values],
        "notanumber": [v == reference.NAN for v in values],
        "normal": [f and not s for f, s in zip(finite, subnormal, strict=True)],
        "subnormal": subnormal,
    }
    for name, truth in expected.items():
        assert call(f"testp.{name}.{kind}", bits).tolist() == truth, name
