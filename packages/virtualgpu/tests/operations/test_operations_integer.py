"""Integer arithmetic against Python's integers, cut to their width."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import call, combinations, wrap

SIGNED = ("s16", "s32", "s64")
INTEGERS = (*SIGNED, "u16", "u32", "u64")
WORDS = ("s32", "u32")


def check(name, kinds, exact, result=None):
    """``exact`` on every combination of edge values of the operands' types, then wrapped."""
    operands = combinations(*kinds)
    result = result or kinds[0]
    got = call(name, *operands).view(reference.dtype(result))
    expected = [wrap(exact(*map(int, row)), result) for row in zip(*operands, strict=True)]
    for row, value, wanted in zip(zip(*operands, strict=True), got.tolist(), expected, strict=True):
        assert value == wanted, (name, [hex(int(x)) for x in row])


def saturated(value, kind):
    width = int(kind[1:])
    low, high = (
        (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)
    )
    return max(low, min(high, value))


@pytest.mark.parametrize("kind", INTEGERS)
def test_sums_differences_and_low_products_wrap(kind):
    check(f"add.{kind}", [kind] * 2, operator.add)
    check(f"sub.{kind}", [kind] * 2, operator.sub)
    check(f"mul.lo.{kind}", [kind] * 2, operator.mul)
    check(f"mad.lo.{kind}", [kind] * 3, lambda a, b, c: a * b + c)


@pytest.mark.parametrize("kind", INTEGERS)
def test_high_halves_of_products(kind):
    width = int(kind[1:])
    check(f"mul.hi.{kind}", [kind] * 2, lambda a, b: a * b >> width)
    check(f"mad.hi.{kind}", [kind] * 3, lambda a, b, c: (a * b >> width) + c)


@pytest.mark.parametrize("kind", ["s16", "u16", "s32", "u32"])
def test_wide_products(kind):
    wide = f"{kind[0]}{2 * int(kind[1:])}"
    check(f"mul.wide.{kind}", [kind] * 2, operator.mul, wide)
    check(f"mad.wide.{kind}", [kind, kind, wide], lambda a, b, c: a * b + c, wide)


def test_saturating_sums():
    check("add.sat.s32", WORDS[:1] * 2, lambda a, b: saturated(a + b, "s32"))
    check("sub.sat.s32", WORDS[:1] * 2, lambda a, b: saturated(a - b, "s32"))
    check("mad.hi.sat.s32", WORDS[:1] * 3, lambda a, b, c: saturated((a * b >> 32) + c, "s32"))


@pytest.mark.parametrize("kind", WORDS)
def test_24_bit_products(kind):
    """mul24.hi.s32 of 0xff812345 and 0x00f23456 is 0x06d622c5: folded so by ptxas 13.4."""
    cut = f"{kind[0]}24"

    def product(a, b):
        return wrap(a, cut) * wrap(b, cut)

    check(f"mul24.lo.{kind}", [kind] * 2, product)
    check(f"mul24.hi.{kind}", [kind] * 2, lambda a, b: product(a, b) >> 16)
    check(f"mad24.lo.{kind}", [kind] * 3, lambda a, b, c: product(a, b) + c)
    check(f"mad24.hi.{kind}", [kind] * 3, lambda a, b, c: (product(a, b) >> 16) + c)
    a, b = np.array([0xFF812345], "u4"), np.array([0x00F23456], "u4")
    assert call("mul24.hi.s32", a, b) == 0x06D622C5


def test_saturating_24_bit_multiply_add():
    def exact(a, b, c):
        product = wrap(a, "s24") * wrap(b, "s24") >> 16
        return saturated(wrap(product, "s32") + c, "s32")

    check("mad24.hi.sat.s32", ["s32"] * 3, exact)


@pytest.mark.parametrize("kind", INTEGERS)
def test_division_is_towards_zero_and_defined_for_zero(kind):
    """The remainder has the dividend's sign; by zero both are all ones."""

    def quotient(a, b):
        return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

    def remainder(a, b):
        return -1 if b == 0 else a - b * quotient(a, b)

    check(f"div.{kind}", [kind] * 2, quotient)
    check(f"rem.{kind}", [kind] * 2, remainder)


@pytest.mark.parametrize("kind", WORDS)
def test_division_of_random_words(kind):
    """Quotients of 32-bit numbers are computed in f64: near-integers are where that could fail."""
    generator = np.random.default_rng(1)
    divisors = generator.integers(1, 1 << 31, 20_000, dtype=np.uint64)
    multiples = generator.integers(1, 1 << 32, 20_000, dtype=np.uint64) // divisors * divisors
    offsets = generator.integers(0, 3, 20_000, dtype=np.uint64)
    a = (multiples + offsets - np.uint64(1)).astype(np.uint32).view(reference.dtype(kind))
    b = divisors.astype(np.uint32).view(reference.dtype(kind))
    exact = [
        int(abs(x) // y) * (-1 if x < 0 else 1) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert call(f"div.{kind}", a, b).tolist() == exact
    assert call(f"rem.{kind}", a, b).tolist() == [
        x - y * q for x, y, q in zip(a.tolist(), b.tolist(), exact, strict=True)
    ]


@pytest.mark.parametrize("kind", SIGNED)
def test_abs_and_neg_of_the_smallest_number_are_itself(kind):
    check(f"abs.{kind}", [kind], abs)
    check(f"neg.{kind}", [kind], operator.neg)


@pytest.mark.parametrize("kind", INTEGERS)
def test_min_max_and_sum_of_absolute_differences(kind):
    check(f"min.{kind}", [kind] * 2, min)
    check(f"max.{kind}", [kind] * 2, max)
    check(f"sad.{kind}", [kind] * 3, lambda a, b, c: c + abs(a - b))


@pytest.mark.parametrize("name", ["min.s32.relu", "min.relu.s32", "max.s32.relu", "max.relu.s32"])
def test_relu_is_understood_where_the_isa_and_where_nvcc_write_it(name):
    pick = min if name.startswith("min") else max
    check(name, ["s32"] * 2, lambda a, b: max(0, pick(a, b)))


@pytest.mark.parametrize(
    ("name", "kind", "exact"),
    [
        ("add.s16x2", "s16", operator.add),
        ("add.u16x2", "u16", operator.add),
        ("min.s16x2", "s16", min),
        ("max.u16x2", "u16", max),
        ("max.s16x2", "s16", max),
        ("min.u16x2", "u16", min),
        ("min.s16x2.relu", "s16", lambda a, b: max(0, min(a, b))),
        ("max.relu.s16x2", "s16", lambda a, b: max(0, max(a, b))),
    ],
)
def test_pairs_are_computed_half_by_half(name, kind, exact):
    a, b = combinations(kind, kind)
    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    # Each row's operands in the lower halves, another row's in the upper ones.
    packed = [np.stack([x, np.roll(x, 7)], axis=1).copy().view(np.uint32).ravel() for x in (a, b)]
    got = call(name, *packed).view(reference.dtype(kind)).reshape(-1, 2).tolist()
    one = [wrap(exact(x, y), kind) for x, y in rows]
    assert got == [list(pair) for pair in zip(one, np.roll(one, 7).tolist(), strict=True)]
