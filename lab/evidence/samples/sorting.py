"""Sorting and merging."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(6)


def integers(n: int, most: int = 50) -> np.ndarray:
    return RANDOM.integers(0, most, n, np.int32)


@SAMPLES.add(
    "bitonic sort",
    r"""
extern "C" __global__ void sort(int *x)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int size = 2; size <= 256; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            int other = t ^ step;
            if (other > t && (s[t] > s[other]) == ((t & size) == 0)) {
                int v = s[t];
                s[t] = s[other];
                s[other] = v;
            }
            __syncthreads();
        }
    x[t] = s[t];
}""",
)
def _(k):
    x = integers(256, 9999)
    wanted = np.sort(x)
    k("sort", 1, 256, x)
    yield x, wanted


@SAMPLES.add(
    "odd-even sort",
    r"""
extern "C" __global__ void sort(int *x, int n)
{
    for (int round = 0; round < n; round++) {
        int i = 2 * threadIdx.x + round % 2;
        if (i + 1 < n && x[i] > x[i + 1]) { int v = x[i]; x[i] = x[i + 1]; x[i + 1] = v; }
        __syncthreads();
    }
}""",
)
def _(k):
    x = integers(99, 999)
    wanted = np.sort(x)
    k("sort", 1, 64, x, 99)
    yield x, wanted


@SAMPLES.add(
    "radix sort, one bit a pass",
    r"""
extern "C" __global__ void sort(unsigned *x)
{
    __shared__ unsigned ones[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    for (int bit = 0; bit < 16; bit++) {
        unsigned v = x[t], who = __ballot_sync(0xffffffff, v >> bit & 1);
        if (lane == 0) ones[warp] = __popc(who);
        __syncthreads();
        int before = __popc(who & ((1u << lane) - 1)), all = 0;
        for (int w = 0; w < 4; w++) { if (w < warp) before += ones[w]; all += ones[w]; }
        int place = v >> bit & 1 ? 128 - all + before : t - before;
        x[place] = v;
        __syncthreads();
    }
}""",
)
def _(k):
    x = RANDOM.integers(0, 2**16, 128, np.uint32)
    wanted = np.sort(x)
    k("sort", 1, 128, x)
    yield x, wanted


@SAMPLES.add(
    "merge of two sorted arrays by ranks",
    r"""
__device__ int rank(const int *x, int n, int v, bool behind)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (x[middle] < v || (behind && x[middle] == v)) low = middle + 1; else high = middle;
    }
    return low;
}
extern "C" __global__ void merge(const int *a, const int *b, int *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { c[i + rank(b, n, a[i], false)] = a[i]; c[i + rank(a, n, b[i], true)] = b[i]; }
}""",
)
def _(k):
    a, b, c = np.sort(integers(300)), np.sort(integers(300)), np.zeros(600, np.int32)
    k("merge", 3, 128, a, b, c, 300)
    yield c, np.sort(np.concatenate([a, b]))
