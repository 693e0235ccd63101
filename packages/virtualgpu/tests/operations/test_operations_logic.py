"""Logic and shifts against Python's integers."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import call, combinations, wrap

BINARY = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
AMOUNTS = [0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 1 << 31, (1 << 32) - 1]


@pytest.mark.parametrize("kind", ["b16", "b32", "b64"])
def test_bitwise(kind):
    unsigned = kind.replace("b", "u")
    a, b = combinations(unsigned, unsigned)
    for name, exact in BINARY.items():
        assert call(f"{name}.{kind}", a, b).tolist() == exact(a, b).tolist()
    assert call(f"not.{kind}", a).tolist() == [wrap(~int(x), unsigned) for x in a]
    assert call(f"cnot.{kind}", a).tolist() == [int(x == 0) for x in a]


def test_predicates():
    a, b = np.array([False, False, True, True] * 9), np.array([False, True] * 18)
    for name, exact in BINARY.items():
        expected = [exact(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        assert call(f"{name}.pred", a, b).tolist() == expected
    assert call("not.pred", a).tolist() == [not x for x in a.tolist()]


def shifts(kind):
    values = reference.integers(kind)
    a = np.repeat(np.array(values, reference.dtype(kind)), len(AMOUNTS))
    return a, np.tile(np.array(AMOUNTS, np.uint32), len(values))


@pytest.mark.parametrize("width", [16, 32, 64])
def test_shifts_clamp(width):
    a, b = shifts(f"u{width}")
    mask = (1 << width) - 1
    rows = [(int(x), min(int(y), width)) for x, y in zip(a, b, strict=True)]
    assert call(f"shl.b{width}", a, b).tolist() == [x << y & mask for x, y in rows]
    for kind in ("b", "u"):
        assert call(f"shr.{kind}{width}", a, b).tolist() == [x >> y for x, y in rows]
    a, b = shifts(f"s{width}")
    assert call(f"shr.s{width}", a, b).tolist() == [
        int(x) >> min(int(y), width) for x, y in zip(a, b, strict=True)
    ]


@pytest.mark.parametrize("amount", AMOUNTS)
def test_shifts_by_a_uniform_amount(amount):
    a = np.arange(100, dtype=np.uint32) * np.uint32(0x01234567)
    b = np.array([amount], np.uint32)
    assert call("shl.b32", a, b).tolist() == [int(x) << min(amount, 32) & 0xFFFFFFFF for x in a]


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(mode):
    a, c = shifts("u32")
    b = a[::-1].copy()
    left, right = [], []
    for x, y, n in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        n = min(n, 32) if mode == "clamp" else n % 32
        both = y << 32 | x
        left.append((both << n) >> 32 & 0xFFFFFFFF)
        right.append((both >> n) & 0xFFFFFFFF)
    assert call(f"shf.l.{mode}.b32", a, b, c).tolist() == left
    assert call(f"shf.r.{mode}.b32", a, b, c).tolist() == right


def test_lop3_has_every_function_of_three_bits():
    """The table is the function applied to 0xF0, 0xCC and 0xAA (PTX ISA 9.7.8.6)."""
    generator = np.random.default_rng(2)
    a, b, c = generator.integers(0, 1 << 32, (3, 64), dtype=np.uint32)
    functions = [
        lambda x, y, z: x & y & z,
        lambda x, y, z: x | y | z,
        lambda x, y, z: x & y & ~z,
        lambda x, y, z: (x & y | z) ^ x,
        lambda x, y, z: x ^ y ^ z,
        lambda x, y, z: ~x,
        lambda x, y, z: (x & y) | (~x & z),
        lambda x, y, z: (x & y) | (y & z) | (x & z),
    ]
    for function in functions:
        table = np.array([function(0xF0, 0xCC, 0xAA) & 0xFF], np.uint32)
        assert (call("lop3.b32", a, b, c, table) == function(a, b, c)).all()
    for table in range(256):
        got = call("lop3.b32", *(np.array([x], np.uint32) for x in (0xF0, 0xCC, 0xAA, table)))
        assert int(got[0]) & 0xFF == table


@pytest.mark.parametrize("boolean", ["or", "and"])
def test_lop3_with_a_predicate(boolean):
    a = np.array([0, 1] * 10, np.uint32)
    q = np.array([False, False, True, True] * 5)
    ones, table = np.full(20, 0xFFFFFFFF, np.uint32), np.array([0x80], np.uint32)
    d, p = call(f"lop3.{boolean}.b32", a, ones, ones, table, q, destinations=2)
    combine = BINARY[boolean]
    assert d.tolist() == a.tolist()
    assert p.tolist() == [combine(bool(x), y) for x, y in zip(a, q.tolist(), strict=True)]
