"""Every operation gives the same bits whatever the host's processor offers."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import operations_reference as reference
from operations_reference import FORMATS, call
from virtualgpu.lanes import atomics
from virtualgpu.operations import formats
from virtualgpu_fixtures import SUPPORT

# A processor of 2009: no AVX, no fused multiply-add, no conversions of half precision.
WEAK = {
    "NUMBA_CPU_NAME": "x86-64-v2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}
OF_TWO = ("add", "sub", "mul", "div.rn", "min", "max", "add.rz", "mul.rm", "div.rp", "copysign")
OF_ONE = ("sqrt.rn", "rcp.rn", "sqrt.rz", "abs", "neg")


def names(kind: str) -> list[tuple[str, int]]:
    """Operations on a kind of float, and how many operands each has."""
    found = [(f"{name}.{kind}", 2) for name in OF_TWO]
    found += [(f"{name}.{kind}", 1) for name in OF_ONE]
    found += [(f"fma.{mode}.{kind}", 3) for mode in ("rn", "rz")]
    found += [(f"cvt.{mode}.{kind}.{kind}", 1) for mode in ("rni", "rzi", "rmi", "rpi")]
    if kind == "f32":
        found += [(f"{name}.approx.f32", 1) for name in ("sin", "cos", "lg2", "ex2", "tanh")]
    found += [
        (f"rsqrt.approx.{kind}", 1),
        ("cvt.f64.f32" if kind == "f32" else "cvt.rn.f32.f64", 1),
    ]
    return found


def results() -> dict[str, str]:
    """A digest of each operation's results: edges with edges (NaN of two payloads among them),
    then random encodings."""
    digests = {}
    for kind in ("f32", "f64"):
        fmt = FORMATS[kind]
        payloads = np.array(
            [
                fmt.infinity | 1,
                fmt.infinity | fmt.sign | 5,
                fmt.infinity | (1 << (fmt.fraction_bits - 1)) | 7,
            ],
            reference.BITS_DTYPE[fmt.width],
        )
        for name, count in names(kind):
            operands = reference.tuples(fmt, count, 500, 3)
            grids = np.meshgrid(*[np.append(payloads, operands[0][:3])] * count)
            operands = [np.append(o, g.ravel()) for o, g in zip(operands, grids, strict=True)]
            digests[name] = hashlib.sha256(call(name, *operands).tobytes()).hexdigest()
    for dtype in (np.float16, np.float32, np.float64):
        memory = np.array([np.nan, np.inf, 1, -np.nan], dtype)
        bits = memory.view(f"u{memory.itemsize}")
        bits[3] |= 3  # another payload
        value = np.array([-np.nan, -np.inf, np.nan, 1], dtype)
        with np.errstate(all="ignore"):
            if dtype is np.float16:
                atomics.run("add_f16", bits, np.arange(4), value.view(np.uint16))
            else:
                atomics.run("add", memory, np.arange(4), value)
        digests[f"atom.add.{memory.dtype}"] = bits.tobytes().hex()
    return digests


def test_the_same_bits_on_a_weak_processor():
    weak = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        capture_output=True,
        text=True,
        env={**os.environ, **WEAK, "PYTHONPATH": str(SUPPORT)},
    )
    assert weak.returncode == 0, weak.stderr
    assert json.loads(weak.stdout) == results()


def test_the_same_bits_where_the_processor_passes_on_no_nan():
    """As on an ARM, where each operand is asked: its own NaN has another sign."""
    asking = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "asking"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
    )
    assert asking.returncode == 0, asking.stderr
    assert json.loads(asking.stdout) == results()


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_which_nan(kind):
    """What an operation of f32 computes from NaN has the bits of the format, of f64 those of the
    first NaN among its operands, in the order that instructions look for one."""
    fmt = FORMATS[kind]
    nan = np.array([fmt.infinity | fmt.sign | 5], reference.BITS_DTYPE[fmt.width])
    one = np.array([fmt.bias << fmt.fraction_bits], nan.dtype)
    for name, count in names(kind):
        if name.split(".")[0] in ("copysign", "min", "max") or "f32.f64" in name:
            continue  # the sign alone, the other operand; conversions: test_operations_convert
        if name == "cvt.f64.f32":
            continue
        order = {1: [0], 2: [0, 1] if name.startswith("div") else [1, 0], 3: [1, 2, 0]}[count]
        for which in itertools.product((False, True), repeat=count):
            operands = [
                nan + nan.dtype.type(i) if chosen else one for i, chosen in enumerate(which)
            ]
            if any(which):
                expected = reference.nan_of(fmt, *(int(operands[i][0]) for i in order))
                assert call(name, *operands).view(nan.dtype) == expected, (name, which)


if __name__ == "__main__":
    if sys.argv[1:] == ["asking"]:
        formats.PASSES_NAN_ON = False
    print(json.dumps(results()))
