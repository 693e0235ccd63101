"""Approximations against the error bounds and tables that the ISA states (9.7.3.18 to .22)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import FORMATS, call

FUNCTIONS = {"sin": math.sin, "cos": math.cos, "lg2": math.log2, "ex2": lambda x: 2.0**x,
             "tanh": math.tanh}
INF, NAN = 0x7F800000, 0x7FFFFFFF
SIGN, ONE = 0x80000000, 0x3F800000
TABLE = [INF | SIGN, SIGN, 0, INF, 0x7FC00001]  # -inf, -0, +0, +inf, NaN
SPECIAL = {
    "sin": [NAN, SIGN, 0, NAN, NAN],
    "cos": [NAN, ONE, ONE, NAN, NAN],
    "lg2": [NAN, INF | SIGN, INF | SIGN, INF, NAN],
    "ex2": [0, ONE, ONE, INF, NAN],
    "tanh": [ONE | SIGN, SIGN, 0, ONE, NAN],
}


def inputs(name):
    generator = np.random.default_rng(4)
    if name in ("sin", "cos"):
        return generator.uniform(-100 * math.pi, 100 * math.pi, 2000).astype(np.float32)
    if name == "lg2":
        return np.exp2(generator.uniform(-126, 127, 2000)).astype(np.float32)
    return generator.uniform(-140, 127, 2000).astype(np.float32) / (1 if name == "ex2" else 20)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_half_a_unit_of_the_exact_value(name):
    """Far inside the ISA's bounds: the double-precision value rounded once."""
    a = inputs(name)
    exact = np.array([FUNCTIONS[name](float(x)) for x in a])
    got = call(f"{name}.approx.f32", a)
    unit = np.maximum(np.abs(np.spacing(exact.astype(np.float32))), 2.0**-149)
    assert np.max(np.abs(got - exact) / unit) <= 0.5001


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_every_size(name):
    """The C library reduces its argument exactly, however many turns it is; so must we."""
    a = np.random.default_rng(6).integers(0, 0x7F800000, 4000).astype(np.uint32).view(np.float32)
    a[:40] = np.outer(np.float32(math.pi / 2), 2.0 ** np.arange(0, 120, 3)).astype(np.float32)[0]
    for values in (a, -a):
        exact = np.array([FUNCTIONS[name](float(x)) for x in values])
        unit = np.maximum(np.abs(np.spacing(exact.astype(np.float32))), 2.0**-149)
        assert np.max(np.abs(call(f"{name}.approx.f32", values) - exact) / unit) <= 0.5001


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    got = call(f"{name}.approx.f32", np.array(TABLE, np.uint32)).view(np.uint32)
    assert got.tolist() == SPECIAL[name]
    below_zero = np.array([0xBF800000], np.uint32)
    assert name != "lg2" or call("lg2.approx.f32", below_zero).view(np.uint32) == NAN


def test_ftz_flushes_inputs_and_results():
    tiny = np.array([1, 0x80000001], np.uint32)
    assert call("sin.approx.ftz.f32", tiny).view(np.uint32).tolist() == [0, SIGN]
    assert call("sin.approx.f32", tiny).view(np.uint32).tolist() == [1, 0x80000001]
    assert call("cos.approx.ftz.f32", tiny).tolist() == [1.0, 1.0]
    assert call("lg2.approx.ftz.f32", tiny[:1]).tolist() == [-math.inf]
    assert call("lg2.approx.f32", tiny[:1]).tolist() == [-149.0]
    assert call("ex2.approx.ftz.f32", [-127.0, -126.0]).tolist() == [0.0, 2.0**-126]
    assert call("ex2.approx.f32", [-127.0, -149.0, -151.0]).tolist() == [2.0**-127, 2.0**-149, 0.0]
    assert call("tanh.approx.f32", tiny).view(np.uint32).tolist() == tiny.tolist()


@pytest.mark.parametrize("name", ["tanh.approx.f16", "tanh.approx.bf16", "ex2.approx.f16",
                                  "ex2.approx.ftz.bf16"])
def test_every_half(name):
    """All 65,536 inputs, single and in both halves of pairs."""
    opcode, *_, kind = name.split(".")
    fmt = FORMATS[kind]
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    with np.errstate(all="ignore"):
        # The values of both sixteen-bit formats are exact in f32.
        wide = bits.view(np.float16).astype(float) if kind == "f16" else (
            bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(float)
        if "ftz" in name:
            wide = np.where(np.abs(wide) < 2.0**-126, 0, wide)
        exact = np.exp2(wide) if opcode == "ex2" else np.tanh(wide)
    got = call(name, bits).view(np.uint16)
    finite = np.isfinite(wide)
    chosen = np.random.default_rng(5).choice(np.flatnonzero(finite), 4000)
    for i in chosen.tolist():
        if not math.isfinite(exact[i]):
            expected = fmt.infinity
        else:
            expected = fmt.round(reference.Fraction(float(exact[i])),
                                 negative_zero=math.copysign(1, exact[i]) < 0)
        if "ftz" in name and fmt.is_subnormal(expected):
            expected &= 0x8000
        assert int(got[i]) == expected, hex(i)
    assert (got[np.isnan(wide)] == 0x7FFF).all()
    pair = bits.astype(np.uint32) | (bits[::-1].astype(np.uint32) << np.uint32(16))
    both = call(name.replace(kind, f"{kind}x2"), pair)
    assert (both.astype(np.uint16) == got).all()
    assert ((both >> np.uint32(16)).astype(np.uint16) == got[::-1]).all()
