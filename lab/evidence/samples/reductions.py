"""Sums and what is made like sums: seven steps of a tree, dots, norms, softmax, atomics."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(2)
BLOCK = 128

TREE = r"""
extern "C" __global__ void sum(const int *in, int *out, int n)
{{
    __shared__ int s[128];
    int t = threadIdx.x, i = blockIdx.x * {span} + t;
    s[t] = {load};
    __syncthreads();
    {loop}
    if (t == 0) out[blockIdx.x] = s[0];
}}"""
ONE = "i < n ? in[i] : 0"
TWO = "(i < n ? in[i] : 0) + (i + 128 < n ? in[i + 128] : 0)"
HALVES = "for (int k = 64; k > {to}; k /= 2) {{ if (t < k) s[t] += s[t + k]; __syncthreads(); }}"
WARP = "if (t < 32) {{ int v = s[t] + s[t + 32]; {steps} if (t == 0) s[0] = v; }} __syncthreads();"
SHUFFLES = "for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);"
UNROLLED = " ".join(f"v += __shfl_down_sync(0xffffffff, v, {k});" for k in (16, 8, 4, 2, 1))
STEPS = {
    "reduction 0: interleaved, divergent": (
        ONE,
        128,
        "for (int k = 1; k < 128; k *= 2) { if (t % (2 * k) == 0) s[t] += s[t + k];"
        " __syncthreads(); }",
    ),
    "reduction 1: interleaved, bank conflicts": (
        ONE,
        128,
        "for (int k = 1; k < 128; k *= 2) { int j = 2 * k * t; if (j < 128) s[j] += s[j + k];"
        " __syncthreads(); }",
    ),
    "reduction 2: sequential addresses": (ONE, 128, HALVES.format(to=0)),
    "reduction 3: first sum while loading": (TWO, 256, HALVES.format(to=0)),
    "reduction 4: the last warp by shuffles": (
        TWO,
        256,
        HALVES.format(to=32) + WARP.format(steps=SHUFFLES),
    ),
    "reduction 5: unrolled": (
        TWO,
        256,
        "if (t < 64) s[t] += s[t + 64]; __syncthreads();" + WARP.format(steps=UNROLLED),
    ),
}


def reduce(k):
    x = RANDOM.integers(-99, 99, 3000, np.int32)
    out = np.zeros(-(-3000 // k.span), np.int32)
    k("sum", len(out), BLOCK, x, out, 3000)
    yield out.sum(), x.sum()
    yield out[0], x[: k.span].sum()


def _steps() -> None:
    for name, (load, span, loop) in STEPS.items():

        def check(k, span=span):
            k.span = span
            return reduce(k)

        SAMPLES.add(name, TREE.format(load=load, span=span, loop=loop))(check)


_steps()


@SAMPLES.add(
    "reduction 6: many elements a thread",
    r"""
template <int size> __global__ void sum(const int *in, int *out, int n)
{
    __shared__ int s[size];
    int t = threadIdx.x, v = 0;
    for (int i = blockIdx.x * size + t; i < n; i += gridDim.x * size) v += in[i];
    s[t] = v;
    __syncthreads();
    #pragma unroll
    for (int k = size / 2; k; k /= 2) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t == 0) out[blockIdx.x] = s[0];
}""",
    names=("sum<64>", "sum<256>"),
)
def _(k):
    x = RANDOM.integers(-99, 99, 9000, np.int32)
    for size in (64, 256):
        out = np.zeros(3, np.int32)
        k(f"sum<{size}>", 3, size, x, out, 9000)
        yield out.sum(), x.sum()


@SAMPLES.add(
    "sum by atomics",
    r"""
extern "C" __global__ void sum(const int *x, int *total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}""",
)
def _(k):
    x, total = RANDOM.integers(-99, 99, 700, np.int32), np.zeros(1, np.int32)
    k("sum", 6, 128, x, total, 700)
    yield total[0], x.sum()


@SAMPLES.add(
    "dot product",
    r"""
extern "C" __global__ void dot(const float *a, const float *b, float *total, int n)
{
    __shared__ float s[128];
    float v = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += a[i] * b[i];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 64; k; k /= 2) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, s[0]);
}""",
)
def _(k):
    a, b = (RANDOM.normal(0, 1, 2000).astype(np.float32) for _ in range(2))
    total = np.zeros(1, np.float32)
    k("dot", 4, 128, a, b, total, 2000)
    yield total[0], a @ b


@SAMPLES.add(
    "threadfence reduction",
    r"""
__device__ unsigned arrived;
extern "C" __global__ void sum(const int *x, volatile int *parts, int *total, int n)
{
    __shared__ int s[64];
    __shared__ bool last;
    int t = threadIdx.x, v = 0;
    for (int i = blockIdx.x * 64 + t; i < n; i += gridDim.x * 64) v += x[i];
    s[t] = v;
    __syncthreads();
    for (int k = 32; k; k /= 2) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    if (t == 0) {
        parts[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        __threadfence();
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += parts[i];
        *total = sum;
    }
}""",
)
def _(k):
    x = RANDOM.integers(-99, 99, 1000, np.int32)
    k.constant("arrived", np.zeros(1, np.uint32))
    for _ in range(2):
        parts, total = np.zeros(5, np.int32), np.zeros(1, np.int32)
        k("sum", 5, 64, x, parts, total, 1000)
        yield total[0], x.sum()


@SAMPLES.add(
    "maximum of floats by compare and swap",
    r"""
extern "C" __global__ void most(const float *x, float *result, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    int *word = (int *)result, seen = atomicAdd(word, 0);
    while (__int_as_float(seen) < v) {
        int before = atomicCAS(word, seen, __float_as_int(v));
        if (before == seen) break;
        seen = before;
    }
}""",
)
def _(k):
    x, most = RANDOM.normal(0, 1, 500).astype(np.float32), np.full(1, -9, np.float32)
    k("most", 4, 128, x, most, 500)
    yield most[0], x.max()


@SAMPLES.add(
    "place of the maximum",
    r"""
extern "C" __global__ void argmax(const float *x, int *where, int n)
{
    __shared__ float value[64];
    __shared__ int place[64];
    int t = threadIdx.x, best = t;
    for (int i = t; i < n; i += 64) if (x[i] > x[best]) best = i;
    value[t] = x[best];
    place[t] = best;
    __syncthreads();
    for (int k = 32; k; k /= 2) {
        if (t < k && (value[t + k] > value[t]
                      || (value[t + k] == value[t] && place[t + k] < place[t]))) {
            value[t] = value[t + k];
            place[t] = place[t + k];
        }
        __syncthreads();
    }
    if (t == 0) *where = place[0];
}""",
)
def _(k):
    x, where = RANDOM.normal(0, 1, 999).astype(np.float32), np.zeros(1, np.int32)
    k("argmax", 1, 64, x, where, 999)
    yield where[0], x.argmax()


ROW = r"""
__device__ float sum_of_warp(float v)
{ for (int k = 16; k; k /= 2) v += __shfl_xor_sync(0xffffffff, v, k); return v; }
__device__ float max_of_warp(float v)
{ for (int k = 16; k; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, k)); return v; }
"""


@SAMPLES.add(
    "softmax of rows, a warp each",
    ROW
    + r"""
extern "C" __global__ void softmax(const float *x, float *y, int columns)
{
    const float *row = x + blockIdx.x * columns;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32) most = fmaxf(most, row[i]);
    most = max_of_warp(most);
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(row[i] - most);
    sum = sum_of_warp(sum);
    for (int i = threadIdx.x; i < columns; i += 32)
        y[blockIdx.x * columns + i] = expf(row[i] - most) / sum;
}""",
)
def _(k):
    x = RANDOM.normal(0, 3, (7, 100)).astype(np.float32)
    y = np.zeros_like(x)
    k("softmax", 7, 32, x, y, 100)
    e = np.exp(x - x.max(1, keepdims=True))
    yield y, e / e.sum(1, keepdims=True)


@SAMPLES.add(
    "softmax in one pass",
    ROW
    + r"""
extern "C" __global__ void softmax(const float *x, float *y, int columns)
{
    const float *row = x + blockIdx.x * columns;
    float most = __int_as_float(0xff800000), sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32) {
        float now = fmaxf(most, row[i]);
        sum = sum * expf(most - now) + expf(row[i] - now);
        most = now;
    }
    float all = max_of_warp(most);
    sum = sum_of_warp(sum * expf(most - all));
    for (int i = threadIdx.x; i < columns; i += 32)
        y[blockIdx.x * columns + i] = expf(row[i] - all) / sum;
}""",
)
def _(k):
    x = RANDOM.normal(0, 3, (5, 77)).astype(np.float32)
    y = np.zeros_like(x)
    k("softmax", 5, 32, x, y, 77)
    e = np.exp(x - x.max(1, keepdims=True))
    yield y, e / e.sum(1, keepdims=True)


@SAMPLES.add(
    "layer normalisation",
    ROW
    + r"""
extern "C" __global__ void normalise(const float *x, const float *scale, float *y, int columns)
{
    const float *row = x + blockIdx.x * columns;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < columns; i += 32) sum += row[i];
    float mean = sum_of_warp(sum) / columns;
    for (int i = threadIdx.x; i < columns; i += 32) squares += (row[i] - mean) * (row[i] - mean);
    float turn = rsqrtf(sum_of_warp(squares) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += 32)
        y[blockIdx.x * columns + i] = (row[i] - mean) * turn * scale[i];
}""",
)
def _(k):
    x, scale = (
        RANDOM.normal(1, 3, (6, 90)).astype(np.float32),
        np.linspace(0, 1, 90, dtype=np.float32),
    )
    y = np.zeros_like(x)
    k("normalise", 6, 32, x, scale, y, 90)
    yield y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * scale
