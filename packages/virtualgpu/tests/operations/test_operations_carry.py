"""Carry chains: single steps against Python's integers, then 128-bit arithmetic as NVCC writes
it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import combinations, wrap
from virtualgpu.operations import lookup

TYPES = ("s32", "u32", "s64", "u64")


def chain(name, operands, carry=None):
    """One instruction on arrays, with CC.CF in and out as the operation declares them."""
    opcode, *modifiers = name.split(".")
    operation = lookup(opcode, tuple(modifiers), len(operands), 1)
    assert operation.carry_in == (carry is not None)
    assert operation.carry_out == ("cc" in modifiers)
    arguments = [np.asarray(o).view(d) for o, d in zip(operands, operation.sources, strict=True)]
    results = operation.function(*arguments, *([carry] if carry is not None else []))
    if not operation.carry_out:
        return results, None
    assert results[1].dtype == bool
    return results


def step(name, kind, exact, count):
    """Check value and carry: the carry is what does not fit the width, as unsigned numbers."""
    width, mask = int(kind[1:]), (1 << int(kind[1:])) - 1
    operands = [column[:: 4 if count == 3 else 1] for column in combinations(*[kind] * count)]
    incoming = np.arange(len(operands[0])) % 2 == 1 if name.split(".")[0][-1] == "c" else None
    got, carry = chain(name, operands, incoming)
    for i, row in enumerate(zip(*operands, strict=True)):
        value = (
            exact(*map(int, row)) if incoming is None else exact(*map(int, row), int(incoming[i]))
        )
        assert int(got[i]) == wrap(value, kind), (name, row)
        if carry is not None:
            assert bool(carry[i]) == bool(value >> width), (name, row, mask)


@pytest.mark.parametrize("kind", TYPES)
def test_sums_carry_and_differences_borrow(kind):
    mask = (1 << int(kind[1:])) - 1
    step(f"add.cc.{kind}", kind, lambda a, b: (a & mask) + (b & mask), 2)
    step(f"addc.cc.{kind}", kind, lambda a, b, c: (a & mask) + (b & mask) + c, 2)
    step(f"addc.{kind}", kind, lambda a, b, c: (a & mask) + (b & mask) + c, 2)
    step(f"sub.cc.{kind}", kind, lambda a, b: (a & mask) - (b & mask), 2)
    step(f"subc.cc.{kind}", kind, lambda a, b, c: (a & mask) - (b & mask) - c, 2)
    step(f"subc.{kind}", kind, lambda a, b, c: (a & mask) - (b & mask) - c, 2)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_products_carry(kind, part):
    width, mask = int(kind[1:]), (1 << int(kind[1:])) - 1

    def half(a, b):
        return (a * b if part == "lo" else a * b >> width) & mask

    step(f"mad.{part}.cc.{kind}", kind, lambda a, b, c: half(a, b) + (c & mask), 3)
    step(f"madc.{part}.cc.{kind}", kind, lambda a, b, c, d: half(a, b) + (c & mask) + d, 3)
    step(f"madc.{part}.{kind}", kind, lambda a, b, c, d: half(a, b) + (c & mask) + d, 3)


def limbs(values, count):
    return [np.array([v >> 32 * i & 0xFFFFFFFF for v in values], np.uint32) for i in range(count)]


def number(words):
    return [sum(int(w) << 32 * i for i, w in enumerate(row)) for row in zip(*words, strict=True)]


def test_128_bit_sums_and_products():
    values = [0, 1, (1 << 128) - 1, 1 << 127, (1 << 64) - 1, 0x0123456789ABCDEF << 60, 1 << 32]
    rows = list(itertools.product(values, values))
    a, b = limbs([r[0] for r in rows], 4), limbs([r[1] for r in rows], 4)
    for opcode, sign in (("add", 1), ("sub", -1)):
        words, carry = [], None
        for i in range(4):
            name = f"{opcode}.cc.u32" if i == 0 else f"{opcode}c.cc.u32"
            word, carry = chain(name, (a[i], b[i]), carry)
            words.append(word)
        assert number(words) == [(x + sign * y) % (1 << 128) for x, y in rows]

    # 64 x 64 to 128 bits, row by row: low products then high products of each row.
    total = [np.zeros(len(rows), np.uint32) for _ in range(4)]
    for j in range(2):
        for part, offset in (("lo", 0), ("hi", 1)):
            carry = None
            for i in range(2):
                at = i + j + offset
                name = f"mad.{part}.cc.u32" if i == 0 else f"madc.{part}.cc.u32"
                total[at], carry = chain(name, (a[i], b[j], total[at]), carry)
            for at in range(j + offset + 2, 4):
                total[at], carry = chain("addc.cc.u32", (total[at], np.zeros_like(a[0])), carry)
    low = (1 << 64) - 1
    assert number(total) == [(x & low) * (y & low) for x, y in rows]


def test_carry_of_uniform_operands_broadcasts():
    a = np.array([0xFFFFFFFF], np.uint32)
    value, carry = chain("add.cc.u32", (a, np.arange(40, dtype=np.uint32)))
    assert carry.tolist() == [False] + [True] * 39
    assert chain("addc.u32", (value, a), carry)[0].tolist() == [
        wrap(i - 1 + 0xFFFFFFFF + (i > 0), "u32") for i in range(40)
    ]
    assert reference.dtype("u32") == value.dtype
