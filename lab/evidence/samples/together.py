"""Threads that wait for and speak to each other."""

from __future__ import annotations

import numpy as np

from lab.evidence.samples.sample import Samples

SAMPLES = Samples()
RANDOM = np.random.default_rng(5)


@SAMPLES.add(
    "spin lock, a thread of each block",
    r"""
__device__ int lock;
extern "C" __global__ void add(int *total)
{
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {}
        __threadfence();
        *(volatile int *)total = *(volatile int *)total + blockIdx.x;
        __threadfence();
        atomicExch(&lock, 0);
    }
}""",
)
def _(k):
    total = np.zeros(1, np.int32)
    k.constant("lock", np.zeros(1, np.int32))
    k("add", 20, 32, total)
    yield total[0], sum(range(20))


@SAMPLES.add(
    "ticket lock, every thread",
    r"""
__device__ unsigned drawn, serving;
extern "C" __global__ void add(int *total)
{
    unsigned mine = atomicAdd(&drawn, 1u);
    bool done = false;
    while (!done) {
        if (atomicAdd(&serving, 0u) == mine) {
            __threadfence();
            *(volatile int *)total = *(volatile int *)total + 1;
            __threadfence();
            atomicAdd(&serving, 1u);
            done = true;
        }
    }
}""",
)
def _(k):
    total = np.zeros(1, np.int32)
    for name in ("drawn", "serving"):
        k.constant(name, np.zeros(1, np.uint32))
    k("add", 2, 40, total)
    yield total[0], 80


@SAMPLES.add(
    "atomics of a warp put together",
    r"""
extern "C" __global__ void count(const int *key, int *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned here = __ballot_sync(0xffffffff, i < n);
    if (i >= n) return;
    unsigned same = __match_any_sync(here, key[i]);
    if (threadIdx.x % 32 == __ffs(same) - 1) atomicAdd(&bins[key[i]], __popc(same));
}""",
)
def _(k):
    key, bins = RANDOM.integers(0, 8, 300, np.int32), np.zeros(8, np.int32)
    k("count", 3, 128, key, bins, 300)
    yield bins, np.bincount(key, minlength=8)


@SAMPLES.add(
    "votes of a warp",
    r"""
extern "C" __global__ void vote(const int *x, int *all, int *any, unsigned *who)
{
    int warp = blockIdx.x, v = x[warp * 32 + threadIdx.x];
    int a = __all_sync(0xffffffff, v > 2), b = __any_sync(0xffffffff, v > 2);
    unsigned c = __ballot_sync(0xffffffff, v > 2);
    if (threadIdx.x == 0) { all[warp] = a; any[warp] = b; who[warp] = c; }
}""",
)
def _(k):
    x = np.repeat(np.int32([0, 5, 2]), 32)
    x[70] = 9
    all_, any_, who = np.zeros(3, np.int32), np.zeros(3, np.int32), np.zeros(3, np.uint32)
    k("vote", 3, 32, x, all_, any_, who)
    true = x.reshape(3, 32) > 2
    yield all_, true.all(1)
    yield any_, true.any(1)
    yield who, (true.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(1)


@SAMPLES.add(
    "halves of a warp swap in two branches",
    r"""
extern "C" __global__ void swap(const int *x, int *y)
{
    int t = threadIdx.x, v = x[t];
    if (t < 16) v = 2 * __shfl_xor_sync(0xffffffff, v, 16);
    else v = 3 * __shfl_xor_sync(0xffffffff, v, 16);
    y[t] = v;
}""",
)
def _(k):
    x, y = RANDOM.integers(0, 99, 32, np.int32), np.zeros(32, np.int32)
    k("swap", 1, 32, x, y)
    yield y, x[np.arange(32) ^ 16] * np.where(np.arange(32) < 16, 2, 3)


@SAMPLES.add(
    "sum of a warp by one instruction",
    r"""
extern "C" __global__ void sum(const int *x, int *y)
{ y[threadIdx.x] = __reduce_add_sync(0xffffffff, x[threadIdx.x]); }""",
    options=("--gpu-architecture=compute_80",),
)
def _(k):
    x, y = RANDOM.integers(-9, 99, 32, np.int32), np.zeros(32, np.int32)
    k("sum", 1, 32, x, y)
    yield y, np.full(32, x.sum())


@SAMPLES.add(
    "cooperative groups: tiles",
    r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void sum(const int *x, int *y)
{
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    int total = cg::reduce(tile, v, cg::plus<int>());
    if (tile.thread_rank() == 0) y[i / 8] = total;
}""",
)
def _(k):
    x, y = RANDOM.integers(0, 99, 128, np.int32), np.zeros(16, np.int32)
    k("sum", 2, 64, x, y)
    yield y, x.reshape(16, 8).sum(1)


@SAMPLES.add(
    "cooperative groups: coalesced threads",
    r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void odd(int *rank, int *size)
{
    int t = threadIdx.x;
    if (t % 2) {
        auto group = cg::coalesced_threads();
        rank[t] = group.thread_rank();
        size[t] = group.size();
    }
}""",
)
def _(k):
    rank, size, t = np.zeros(32, np.int32), np.zeros(32, np.int32), np.arange(32)
    k("odd", 1, 32, rank, size)
    yield rank, np.where(t % 2, t // 2, 0)
    yield size, np.where(t % 2, 16, 0)


@SAMPLES.add(
    "asynchronous copies, two stages",
    r"""
#include <cuda_pipeline.h>
extern "C" __global__ void scale(const int *x, int *y, int rounds)
{
    __shared__ int tile[2][64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&tile[0][t], &x[t], 4);
    __pipeline_commit();
    for (int r = 0; r < rounds; r++) {
        if (r + 1 < rounds)
            __pipeline_memcpy_async(&tile[(r + 1) % 2][t], &x[(r + 1) * 64 + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        y[r * 64 + t] = 3 * tile[r % 2][63 - t];
        __syncthreads();
    }
}""",
)
def _(k):
    x, y = RANDOM.integers(0, 99, 320, np.int32), np.zeros(320, np.int32)
    k("scale", 1, 64, x, y, 5)
    yield y, 3 * x.reshape(5, 64)[:, ::-1].ravel()


@SAMPLES.add(
    "cuda::barrier in shared memory",
    r"""
#include <cuda/barrier>
extern "C" __global__ void reverse(int *x)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    s[t] = x[t];
    bar.arrive_and_wait();
    x[t] = s[63 - t];
}""",
)
def _(k):
    x = RANDOM.integers(0, 99, 64, np.int32)
    wanted = x[::-1].copy()
    k("reverse", 1, 64, x)
    yield x, wanted


@SAMPLES.add(
    "named barriers: producers and consumers",
    r"""
extern "C" __global__ void pass(const int *x, int *y)
{
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = 2 * x[t];
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        y[t - 32] = s[63 - t];
    }
}""",
)
def _(k):
    x, y = RANDOM.integers(0, 99, 32, np.int32), np.zeros(32, np.int32)
    k("pass", 1, 64, x, y)
    yield y, 2 * x[::-1]


@SAMPLES.add(
    "counting barriers",
    r"""
extern "C" __global__ void count(const int *x, int *y)
{
    int big = x[threadIdx.x] > 50;
    int many = __syncthreads_count(big), all = __syncthreads_and(big), any = __syncthreads_or(big);
    if (threadIdx.x == 0) { y[0] = many; y[1] = all != 0; y[2] = any != 0; }
}""",
)
def _(k):
    x, y = RANDOM.integers(0, 99, 100, np.int32), np.zeros(3, np.int32)
    k("count", 1, 100, x, y)
    yield y, [(x > 50).sum(), (x > 50).all(), (x > 50).any()]


@SAMPLES.add(
    "a queue of work for blocks that stay",
    r"""
__device__ int next_job;
extern "C" __global__ void work(const int *x, int *y, int jobs)
{
    __shared__ int job;
    while (true) {
        if (threadIdx.x == 0) job = atomicAdd(&next_job, 1);
        __syncthreads();
        int mine = job;
        __syncthreads();
        if (mine >= jobs) break;
        y[mine * 32 + threadIdx.x] = x[mine * 32 + threadIdx.x] + mine;
    }
}""",
)
def _(k):
    x, y = RANDOM.integers(0, 99, 320, np.int32), np.zeros(320, np.int32)
    k.constant("next_job", np.zeros(1, np.int32))
    k("work", 3, 32, x, y, 10)
    yield y, x + np.repeat(np.arange(10), 32)
