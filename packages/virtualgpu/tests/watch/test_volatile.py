"""``volatile`` under ``check()``: a flag passes, data and updates need an order.

Each fault has a kernel beside it that is right.
"""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

LAST_WARP = """
extern "C" __global__ void k(const int *x, int *o) {
    __shared__ int tile[64]; int t = threadIdx.x;
    tile[t] = x[t]; __syncthreads();
    if (t < 32) {
        volatile int *s = tile;
        s[t] += s[t + 32]; ORDER
        int other = s[(t + 16) % 32]; ORDER s[t] += other; ORDER
        other = s[(t + 8) % 32]; ORDER s[t] += other; ORDER
        if (t == 0) o[0] = s[0];
    }
}"""
TILE = """
extern "C" __global__ void k(const int *x, int *o) {
    __shared__ volatile int tile[64]; int t = threadIdx.x;
    tile[t] = x[t]; ORDER
    o[t] = tile[63 - t];
}"""
MESSAGE = """
extern "C" __global__ void k(volatile int *flag, volatile int *data, int *o) {
    if (blockIdx.x == 0 && threadIdx.x == 0) { data[0] = 42; ORDER flag[0] = 1; }
    if (blockIdx.x == 1) { while (flag[0] == 0) {} ORDER o[threadIdx.x] = data[0]; }
}"""
RESULTS = """
__device__ unsigned arrived;
extern "C" __global__ void k(volatile int *part, int *o) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = blockIdx.x; ORDER
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += part[i];
        part[0] = sum; o[0] = sum;
    }
}"""
LOCK = """
__device__ int lock;
extern "C" __global__ void k(volatile int *total) {
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock, 0, 1)) {} ORDER
        total[0] = total[0] + 1; ORDER
        *(volatile int *)&lock = 0;
    }
}"""
TURNS = """
extern "C" __global__ void k(volatile int *turn, volatile int *total) {
    if (threadIdx.x == 0) {
        while (turn[0] != blockIdx.x) {} ORDER
        total[0] = total[0] + 1; ORDER
        turn[0] = blockIdx.x + 1;
    }
}"""
WITH_AND_WITHOUT = {
    "the sum of a last warp": (LAST_WARP, "__syncwarp();"),
    "a tile": (TILE, "__syncthreads();"),
    "data behind a flag": (MESSAGE, "__threadfence();"),
    "the last block's sum": (RESULTS, "__threadfence();"),
    "a counter under a lock": (LOCK, "__threadfence();"),
    "a counter in turns": (TURNS, "__threadfence();"),
}
FAULTS = {
    "a counter": "n[0] = n[0] + 1;",
    "a counter with a bound": "int v = n[0]; if (v < 9) n[0] = v + 1;",
    "a counter that looks again": "int v; do { v = n[0]; n[0] = v + 1; } while (n[0] <= v);",
    "a value of each thread": "n[0] = i;",
    "two literals": "if (i == 0) n[0] = 1; if (i == 40) n[0] = 2;",
    "the largest": "if (i > n[0]) n[0] = i;",
    "a neighbour": "n[i] = i; o[i] = n[i ^ 1];",
    "a literal that is read as data": "if (i == 0) n[0] = 7; o[i] = n[0];",
}
FLAGS = {
    "found by anyone": "if (n[0]) return; if (i % 7 == 0) n[0] = 1; o[i] = i;",
    "waited for by all": "if (i == 0) n[0] = 5; while (n[0] != 5) {} o[i] = i;",
    "read by one thread for its block": """__shared__ int seen; if (i == 0) n[0] = 3;
        do { __syncthreads(); if (threadIdx.x == 0) seen = n[0]; __syncthreads(); }
        while (!seen); o[i] = i;""",
    "two threads in turns": """for (int k = 0; k < 3; k++) {
        if (i == 0) { n[0] = 1; while (n[0]) {} }
        if (i == 64) { while (!n[0]) {} n[0] = 0; } }""",
    "a value that is waited for": """if (threadIdx.x == 0) {
        int sum = 0; if (blockIdx.x) { while (!(sum = n[blockIdx.x - 1])) {} }
        n[blockIdx.x] = sum + 1 + blockIdx.x; o[blockIdx.x] = sum; }""",
    "rounds of two blocks": """for (int k = 1; k < 4; k++) {
        if (threadIdx.x == 0) { n[blockIdx.x] = k; while (n[1 - blockIdx.x] < k) {} }
        __syncthreads(); }""",
    "a word of each thread": "n[i] = i; n[i] = n[i] + 1; o[i] = n[i];",
    "a counter of atomics": "atomicAdd((int *)n, 1); n[1 + i] = i; o[i] = n[0];",
}


def launch(source: str, seed: int | None):
    """Launch the kernel ``k`` with zeros for all its arrays, under ``check()``."""
    count = source.split("k(")[1].split(")")[0].count("*")
    module = virtualgpu.Module.from_cuda(source)
    grid = 1 if "tile[" in source else 2
    arrays = [np.zeros(256, np.int32) for _ in range(count)]
    with virtualgpu.check() as report:
        if seed is None:
            module.launch("k", grid, 64, arrays)
        else:
            with virtualgpu.schedule(seed):
                module.launch("k", grid, 64, arrays)
    return report


def short(body: str) -> str:
    return f"""extern "C" __global__ void k(volatile int *n, int *o) {{
        int i = blockIdx.x * 64 + threadIdx.x;
        {body}
    }}"""


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", WITH_AND_WITHOUT)
def test_volatile_data_needs_the_order_that_it_lacks(name, seed):
    source, order = WITH_AND_WITHOUT[name]
    assert launch(source.replace("ORDER", order), seed).ok
    report = launch(source.replace("ORDER", ""), seed)
    assert "race" in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("name", FAULTS)
def test_volatile_updates_and_data_are_races(name, seed):
    report = launch(short(FAULTS[name]), seed)
    assert {finding.kind for finding in report.findings} == {"race"}
    assert "neither orders threads nor makes an update atomic" in report.findings[0].message


@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize("name", FLAGS)
def test_a_volatile_flag_is_no_race(name, seed):
    report = launch(short(FLAGS[name]), seed)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", [*FAULTS, *FLAGS])
def test_native_code_agrees_about_volatile(name, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    assert launch(short({**FAULTS, **FLAGS}[name]), None).ok == (name in FLAGS)
