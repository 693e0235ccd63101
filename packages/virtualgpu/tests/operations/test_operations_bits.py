"""Bit counting, finding, fields and permutations against the ISA's pseudocode, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import call, wrap

VALUES = {
    32: [
        0,
        1,
        2,
        0xFFFFFFFF,
        0x80000000,
        0x7FFFFFFF,
        0xAAAAAAAA,
        0x12345678,
        0x00FF00F0,
        0xFFFFFFFE,
    ],
    64: [
        0,
        1,
        (1 << 64) - 1,
        1 << 63,
        (1 << 63) - 1,
        0x123456789ABCDEF0,
        1 << 32,
        0xFFFF0000 << 20,
    ],
}


def array(values, width):
    return np.array(values, f"u{width // 8}")


@pytest.mark.parametrize("width", [32, 64])
def test_counts_and_reversal(width):
    a = array(VALUES[width] + [1 << i for i in range(width)], width)
    assert call(f"popc.b{width}", a).tolist() == [int(x).bit_count() for x in a]
    assert call(f"clz.b{width}", a).tolist() == [width - int(x).bit_length() for x in a]
    assert call(f"brev.b{width}", a).tolist() == [int(f"{int(x):0{width}b}"[::-1], 2) for x in a]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bfind(kind):
    width = int(kind[1:])
    a = array(VALUES[width] + [1 << i for i in range(width)], width)
    found = []
    for x in a.tolist():
        x = wrap(x, kind)
        found.append((~x if x < 0 else x).bit_length() - 1)
    assert call(f"bfind.{kind}", a).view(np.int32).tolist() == found
    assert call(f"bfind.shiftamt.{kind}", a).view(np.int32).tolist() == [
        -1 if f < 0 else width - 1 - f for f in found
    ]


def find_nth(mask, base, offset):
    if offset == -(1 << 31):
        return 0
    if base > 31:
        return 0xFFFFFFFF
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    step, left, position = (1 if offset > 0 else -1), abs(offset), base
    while 0 <= position < 32:
        left -= mask >> position & 1
        if left == 0 and mask >> position & 1:
            return position
        position += step
    return 0xFFFFFFFF


def test_fns():
    rows = [
        (m, b, o)
        for m in VALUES[32]
        for b in (0, 1, 2, 3, 15, 30, 31, 32, 63, 1 << 31)
        for o in (0, 1, -1, 2, -2, 5, -5, 32, -32, 33, -(1 << 31), (1 << 31) - 1)
    ]
    mask, base, offset = (
        np.array(c, d) for c, d in zip(zip(*rows, strict=True), ("u4", "u4", "i4"), strict=True)
    )
    assert call("fns.b32", mask, base, offset).tolist() == [find_nth(*row) for row in rows]
    # The ISA's own examples.
    mask = np.full(4, 0xAAAAAAAA, np.uint32)
    assert call("fns.b32", mask, [3, 3, 2, 2], [1, -1, 1, -1]).tolist() == [3, 3, 3, 1]


FIELDS = [
    (p, n)
    for p in (0, 1, 5, 16, 31, 32, 33, 63, 64, 130, 200, 255, 256 + 4, 1 << 31)
    for n in (0, 1, 7, 31, 32, 33, 63, 64, 133, 255, 256, 256 + 3)
]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bfe(kind):
    width = int(kind[1:])
    rows = [(a, p, n) for a in VALUES[width] for p, n in FIELDS]
    expected = []
    for a, position, length in rows:
        if width == 32:
            position, length = position & 0xFF, length & 0xFF
        signed = kind[0] == "s" and length > 0
        fill = a >> min(position + length - 1, width - 1) & 1 if signed else 0
        expected.append(
            sum(
                (a >> (position + i) & 1 if i < length and position + i < width else fill) << i
                for i in range(width)
            )
        )
    a, p, n = zip(*rows, strict=True)
    got = call(f"bfe.{kind}", array(a, width), array(p, 32), array(n, 32))
    assert got.view(f"u{width // 8}").tolist() == expected


@pytest.mark.parametrize("width", [32, 64])
def test_bfi(width):
    rows = [(a, b, p, n) for a in VALUES[width][:5] for b in VALUES[width][2:7] for p, n in FIELDS]
    expected = []
    for a, b, position, length in rows:
        if width == 32:
            position, length = position & 0xFF, length & 0xFF
        for i in range(min(length, width)):
            if position + i < width:
                b = b & ~(1 << position + i) | (a >> i & 1) << position + i
        expected.append(b)
    a, b, p, n = zip(*rows, strict=True)
    got = call(f"bfi.b{width}", array(a, width), array(b, width), array(p, 32), array(n, 32))
    assert got.tolist() == expected


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_szext_and_bmsk(mode):
    """PTX ISA 9.7.1.21 and .22; szext.wrap of no bits is 0, bmsk.wrap 1, 2 is 0b110."""
    counts = [0, 1, 2, 4, 5, 30, 31, 32, 33, 40, 64, 1 << 31]
    rows = [(a, n) for a in VALUES[32] for n in counts]
    a, n = (array(c, 32) for c in zip(*rows, strict=True))
    zero, sign = [], []
    for value, length in rows:
        length = min(length, 32) if mode == "clamp" else length % 32
        field = value & ((1 << length) - 1)
        zero.append(field)
        sign.append(wrap(field, f"s{length}") if length else 0)
    assert call(f"szext.{mode}.u32", a, n).tolist() == zero
    assert call(f"szext.{mode}.s32", a, n).tolist() == sign

    rows = [(p, n) for p in counts for n in counts]
    a, n = (array(c, 32) for c in zip(*rows, strict=True))
    expected = []
    for start, length in rows:
        start, length = (start, length) if mode == "clamp" else (start % 32, length % 32)
        expected.append(sum(1 << i for i in range(32) if start <= i < start + length))
    assert call(f"bmsk.{mode}.b32", a, n).tolist() == expected
    assert call("bmsk.wrap.b32", array([1], 32), array([2], 32)) == 0b110


def test_prmt_picks_bytes_and_spreads_signs():
    generator = np.random.default_rng(3)
    a, b, c = generator.integers(0, 1 << 32, (3, 200), dtype=np.uint32)
    expected = []
    for x, y, control in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        source = (y << 32 | x).to_bytes(8, "little")
        chosen = []
        for place in range(4):
            nibble = control >> 4 * place & 0xF
            byte = source[nibble & 7]
            chosen.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        expected.append(int.from_bytes(bytes(chosen), "little"))
    assert call("prmt.b32", a, b, c).tolist() == expected


# PTX ISA 9.7.9.7: the source bytes, highest first, for controls 0 to 3.
MODES = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


@pytest.mark.parametrize("mode", MODES)
def test_prmt_modes(mode):
    a, b = array([0x33221100], 32), array([0x77665544], 32)
    for control in range(8):
        expected = int("".join(digit * 2 for digit in MODES[mode][control & 3]), 16)
        assert call(f"prmt.b32.{mode}", a, b, array([control], 32)) == expected
    assert reference.dtype("u32") == np.uint32
