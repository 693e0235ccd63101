"""Messages name things as the language does in which the kernel was written."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32

import virtualgpu
from virtualgpu.cuda.module import Module
from virtualgpu.errors import MemoryAccessError

virtualgpu.activate(force=True)

CPP = Module.from_cuda(r"""
extern "C" __global__ void mirror(float* x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void count(int* n) {
    n[0] += 1;
}
extern "C" __global__ void unwritten(float* x) {
    __shared__ float s[64];
    x[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void past(float* x) {
    __shared__ float s[64];
    s[threadIdx.x + 40] = 1;
    x[threadIdx.x] = s[threadIdx.x];
}
""")


@cuda.jit
def mirror(x):
    s = cuda.shared.array(64, float32)
    s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
    x[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]


@cuda.jit
def count(n):
    n[0] += 1


@cuda.jit
def unwritten(x):
    s = cuda.shared.array(64, float32)
    x[cuda.threadIdx.x] = s[cuda.threadIdx.x]


@cuda.jit
def past(x):
    s = cuda.shared.array(64, float32)
    s[cuda.threadIdx.x + 40] = 1
    x[cuda.threadIdx.x] = s[cuda.threadIdx.x]


def said(kernel, dtype) -> str:
    """What the checker says of a launch of one block, either language's kernel."""
    x = np.ones(64, dtype)
    with virtualgpu.check() as report:
        if isinstance(kernel, str):
            CPP.launch(kernel, 1, 64, [x])
        else:
            kernel[1, 64](x)
    return str(report)


@pytest.mark.parametrize(
    ("name", "kernel", "dtype", "cpp", "numba"),
    [
        (
            "mirror",
            mirror,
            np.float32,
            "put __syncthreads() between",
            "put cuda.syncthreads() between",
        ),
        ("count", count, np.int32, "use an atomic (atomicAdd)", "use cuda.atomic"),
        (
            "unwritten",
            unwritten,
            np.float32,
            "then __syncthreads(), then read",
            "then cuda.syncthreads(), then read",
        ),
    ],
)
def test_findings(name, kernel, dtype, cpp, numba):
    assert cpp in said(name, dtype) and "cuda." not in said(name, dtype)
    assert numba in said(kernel, dtype) and "__sync" not in said(kernel, dtype)


def test_addresses_out_of_a_shared_array():
    with pytest.raises(MemoryAccessError, match="the size in its __shared__ declaration"):
        CPP.launch("past", 1, 64, [np.ones(64, np.float32)])
    with pytest.raises(MemoryAccessError, match=r"the size given to cuda\.shared\.array"):
        past[1, 64](np.ones(64, np.float32))
