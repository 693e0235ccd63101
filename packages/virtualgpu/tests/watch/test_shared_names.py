"""Shared arrays are called by the names of the source."""

from __future__ import annotations

import re

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, float32, float64, int32  # noqa: E402

from virtualgpu.cuda.module import Module  # noqa: E402

SIDE = 8


@cuda.jit(device=True)
def turned(n):
    scratch = cuda.shared.array(64, int32)
    scratch[n] = n
    return scratch[63 - n]


@cuda.jit(device=True)
def put(to, i):
    to[i] = i


@cuda.jit
def two_arrays(out):
    left = cuda.shared.array(64, float32)
    right = cuda.shared.array((SIDE, SIDE), dtype=float64)
    i = cuda.threadIdx.x
    put(left, i)
    right[i // SIDE, i % SIDE] = i
    out[i] = left[63 - i] + right[i % SIDE, i // SIDE]


@cuda.jit
def one_in_a_function(out):
    mine = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    mine[i] = i
    out[i] = mine[63 - i] + turned(i)


def places(kernel) -> set[str]:
    """Return what stands in brackets in the messages, numbers as 0."""
    with virtualgpu.check() as report:
        kernel[1, 64](np.zeros(64, np.float32))
    return {
        re.sub(r"\[[\d, ]+\]", "[…]", re.findall(r"\((.*)\) at line", one.message)[0])
        for one in report.findings
    }


def test_races_name_shared_arrays_and_their_element():
    assert places(two_arrays) == {"left[…] of 64", "right[…] of (8, 8)"}


def test_a_device_function_s_own_array_has_its_name():
    assert places(one_in_a_function) == {"mine[…] of 64", "scratch[…] of 64"}


def test_unwritten_reads_and_bad_addresses_name_shared_arrays():
    @cuda.jit
    def unwritten(out):
        sums = cuda.shared.array(32, float32)
        out[cuda.threadIdx.x] = sums[cuda.threadIdx.x]

    with virtualgpu.check() as report:
        unwritten[1, 32](np.zeros(32, np.float32))
    assert "(sums[0] of 32)" in report.findings[0].message
    with pytest.raises(virtualgpu.MemoryAccessError, match="the end of sums, a shared array of"):
        unwritten[1, 64](np.zeros(64, np.float32))


def test_the_name_in_cpp_is_that_of_the_source():
    text = """extern "C" __global__ void k(float* out) {
        __shared__ float tile2x[64];
        tile2x[threadIdx.x] = 1;
        out[threadIdx.x] = tile2x[63 - threadIdx.x];
    }"""
    out = cuda.to_device(np.zeros(64, np.float32))
    with virtualgpu.check() as report:
        Module.from_cuda(text).launch("k", 1, 64, [out.device_ctypes_pointer.value])
    assert "of tile2x, a shared array of 64 elements" in report.findings[0].message
