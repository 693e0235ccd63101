"""f32 and f64 arithmetic against exact fractions rounded once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operations_reference as reference
from operations_reference import FORMATS, call

MODES = ("rn", "rz", "rm", "rp")
TYPES = ("f32", "f64")


def check(name, kind, exact, count, random=400, seed=0):
    """Every combination of edge values, then random ones, bit for bit."""
    fmt = FORMATS[kind]
    operands = reference.tuples(fmt, count, random, seed)
    expected = [
        exact(fmt, *(int(o) for o in row), name.split(".")[1][1])
        for row in zip(*operands, strict=True)
    ]
    reference.assert_bits(fmt, call(name, *operands), expected, *operands)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_sums_and_products_are_rounded_once(mode, kind):
    def subtract(fmt, a, b, mode):  # a NaN keeps its sign
        return reference.add(fmt, a, b if fmt.value(b) == reference.NAN else b ^ fmt.sign, mode)

    check(f"add.{mode}.{kind}", kind, reference.add, 2, seed=1)
    check(f"sub.{mode}.{kind}", kind, subtract, 2, seed=2)
    check(f"mul.{mode}.{kind}", kind, reference.multiply, 2, seed=3)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_quotients_and_roots_are_rounded_once(mode, kind):
    one = FORMATS[kind].bias << FORMATS[kind].fraction_bits
    check(f"div.{mode}.{kind}", kind, reference.divide, 2, seed=4)
    check(f"rcp.{mode}.{kind}", kind, lambda f, a, m: reference.divide(f, one, a, m), 1, seed=5)
    check(f"sqrt.{mode}.{kind}", kind, reference.square_root, 1, random=400, seed=6)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_multiply_add_is_rounded_once(mode, kind):
    """Products of edge values, of near-cancelling and of far-apart terms."""
    fmt = FORMATS[kind]
    table = np.array(reference.edges(fmt), reference.BITS_DTYPE[fmt.width])
    a, b, c = (grid.ravel() for grid in np.meshgrid(table[::3], table[1::3], table[::2]))
    random = [reference.samples(fmt, 900, seed) for seed in (7, 8, 9)]
    # c within a few units in the last place of -a*b: all but the last bits cancel.
    exact = [
        reference.multiply(fmt, int(x), int(y)) ^ fmt.sign for x, y in zip(*random[:2], strict=True)
    ]
    near = np.array(exact, dtype=random[2].dtype) + np.arange(900, dtype=random[2].dtype) % 3
    operands = [
        np.concatenate([x, y, z])
        for x, y, z in zip((a, b, c), random, (random[0], random[1], near), strict=True)
    ]
    expected = [
        reference.multiply_add(fmt, *map(int, row), mode[1]) for row in zip(*operands, strict=True)
    ]
    for name in ("fma", "mad"):
        got = call(f"{name}.{mode}.{kind}", *operands)
        reference.assert_bits(fmt, got, expected, *operands)


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=3, max_size=3))
def test_multiply_add_of_any_bits(bits):
    for kind in TYPES:
        fmt = FORMATS[kind]
        row = [b & ((1 << fmt.width) - 1) for b in bits]
        operands = [np.array([b], reference.BITS_DTYPE[fmt.width]) for b in row]
        for mode in MODES:
            got = call(f"fma.{mode}.{kind}", *operands)
            reference.assert_bits(fmt, got, [reference.multiply_add(fmt, *row, mode[1])], *operands)


def flushed(bits):
    return bits & 0x80000000 if FORMATS["f32"].is_subnormal(bits) else bits


@pytest.mark.parametrize(
    ("name", "exact", "count"),
    [
        ("add", reference.add, 2),
        ("mul", reference.multiply, 2),
        ("fma.rn", reference.multiply_add, 3),
        ("div.rn", reference.divide, 2),
        ("sqrt.rn", reference.square_root, 1),
    ],
)
def test_ftz_flushes_inputs_and_results(name, exact, count):
    fmt = FORMATS["f32"]
    operands = reference.tuples(fmt, count, 300, 10)
    if count == 3:
        operands = [o[::5] for o in operands]
    expected = []
    for row in zip(*operands, strict=True):
        inputs = [flushed(int(bits)) for bits in row]
        result = flushed(exact(fmt, *inputs))
        # A product that rounds up to the smallest normal number was subnormal: rounded towards
        # zero it still is.
        if name == "mul" and result & 0x7FFFFFFF == 0x00800000:
            result = flushed(exact(fmt, *inputs, "z"))
        expected.append(result)
    reference.assert_bits(fmt, call(f"{name}.ftz.f32", *operands), expected, *operands)


def test_ftz_flushes_a_product_that_is_subnormal_before_it_is_rounded():
    """0x00ffffff * 0.5 rounds to the smallest normal number: an H200 flushes the product, but the
    sum of a product only after it is rounded, as its two last cases here."""
    a, b = (np.array([x], np.uint32) for x in (0x00FFFFFF, 0x3F000000))
    assert call("mul.f32", a, b).view(np.uint32) == 0x00800000
    assert call("mul.ftz.f32", a, b).view(np.uint32) == 0
    assert call("mul.ftz.f32", a | 0x80000000, b).view(np.uint32) == 0x80000000
    a, b, c = np.array(
        [[0x01F7B47F, 0xAAE9904D, 0x00800000], [0x0A8972AC, 0x9B6353D0, 0x00800000]], np.uint32
    ).T.copy()
    assert call("fma.rn.ftz.f32", a, b, c).view(np.uint32).tolist() == [0x00800000] * 2


@pytest.mark.parametrize(
    ("name", "exact", "count"),
    [
        ("add", reference.add, 2),
        ("mul.rz", reference.multiply, 2),
        ("fma.rp", reference.multiply_add, 3),
    ],
)
def test_sat_clamps_to_one_and_makes_nan_zero(name, exact, count):
    fmt = FORMATS["f32"]
    mode = name.split(".")[1][1] if "." in name else "n"
    operands = [o[::3] for o in reference.tuples(fmt, count, 300, 11)]
    expected = []
    for row in zip(*operands, strict=True):
        bits = exact(fmt, *map(int, row), mode)
        value = fmt.value(bits)
        if value == reference.NAN or fmt.negative(bits):
            bits = 0
        elif value == reference.INF or value > 1:
            bits = 0x3F800000
        expected.append(bits)
    reference.assert_bits(fmt, call(f"{name}.sat.f32", *operands), expected, *operands)


def extreme(fmt, a, b, largest, nan_wins=False):
    """min and max as the ISA's pseudocode has them (9.7.3.11 and .12)."""
    x, y = fmt.value(a), fmt.value(b)
    if x == reference.NAN and y == reference.NAN:
        return reference.nan_of(fmt, b)
    if reference.NAN in (x, y):
        return fmt.nan if nan_wins else b if x == reference.NAN else a

    def key(bits):  # orders encodings as numbers, -0 below +0
        return -(bits & (fmt.sign - 1)) - 1 if fmt.negative(bits) else bits

    return (max if largest else min)(a, b, key=key)


@pytest.mark.parametrize("kind", TYPES)
def test_min_and_max_order_zeros_and_avoid_nan(kind):
    fmt = FORMATS[kind]
    operands = reference.tuples(fmt, 2, 200, 12)
    rows = [tuple(map(int, row)) for row in zip(*operands, strict=True)]
    for name in ("min", "max"):
        expected = [extreme(fmt, a, b, name == "max") for a, b in rows]
        reference.assert_bits(fmt, call(f"{name}.{kind}", *operands), expected, *operands)


def test_min_and_max_with_modifiers():
    fmt = FORMATS["f32"]
    operands = reference.tuples(fmt, 2, 200, 13)
    rows = [tuple(map(int, row)) for row in zip(*operands, strict=True)]
    for name in ("min", "max"):
        expected = [extreme(fmt, a, b, name == "max", nan_wins=True) for a, b in rows]
        reference.assert_bits(fmt, call(f"{name}.NaN.f32", *operands), expected, *operands)
        expected = [extreme(fmt, flushed(a), flushed(b), name == "max") for a, b in rows]
        reference.assert_bits(fmt, call(f"{name}.ftz.f32", *operands), expected, *operands)
        expected = [extreme(fmt, a & 0x7FFFFFFF, b & 0x7FFFFFFF, name == "max") for a, b in rows]
        expected = [
            e if fmt.value(e) == reference.NAN else e | ((a ^ b) & fmt.sign)
            for e, (a, b) in zip(expected, rows, strict=True)
        ]
        reference.assert_bits(fmt, call(f"{name}.xorsign.abs.f32", *operands), expected, *operands)


@pytest.mark.parametrize("kind", TYPES)
def test_abs_neg_and_copysign_touch_the_sign_alone(kind):
    """Of a NaN abs and neg make what other operations do."""
    fmt = FORMATS[kind]
    (a,) = reference.tuples(fmt, 1, 50, 14)
    unsigned = a.dtype
    for name, change in (("abs", lambda x: x & (fmt.sign - 1)), ("neg", lambda x: x ^ fmt.sign)):
        assert call(f"{name}.{kind}", a).view(unsigned).tolist() == [
            reference.nan_of(fmt, x) if fmt.value(x) == reference.NAN else change(x)
            for x in a.tolist()
        ]
    b = a[::-1].copy()
    expected = [(int(y) & (fmt.sign - 1)) | (int(x) & fmt.sign) for x, y in zip(a, b, strict=True)]
    assert call(f"copysign.{kind}", a, b).view(unsigned).tolist() == expected


def test_abs_and_neg_flush():
    a = np.array(reference.edges(FORMATS["f32"]), np.uint32)
    a = a[a & 0x7FFFFFFF <= 0x7F800000]
    assert call("abs.ftz.f32", a).view(np.uint32).tolist() == [
        flushed(int(x)) & 0x7FFFFFFF for x in a
    ]
    assert call("neg.ftz.f32", a).view(np.uint32).tolist() == [
        flushed(int(x)) ^ 0x80000000 for x in a
    ]


@pytest.mark.parametrize("name", ["div.approx", "div.full", "rcp.approx", "sqrt.approx"])
def test_approximations_are_the_correctly_rounded_value(name):
    fmt = FORMATS["f32"]
    opcode = name.split(".")[0]
    operands = reference.tuples(fmt, 2 if opcode == "div" else 1, 300, 15)
    one = 0x3F800000
    if opcode == "div":  # divisors around 2**126, where the hardware's reciprocal becomes zero
        for divisor in (0x7E000000, 0x7E7FFFFF, 0x7E800000, 0x7E800001, 0x7F000000):
            operands[0] = np.append(operands[0], np.array([one, 0x7F7FFFFF], np.uint32))
            operands[1] = np.append(operands[1], np.array([divisor] * 2, np.uint32))
    exact = {
        "div": reference.divide,
        "rcp": lambda f, a: reference.divide(f, one, a),
        "sqrt": reference.square_root,
    }[opcode]
    expected = []
    for row in zip(*operands, strict=True):
        result = exact(fmt, *map(int, row))
        divisor = int(row[-1]) & 0x7FFFFFFF
        if name == "div.approx" and 0x7E800000 < divisor < 0x7F800000:  # beyond 2**126
            sign = (int(row[0]) ^ int(row[1])) & fmt.sign
            above = fmt.value(int(row[0])) in (reference.INF, reference.NAN)
            result = fmt.nan if above else sign
        expected.append(result)
    reference.assert_bits(fmt, call(f"{name}.f32", *operands), expected, *operands)


def test_reciprocal_root_keeps_its_error_bound():
    """rsqrt.approx.f32: relative error at most 2**-22.9 (PTX ISA 9.7.3.16), and its table."""
    a = np.abs(reference.samples(FORMATS["f32"], 500, 16).view(np.float32))
    a = a[np.isfinite(a) & (a > 0)]
    exact = 1 / np.sqrt(a.astype(np.longdouble))
    assert np.max(np.abs(call("rsqrt.approx.f32", a) / exact - 1)) < 2.0**-22.9
    assert np.max(np.abs(call("rsqrt.approx.f64", a.astype(float)) / exact - 1)) < 2.0**-51
    special = [0x80000000, 0, 0x7F800000, 0xFF800000, 0xBF800000, 0x7FC00000]
    assert call("rsqrt.approx.f32", np.array(special, np.uint32)).view(np.uint32).tolist() == [
        0xFF800000,
        0x7F800000,
        0,
        0x7FFFFFFF,
        0x7FFFFFFF,
        0x7FFFFFFF,
    ]
    assert call("rsqrt.approx.ftz.f32", np.array([1], np.uint32)).view(np.uint32) == 0x7F800000


def test_gross_approximations_of_f64():
    """rcp and rsqrt.approx.ftz.f64: 20 bits, the lower word zero, and the ISA's tables."""
    for name, exact in (("rcp", lambda x: 1 / x), ("rsqrt", lambda x: 1 / np.sqrt(x))):
        a = np.abs(reference.samples(FORMATS["f64"], 500, 17).view(float))
        a = a[(a > 2.0**-1000) & (a < 2.0**1000)]
        got = call(f"{name}.approx.ftz.f64", a)
        assert np.max(np.abs(got / exact(a) - 1)) < 2.0**-19
        assert not (got.view(np.uint64) & 0xFFFFFFFF).any()
    tiny, inf = 0x000FFFFF00000000, 0x7FF0000000000000
    nan, canonical, sign = 0x7FF8000000000001, 0x7FFFFFFF00000000, 1 << 63
    inputs = np.array([inf | sign, tiny | sign, sign, 0, tiny, inf, nan], np.uint64)
    assert call("rcp.approx.ftz.f64", inputs).view(np.uint64).tolist() == [
        sign,
        inf | sign,
        inf | sign,
        inf,
        inf,
        0,
        canonical,
    ]
    assert call("rsqrt.approx.ftz.f64", inputs).view(np.uint64).tolist() == [
        canonical,
        inf | sign,
        inf | sign,
        inf,
        inf,
        0,
        canonical,
    ]
