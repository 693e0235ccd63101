"""Casts and arithmetic of the stand-in against CUDA C++ run by the machine itself."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

EDGES = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    127.9,
    128.0,
    -128.9,
    -129.0,
    255.9,
    256.0,
    300.0,
    -300.0,
    32767.5,
    32768.0,
    65535.5,
    65536.0,
    70000.0,
    -70000.0,
    2147483520.0,
    2147483647.0,
    2147483648.0,
    -2147483648.0,
    -2147483904.0,
    3e9,
    -3e9,
    4294967040.0,
    4294967296.0,
    9e18,
    9.3e18,
    -9.3e18,
    1.8e19,
    1.9e19,
    1e20,
    -1e20,
    np.inf,
    -np.inf,
    np.nan,
]
TYPES = {
    "i1": "signed char",
    "u1": "unsigned char",
    "i2": "short",
    "u2": "unsigned short",
    "i4": "int",
    "u4": "unsigned",
    "i8": "long long",
    "u8": "unsigned long long",
    "?": "bool",
}
REALS = {"f4": "float", "f8": "double"}


@pytest.mark.parametrize("source", REALS)
@pytest.mark.parametrize("target", TYPES)
def test_casts_are_those_of_the_machine(cp, source, target):
    values = np.array(EDGES, source)
    expected = np.zeros(len(values), target)
    module = virtualgpu.Module.from_cuda(f"""
        extern "C" __global__ void cast(const {REALS[source]}* x, {TYPES[target]}* y) {{
            y[threadIdx.x] = ({TYPES[target]})x[threadIdx.x];
        }}""")
    module.launch("cast", 1, len(values), [values, expected])
    assert cp.asarray(values).astype(target).tolist() == expected.tolist()
    # the same where all fits, by the quick way
    inside = values[(values > -1) & (values < 100)]
    assert cp.asarray(inside).astype(target).tolist() == inside.astype(target).tolist()


@pytest.mark.parametrize(
    "write",
    [
        lambda cp, x, y: y.__setitem__(slice(None), x),
        lambda cp, x, y: cp.copyto(y, x, "unsafe"),
        lambda cp, x, y: y.__setitem__(cp.arange(len(x)), x),
        lambda cp, x, y: y.put(range(len(x)), x),
        lambda cp, x, y: y.__setitem__(cp.ones(len(x), bool), x),
    ],
)
def test_every_way_to_write_casts_alike(cp, write):
    x, y = cp.array(EDGES), cp.zeros(len(EDGES), np.uint32)
    write(cp, x, y)
    assert (y == x.astype(np.uint32)).all()


def test_half_precision(cp):
    x = cp.array([np.inf, -1, 3.7, np.nan], np.float16)
    assert x.astype(np.int32).tolist() == [2147483647, -1, 3, 0]
    assert x.astype(np.uint8).tolist() == [255, 0, 3, 0]


def test_complex_numbers_lose_their_imaginary_part_with_a_warning(cp):
    with pytest.warns(np.exceptions.ComplexWarning):
        assert cp.array([1.5 - 2j]).astype(np.float32).tolist() == [1.5]
    with pytest.warns(np.exceptions.ComplexWarning):
        assert cp.array([-1.5 - 2j]).astype(np.uint8).tolist() == [0]


def test_casts_can_be_forbidden(cp):
    with pytest.raises(TypeError, match="according to the rule 'safe'"):
        cp.ones(2).astype(np.float32, casting="safe")


@pytest.mark.parametrize("real", REALS)
def test_floor_division_and_remainder_are_cupys_kernels(cp, real):
    random = np.random.default_rng(5)
    x = (random.normal(size=512) * 10.0 ** random.integers(-3, 6, 512)).astype(real)
    y = (random.normal(size=512) * 10.0 ** random.integers(-3, 3, 512)).astype(real)
    x[:6], y[:6] = [1, -1, 5, 0, 1e30, 7], [0.1, 0.1, np.inf, 0, 1e-8, -2]
    quotient, rest = np.zeros_like(x), np.zeros_like(x)
    kind = REALS[real]
    module = virtualgpu.Module.from_cuda(f"""
        extern "C" __global__ void divide(const {kind}* x, const {kind}* y, {kind}* q, {kind}* r) {{
            int i = threadIdx.x;
            q[i] = floor(x[i] / y[i]);
            r[i] = x[i] - floor(x[i] / y[i]) * y[i];
        }}""")
    module.launch("divide", 1, 512, [x, y, quotient, rest])
    dx, dy = cp.asarray(x), cp.asarray(y)
    np.testing.assert_array_equal((dx // dy).get(), quotient)
    np.testing.assert_array_equal((dx % dy).get(), rest)
    for one, expected in zip(cp.divmod(dx, dy), (quotient, rest), strict=True):
        np.testing.assert_array_equal(one.get(), expected)


def test_remainders_in_place(cp):
    x, y = cp.arange(10.0), cp.array(3.0)
    x %= y
    assert x.tolist() == [0, 1, 2] * 3 + [0]
    x //= 2
    assert x.tolist() == [0, 0, 1] * 3 + [0]
