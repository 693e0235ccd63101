"""Running sums, histograms and compaction."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(3)


def integers(n: int, most: int = 50) -> np.ndarray:
    return RANDOM.integers(0, most, n, np.int32)


@SAMPLES.add(
    "scan by Hillis and Steele",
    r"""
extern "C" __global__ void scan(int *x)
{
    __shared__ int s[2][128];
    int t = threadIdx.x, now = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int k = 1; k < 128; k *= 2, now = 1 - now) {
        s[1 - now][t] = s[now][t] + (t >= k ? s[now][t - k] : 0);
        __syncthreads();
    }
    x[t] = s[now][t];
}""",
)
def _(k):
    x = integers(128)
    wanted = x.cumsum()
    k("scan", 1, 128, x)
    yield x, wanted


@SAMPLES.add(
    "scan by Blelloch",
    r"""
extern "C" __global__ void scan(int *x)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    int step = 1;
    for (int d = 128; d; d /= 2, step *= 2) {
        __syncthreads();
        if (t < d) s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
    }
    if (t == 0) s[255] = 0;
    for (int d = 1; d < 256; d *= 2) {
        step /= 2;
        __syncthreads();
        if (t < d) {
            int a = step * (2 * t + 1) - 1, b = step * (2 * t + 2) - 1, v = s[a];
            s[a] = s[b];
            s[b] += v;
        }
    }
    __syncthreads();
    x[2 * t] = s[2 * t];
    x[2 * t + 1] = s[2 * t + 1];
}""",
)
def _(k):
    x = integers(256)
    wanted = x.cumsum() - x
    k("scan", 1, 128, x)
    yield x, wanted


@SAMPLES.add(
    "scan of a warp by shuffles",
    r"""
extern "C" __global__ void scan(int *x)
{
    int i = blockIdx.x * 32 + threadIdx.x, v = x[i];
    for (int k = 1; k < 32; k *= 2) {
        int other = __shfl_up_sync(0xffffffff, v, k);
        if (threadIdx.x >= k) v += other;
    }
    x[i] = v;
}""",
)
def _(k):
    x = integers(96)
    wanted = x.reshape(3, 32).cumsum(1).ravel()
    k("scan", 3, 32, x)
    yield x, wanted


BLOCKS = r"""
extern "C" __global__ void scan(int *x, int *sums, int n)
{
    __shared__ int s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int k = 1; k < 64; k *= 2) {
        int v = t >= k ? s[t - k] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    if (i < n) x[i] = s[t];
    if (t == 63) sums[blockIdx.x] = s[63];
}
extern "C" __global__ void add(int *x, const int *sums, int n)
{
    int i = blockIdx.x * 64 + threadIdx.x;
    if (blockIdx.x > 0 && i < n) x[i] += sums[blockIdx.x - 1];
}"""


@SAMPLES.add("scan of many blocks in three launches", BLOCKS)
def _(k):
    x, sums, total = integers(2000), np.zeros(32, np.int32), np.zeros(1, np.int32)
    wanted = x.cumsum()
    k("scan", 32, 64, x, sums, 2000)
    k("scan", 1, 64, sums, total, 32)
    k("add", 32, 64, x, sums, 2000)
    yield x, wanted
    yield total[0], wanted[-1]


@SAMPLES.add(
    "scan with look-back",
    r"""
__device__ unsigned ticket;
extern "C" __global__ void scan(const int *x, int *y, int *sums, int *state, int n)
{
    __shared__ int s[64], before, block;
    int t = threadIdx.x;
    if (t == 0) block = atomicAdd(&ticket, 1);
    __syncthreads();
    int i = block * 64 + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int k = 1; k < 64; k *= 2) {
        int v = t >= k ? s[t - k] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    if (t == 0) {
        int sum = 0;
        if (block > 0) {
            while (atomicAdd(&state[block - 1], 0) == 0) {}
            __threadfence();
            sum = ((volatile int *)sums)[block - 1];
        }
        before = sum;
        ((volatile int *)sums)[block] = sum + s[63];
        __threadfence();
        atomicExch(&state[block], 1);
    }
    __syncthreads();
    if (i < n) y[i] = before + s[t];
}""",
)
def _(k):
    x, y = integers(700), np.zeros(700, np.int32)
    k.constant("ticket", np.zeros(1, np.uint32))
    k("scan", 11, 64, x, y, np.zeros(11, np.int32), np.zeros(11, np.int32), 700)
    yield y, x.cumsum()


@SAMPLES.add(
    "histogram of 64 bins, one of each block",
    r"""
extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n)
{
    __shared__ unsigned own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[x[i] >> 2], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}""",
)
def _(k):
    x, bins = RANDOM.integers(0, 256, 3000, np.uint8), np.zeros(64, np.uint32)
    k("histogram", 5, 128, x, bins, 3000)
    yield bins, np.bincount(x >> 2, minlength=64)


@SAMPLES.add(
    "histogram of 256 bins, one of each warp",
    r"""
extern "C" __global__ void histogram(const unsigned char *x, unsigned *parts, int n)
{
    __shared__ unsigned own[4][256];
    unsigned *mine = own[threadIdx.x / 32];
    for (int i = threadIdx.x; i < 1024; i += 128) own[0][i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += 128)
        parts[blockIdx.x * 256 + bin] = own[0][bin] + own[1][bin] + own[2][bin] + own[3][bin];
}
extern "C" __global__ void merge(const unsigned *parts, unsigned *bins, int count)
{
    unsigned sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i * 256 + threadIdx.x];
    bins[threadIdx.x] = sum;
}""",
)
def _(k):
    x = RANDOM.integers(0, 256, 3000, np.uint8)
    parts, bins = np.zeros((3, 256), np.uint32), np.zeros(256, np.uint32)
    k("histogram", 3, 128, x, parts, 3000)
    k("merge", 1, 256, parts, bins, 3)
    yield bins, np.bincount(x, minlength=256)


@SAMPLES.add(
    "compaction by a scan",
    BLOCKS
    + r"""
extern "C" __global__ void flags(const int *x, int *keep, int n)
{ int i = blockIdx.x * 64 + threadIdx.x; if (i < n) keep[i] = x[i] % 3 == 0; }
extern "C" __global__ void compact(const int *x, const int *place, int *out, int n)
{ int i = blockIdx.x * 64 + threadIdx.x; if (i < n && x[i] % 3 == 0) out[place[i] - 1] = x[i]; }
""",
)
def _(k):
    x, keep, sums = integers(640, 1000), np.zeros(640, np.int32), np.zeros(10, np.int32)
    out, total = np.full(640, -1, np.int32), np.zeros(1, np.int32)
    k("flags", 10, 64, x, keep, 640)
    k("scan", 10, 64, keep, sums, 640)
    k("scan", 1, 64, sums, total, 10)
    k("add", 10, 64, keep, sums, 640)
    k("compact", 10, 64, x, keep, out, 640)
    yield out[: keep[-1]], x[x % 3 == 0]


@SAMPLES.add(
    "compaction by atomics of a warp",
    r"""
extern "C" __global__ void filter(const int *x, int *out, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && x[i] > 25;
    unsigned who = __ballot_sync(0xffffffff, keep);
    int lane = threadIdx.x % 32, first = 0;
    if (lane == 0) first = atomicAdd(count, __popc(who));
    first = __shfl_sync(0xffffffff, first, 0);
    if (keep) out[first + __popc(who & ((1u << lane) - 1))] = x[i];
}""",
)
def _(k):
    x, out, count = integers(500), np.zeros(500, np.int32), np.zeros(1, np.int32)
    k("filter", 4, 128, x, out, count, 500)
    yield np.sort(out[: count[0]]), np.sort(x[x > 25])
