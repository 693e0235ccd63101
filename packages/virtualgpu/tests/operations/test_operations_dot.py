"""Dot products of packed integers and the video instructions, part by part in Python."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from operations_reference import call, wrap

WORDS = [0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F, 0x01020304, 0x8000FFFF, 0x7FFF0001, 0xDEADBEEF]
A, B, C = (
    np.array(column, np.uint32)
    for column in zip(*[(a, b, c) for a in WORDS for b in WORDS for c in WORDS[::3]], strict=True)
)
ROWS = list(zip(A.tolist(), B.tolist(), C.tolist(), strict=True))
TYPES = ("u32", "s32")


def parts(word, count, kind):
    width = 32 // count
    return [wrap(word >> width * i, f"{kind[0]}{width}") for i in range(count)]


@pytest.mark.parametrize("a_type", TYPES)
@pytest.mark.parametrize("b_type", TYPES)
def test_dot_products_accumulate(a_type, b_type):
    four, low, high = [], [], []
    for a, b, c in ROWS:
        four.append(
            c + sum(x * y for x, y in zip(parts(a, 4, a_type), parts(b, 4, b_type), strict=True))
        )
        first, second = parts(a, 2, a_type)
        y = parts(b, 4, b_type)
        low.append(c + first * y[0] + second * y[1])
        high.append(c + first * y[2] + second * y[3])
    for name, expected in (("dp4a", four), ("dp2a.lo", low), ("dp2a.hi", high)):
        got = call(f"{name}.{a_type}.{b_type}", A, B, C)
        assert got.dtype == ("u4" if a_type == b_type == "u32" else "i4")
        assert got.view(np.uint32).tolist() == [wrap(x, "u32") for x in expected], name


VIDEO = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}


THEN = {"": lambda x, c: x, ".add": lambda x, c: x + c, ".min": min, ".max": max}


@pytest.mark.parametrize("name", VIDEO)
@pytest.mark.parametrize("types", ["u32.u32.u32", "s32.s32.s32", "u32.s32.s32", "s32.u32.s32"])
def test_video_instructions_on_words(name, types):
    """Exact, then cut or clamped, then with the third operand."""
    result, a_type, b_type = types.split(".")
    low, high = (-(1 << 31), (1 << 31) - 1) if result == "s32" else (0, (1 << 32) - 1)
    values = [VIDEO[name](wrap(a, a_type), wrap(b, b_type)) for a, b, _ in ROWS]
    for sat in ("", ".sat"):
        first = [max(low, min(high, v)) if sat else wrap(v, result) for v in values]
        for then, merge in THEN.items():
            operands = (A, B, C) if then else (A, B)
            got = call(f"{name}.{types}{sat}{then}", *operands)
            assert got.tolist() == [
                wrap(merge(v, wrap(c, result)), result)
                for v, (_, _, c) in zip(first, ROWS, strict=True)
            ], sat + then


COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("types", ["u32.u32", "s32.s32", "s32.u32"])
def test_video_comparisons(name, types):
    a_type, b_type = types.split(".")
    for count in (1, 2, 4):
        hits = [
            [
                COMPARISONS[name](x, y)
                for x, y in zip(parts(a, count, a_type), parts(b, count, b_type), strict=True)
            ]
            for a, b, _ in ROWS
        ]
        opcode = "vset" if count == 1 else f"vset{count}"
        plain = [sum(hit << 32 // count * i for i, hit in enumerate(row)) for row in hits]
        got = call(f"{opcode}.{types}.{name}", *(A, B, C)[: 2 if count == 1 else 3])
        assert got.tolist() == plain
        assert call(f"{opcode}.{types}.{name}.add", A, B, C).tolist() == [
            wrap(c + sum(row), "u32") for row, (_, _, c) in zip(hits, ROWS, strict=True)
        ]


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", VIDEO)
@pytest.mark.parametrize("types", ["u32.u32.u32", "s32.s32.s32", "u32.s32.u32"])
def test_video_instructions(name, count, types):
    result, a_type, b_type = types.split(".")
    width = 32 // count
    low, high = (
        (-(1 << width - 1), (1 << width - 1) - 1) if result == "s32" else (0, (1 << width) - 1)
    )
    cut, clamped, added = [], [], []
    for a, b, c in ROWS:
        values = [
            VIDEO[name](x, y)
            for x, y in zip(parts(a, count, a_type), parts(b, count, b_type), strict=True)
        ]
        mask = (1 << width) - 1
        cut.append(sum((v & mask) << width * i for i, v in enumerate(values)))
        clamped.append(
            sum((max(low, min(high, v)) & mask) << width * i for i, v in enumerate(values))
        )
        added.append(wrap(c + sum(values), "u32"))
    for suffix, expected in (("", cut), (".sat", clamped), (".add", added)):
        got = call(f"{name}{count}.{types}{suffix}", A, B, C)
        assert got.view(np.uint32).tolist() == expected, suffix
