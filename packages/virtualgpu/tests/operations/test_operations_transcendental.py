"""Approximations against the error bounds and tables that the ISA states (9.7.3.18 to .22), and
against the steps that hardware was seen to take."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from operations_reference import FORMATS, call

FUNCTIONS = {
    "sin": math.sin,
    "cos": math.cos,
    "lg2": math.log2,
    "ex2": lambda x: 2.0**x,
    "tanh": math.tanh,
}
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
    if name == "lg2":
        return np.exp2(generator.uniform(-126, 127, 2000)).astype(np.float32)
    return generator.uniform(-140, 127, 2000).astype(np.float32) / (1 if name == "ex2" else 20)


@pytest.mark.parametrize("name", ["lg2", "ex2", "tanh"])
def test_within_half_a_unit_of_the_exact_value(name):
    """Far inside the ISA's bounds: the double-precision value rounded once."""
    a = inputs(name)
    exact = np.array([FUNCTIONS[name](float(x)) for x in a])
    got = call(f"{name}.approx.f32", a)
    unit = np.maximum(np.abs(np.spacing(exact.astype(np.float32))), 2.0**-149)
    assert np.max(np.abs(got - exact) / unit) <= 0.5001


def of_turns(name, x):
    """Sine or cosine by the number of turns: the angle times 1 / (2 pi) cut to f32, of which 25
    places behind the point count; in every other quarter they are inverted."""
    fmt = FORMATS["f32"]
    turns = abs(fmt.value(fmt.round(Fraction(x) * Fraction(float.fromhex("0x1.45f306p-3")), "z")))
    places = math.floor(turns % 1 * 2**25)
    quarter, places = divmod(places, 2**23)
    quarter += name == "cos"
    if quarter % 2:
        places = 2**23 - 1 - places
    value = math.sin(places * 2 * math.pi / 2**25)
    return -value if (quarter % 4 >= 2) ^ (name == "sin" and x < 0) else value


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_every_size(name):
    a = np.random.default_rng(6).integers(0, 0x7F800000, 4000).astype(np.uint32).view(np.float32)
    a[:40] = np.outer(np.float32(math.pi / 2), 2.0 ** np.arange(0, 120, 3)).astype(np.float32)[0]
    a[40:1000] = np.random.default_rng(4).uniform(-100 * math.pi, 100 * math.pi, 960)
    for values in (a, -a):
        exact = np.array([of_turns(name, float(x)) for x in values])
        unit = np.maximum(np.abs(np.spacing(exact.astype(np.float32))), 2.0**-149)
        assert np.max(np.abs(call(f"{name}.approx.f32", values) - exact) / unit) <= 0.5001


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_keep_the_bounds_of_the_isa(name):
    """Absolute errors of 2**-20.5 within half a turn, 2**-14.7 within fifty (9.7.3.18 and .19)."""
    for size, bound in ((math.pi, 2.0**-20.5), (100 * math.pi, 2.0**-14.7)):
        a = np.linspace(-size, size, 5001).astype(np.float32)
        exact = np.array([FUNCTIONS[name](float(x)) for x in a])
        assert np.max(np.abs(call(f"{name}.approx.f32", a) - exact)) <= bound


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    got = call(f"{name}.approx.f32", np.array(TABLE, np.uint32)).view(np.uint32)
    assert got.tolist() == SPECIAL[name]
    below_zero = np.array([0xBF800000], np.uint32)
    assert name != "lg2" or call("lg2.approx.f32", below_zero).view(np.uint32) == NAN


def test_ftz_flushes_inputs_and_results():
    tiny = np.array([1, 0x80000001], np.uint32)
    assert call("sin.approx.ftz.f32", tiny).view(np.uint32).tolist() == [0, SIGN]
    assert call("sin.approx.f32", tiny).view(np.uint32).tolist() == [0, SIGN]  # no turn of 2**-25
    assert call("cos.approx.ftz.f32", tiny).tolist() == [1.0, 1.0]
    assert call("lg2.approx.ftz.f32", tiny[:1]).tolist() == [-math.inf]
    assert call("lg2.approx.f32", tiny[:1]).tolist() == [-149.0]
    assert call("ex2.approx.ftz.f32", [-127.0, -126.0]).tolist() == [0.0, 2.0**-126]
    assert call("ex2.approx.f32", [-127.0, -149.0, -151.0]).tolist() == [2.0**-127, 2.0**-149, 0.0]
    assert call("tanh.approx.f32", tiny).view(np.uint32).tolist() == tiny.tolist()


@pytest.mark.parametrize(
    "name", ["tanh.approx.f16", "tanh.approx.bf16", "ex2.approx.f16", "ex2.approx.ftz.bf16"]
)
def test_every_half(name):
    """All 65,536 inputs, single and in both halves of pairs: cut towards zero. Of an exponent 23
    places count; what is below 2**-8 is its own tangent, from 8 on it is 1."""
    opcode, *_, kind = name.split(".")
    fmt = FORMATS[kind]
    bits = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    with np.errstate(all="ignore"):
        # The values of both sixteen-bit formats are exact in f32.
        wide = (
            bits.view(np.float16).astype(float)
            if kind == "f16"
            else (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(float)
        )
        if "ftz" in name:
            wide = np.where(np.abs(wide) < 2.0**-126, 0, wide)
        exact = (
            np.exp2(np.trunc(wide * 2.0**23) * 2.0**-23)
            if opcode == "ex2"
            else np.where(
                np.abs(wide) < 2.0**-8,
                wide,
                np.where(np.abs(wide) < 8, np.tanh(wide), np.sign(wide)),
            )
        )
    got = call(name, bits).view(np.uint16)
    finite = np.isfinite(wide)
    chosen = np.random.default_rng(5).choice(np.flatnonzero(finite), 4000)
    for i in chosen.tolist():
        if exact[i] >= 2.0 ** (fmt.bias + 1):
            expected = fmt.infinity
        else:
            expected = fmt.round(
                Fraction(float(exact[i])), "z", negative_zero=math.copysign(1, exact[i]) < 0
            )
        if "ftz" in name and fmt.is_subnormal(expected):
            expected &= 0x8000
        assert int(got[i]) == expected, hex(i)
    assert (got[np.isnan(wide)] == 0x7FFF).all()
    pair = bits.astype(np.uint32) | (bits[::-1].astype(np.uint32) << np.uint32(16))
    both = call(name.replace(kind, f"{kind}x2"), pair)
    assert (both.astype(np.uint16) == got).all()
    assert ((both >> np.uint32(16)).astype(np.uint16) == got[::-1]).all()
