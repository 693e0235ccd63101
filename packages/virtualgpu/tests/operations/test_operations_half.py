"""f16 and bf16 arithmetic against exact fractions rounded once, single and in pairs."""

from __future__ import annotations

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import FORMATS, call

HALVES = ("f16", "bf16")
EXACT = {"add": reference.add, "mul": reference.multiply, "fma": reference.multiply_add}


def check_both(name, kind, operands, expected):
    """The instruction on single values, and on pairs made of each value and another one."""
    fmt = FORMATS[kind]
    reference.assert_bits(fmt, call(f"{name}.{kind}", *operands), expected, *operands)
    shift = len(expected) // 2
    pairs = [
        np.stack([o, np.roll(o, shift)], axis=1).copy().view(np.uint32).ravel() for o in operands
    ]
    got = call(f"{name}.{kind}x2", *pairs).view(np.uint16).reshape(-1, 2)
    reference.assert_bits(fmt, got[:, 0].copy(), expected, *operands)
    reference.assert_bits(fmt, got[:, 1].copy(), np.roll(expected, shift).tolist(), *operands)


def operands_of(kind, count, seed):
    fmt = FORMATS[kind]
    if count < 3:
        return reference.tuples(fmt, count, 1500, seed)
    table = np.array(reference.edges(fmt), np.uint16)
    grids = [g.ravel() for g in np.meshgrid(table[::3], table[1::3], table[::2])]
    random = [reference.samples(fmt, 1500, seed + i) for i in range(3)]
    return [np.concatenate(parts) for parts in zip(grids, random, strict=True)]


def rows(operands):
    return [tuple(map(int, row)) for row in zip(*operands, strict=True)]


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_sums_and_products_are_rounded_once(name, kind):
    fmt = FORMATS[kind]
    operands = operands_of(kind, 2, 1)
    exact = reference.multiply if name == "mul" else reference.add
    flip = fmt.sign if name == "sub" else 0
    check_both(name, kind, operands, [exact(fmt, a, b ^ flip) for a, b in rows(operands)])
    reference.assert_bits(
        fmt,
        call(f"{name}.rn.{kind}", *operands),
        [exact(fmt, a, b ^ flip) for a, b in rows(operands)],
        *operands,
    )


@pytest.mark.parametrize("kind", HALVES)
def test_multiply_add_is_rounded_once(kind):
    operands = operands_of(kind, 3, 2)
    expected = [reference.multiply_add(FORMATS[kind], *row) for row in rows(operands)]
    check_both("fma.rn", kind, operands, expected)
    check_both("fma.rn.relu", kind, operands, [clamped(FORMATS[kind], e) for e in expected])


def test_multiply_add_is_not_rounded_twice():
    """1 + 2**-11 + 2**-20 in f16 is just above a tie: rounded to f32 or f64 first it would be
    cut to the tie and then to 1."""
    one, tiny = np.array([0x3C00], np.uint16), np.array([0x0001], np.uint16)  # 2**-24
    a, b = np.array([0x1000], np.uint16), np.array([0x3C01], np.uint16)  # 2**-11, 1 + 2**-10
    assert call("fma.rn.f16", a, b, one).view(np.uint16) == 0x3C01
    assert call("fma.rn.f16", tiny, tiny, np.array([0x7BFF], np.uint16)).view(np.uint16) == 0x7BFF
    # bf16: 2**-60 * 2**-60 below 1 + 2**-8, a tie; f64 alone would lose the product.
    tie = np.array([0x3F80], np.uint16)
    small, half = np.array([0x2180], np.uint16), np.array([0x3B80], np.uint16)  # 2**-60, 2**-8
    assert call("fma.rn.bf16", small, small, tie).view(np.uint16) == 0x3F80
    assert call("fma.rn.bf16", half, tie + np.uint16(1), tie).view(np.uint16) == 0x3F81


def test_products_of_bf16_that_become_subnormal():
    """Products around and below half the smallest subnormal, with all sixteen bits set or few."""
    fmt = FORMATS["bf16"]
    generator = np.random.default_rng(6)
    a = generator.integers(0x0080, 0x3F80, 3000).astype(np.uint16)
    exponent = (a >> 7).astype(np.int64)
    wanted = generator.integers(-12, 4, 3000)  # binary places above the smallest normal number
    b = ((128 - exponent + wanted).clip(1, 254) << 7 | generator.integers(0, 128, 3000)).astype(
        np.uint16
    )
    a[::3] |= np.uint16(0x7F)
    b[::3] |= np.uint16(0x7F)
    b[1::5] &= np.uint16(0xFF80)
    check_both("mul", "bf16", [a, b], [reference.multiply(fmt, x, y) for x, y in rows([a, b])])


def clamped(fmt, bits):
    """.relu: below zero, and -0, give +0; NaN stays."""
    return 0 if fmt.negative(bits) and fmt.value(bits) != reference.NAN else bits


def flushed(bits):
    return bits & 0x8000 if FORMATS["f16"].is_subnormal(bits) else bits


@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_ftz_and_sat(name):
    fmt = FORMATS["f16"]
    operands = operands_of("f16", 3 if name == "fma" else 2, 3)
    prefix = "fma.rn" if name == "fma" else name
    flushing, saturating = [], []
    for row in rows(operands):
        inputs = [flushed(bits) for bits in row]
        result = flushed(EXACT[name](fmt, *inputs))
        if result & 0x7FFF == 0x0400 and name != "add":  # subnormal before it was rounded up?
            result = flushed(EXACT[name](fmt, *inputs, "z"))
        flushing.append(result)
        result = EXACT[name](fmt, *row)
        value = fmt.value(result)
        if value == reference.NAN or fmt.negative(result):
            result = 0
        elif value == reference.INF or value > 1:
            result = 0x3C00
        saturating.append(result)
    check_both(f"{prefix}.ftz", "f16", operands, flushing)
    check_both(f"{prefix}.sat", "f16", operands, saturating)


@pytest.mark.parametrize("kind", HALVES)
def test_neg_and_abs_touch_the_sign_alone(kind):
    """A NaN is that of any operation."""
    (a,) = operands_of(kind, 1, 4)

    def changed(change):
        fmt = FORMATS[kind]
        return [fmt.nan if fmt.value(x) == reference.NAN else change(x) for x in a.tolist()]

    check_both("neg", kind, [a], changed(lambda x: x ^ 0x8000))
    check_both("abs", kind, [a], changed(lambda x: x & 0x7FFF))
    if kind == "f16":
        check_both("neg.ftz", kind, [a], changed(lambda x: flushed(x) ^ 0x8000))
        check_both("abs.ftz", kind, [a], changed(lambda x: flushed(x) & 0x7FFF))


def extreme(fmt, a, b, largest, nan_wins=False):
    x, y = fmt.value(a), fmt.value(b)
    if x == reference.NAN and y == reference.NAN:
        return fmt.nan
    if reference.NAN in (x, y):
        return fmt.nan if nan_wins else b if x == reference.NAN else a

    def key(bits):
        return -(bits & 0x7FFF) - 1 if fmt.negative(bits) else bits

    return (max if largest else min)(a, b, key=key)


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("name", ["min", "max"])
def test_min_and_max(name, kind):
    fmt, largest = FORMATS[kind], name == "max"
    operands = [o[:1800] for o in operands_of(kind, 2, 5)]
    pairs = rows(operands)
    check_both(name, kind, operands, [extreme(fmt, a, b, largest) for a, b in pairs])
    check_both(f"{name}.NaN", kind, operands, [extreme(fmt, a, b, largest, True) for a, b in pairs])
    signs = [extreme(fmt, a & 0x7FFF, b & 0x7FFF, largest) for a, b in pairs]
    check_both(
        f"{name}.xorsign.abs",
        kind,
        operands,
        [
            e if fmt.value(e) == reference.NAN else e | (a ^ b) & 0x8000
            for e, (a, b) in zip(signs, pairs, strict=True)
        ],
    )
    if kind == "f16":
        check_both(
            f"{name}.ftz",
            kind,
            operands,
            [extreme(fmt, flushed(a), flushed(b), largest) for a, b in pairs],
        )
