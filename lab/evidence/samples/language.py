"""The language's own means, and what is refused."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples
from virtualgpu.errors import TrapError

SAMPLES = Samples()
RANDOM = np.random.default_rng(8)
AT = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def reversed_(k):
    x = RANDOM.integers(0, 99, 100, np.int32)
    wanted = x[::-1].copy()
    k("reverse", 1, 100, x, 100, shared=k.shared)
    yield x, wanted


@SAMPLES.add(
    "static shared memory",
    r"""
extern "C" __global__ void reverse(int *x, int n)
{
    __shared__ int s[100];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[n - 1 - threadIdx.x];
}""",
)
def _(k):
    k.shared = 0
    return reversed_(k)


@SAMPLES.add(
    "dynamic shared memory, two arrays in it",
    r"""
extern "C" __global__ void reverse(int *x, int n)
{
    extern __shared__ int s[];
    int *same = s, *turned = s + n;
    same[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    turned[n - 1 - threadIdx.x] = same[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = turned[threadIdx.x];
}""",
)
def _(k):
    k.shared = 800
    return reversed_(k)


@SAMPLES.add(
    "templates",
    f"""
template <typename T, int times> __global__ void scale(T *x, int n)
{{ {AT} if (i < n) x[i] *= times; }}""",
    names=("scale<float, 3>", "scale<long long, 5>"),
)
def _(k):
    for name, dtype, times in (("float, 3", np.float32, 3), ("long long, 5", np.int64, 5)):
        x = np.arange(70).astype(dtype)
        k(f"scale<{name}>", 1, 128, x, 70)
        yield x, np.arange(70) * times


@SAMPLES.add(
    "function pointers",
    f"""
typedef float (*Function)(float);
__device__ float twice(float x) {{ return 2 * x; }}
__device__ float square(float x) {{ return x * x; }}
__device__ Function table[2] = {{twice, square}};
extern "C" __global__ void apply(float *x, int n)
{{ {AT} if (i < n) x[i] = table[i % 2](x[i]); }}""",
)
def _(k):
    x = np.arange(40, dtype=np.float32)
    k("apply", 1, 64, x, 40)
    i = np.arange(40)
    yield x, np.where(i % 2, i * i, 2 * i)


@SAMPLES.add(
    "recursion",
    r"""
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void all(int *out) { out[threadIdx.x] = fibonacci(threadIdx.x); }""",
)
def _(k):
    out, wanted = np.zeros(10, np.int32), [0, 1]
    k("all", 1, 10, out)
    while len(wanted) < 10:
        wanted.append(wanted[-1] + wanted[-2])
    yield out, wanted


@SAMPLES.add(
    "printf",
    r"""
extern "C" __global__ void hello(float x)
{ printf("thread %d of block %d: %.2f %s\n", threadIdx.x, blockIdx.x, x, "ok"); }""",
)
def _(k):
    k("hello", 2, 2, 1.5)
    yield (
        "".join(sorted(k.printed.splitlines(True))),
        "".join(sorted(f"thread {t} of block {b}: 1.50 ok\n" for b in range(2) for t in range(2))),
    )


@SAMPLES.add(
    "assert that holds",
    r"""
extern "C" __global__ void positive(const int *x, int *y)
{ assert(x[threadIdx.x] > 0); y[threadIdx.x] = x[threadIdx.x]; }""",
)
def _(k):
    x, y = np.arange(1, 33, dtype=np.int32), np.zeros(32, np.int32)
    k("positive", 1, 32, x, y)
    yield y, x


@SAMPLES.add(
    "assert that fails",
    r"""
extern "C" __global__ void positive(const int *x) { assert(x[threadIdx.x] > 0); }""",
    told="assertion `x[threadIdx.x] > 0` failed\n  at kernel positive",
)
def _(k):
    try:
        k("positive", 1, 32, np.arange(32, dtype=np.int32))
    except TrapError as error:
        yield str(error.location.thread), "0"


@SAMPLES.add(
    "mipmaps",
    r"""
extern "C" __global__ void look(cudaTextureObject_t t, float *out)
{ out[threadIdx.x] = tex2DLod<float>(t, threadIdx.x, 0, 1); }""",
    refused="no mipmaps, cubes, gathers or queries",
)
def _(k):
    k("look", 1, 32, np.uint64(1), np.zeros(32, np.float32))
    return ()


@SAMPLES.add(
    "dynamic parallelism",
    r"""
__global__ void child(int *x) { x[threadIdx.x] = threadIdx.x; }
extern "C" __global__ void parent(int *x) { child<<<1, 32>>>(x); }""",
    refused="dynamic parallelism, a kernel that launches kernels, is not modelled",
)
def _(k):
    k("parent", 1, 1, np.zeros(32, np.int32))
    return ()
