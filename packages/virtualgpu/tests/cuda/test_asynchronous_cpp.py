"""Asynchronous copies and barriers as CUDA C++ writes them: compiled for each architecture that has
them, right in lockstep and in random order, and clean under check()."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest

import virtualgpu
from virtualgpu.compilers.nvrtc import compile_to_ptx
from virtualgpu.cuda.module import Module

HEADERS = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
"""
X = np.arange(128 * 5, dtype=np.int32)
MIRRORED = X.reshape(5, 128)[:, ::-1]

KERNELS = {
    "cg::memcpy_async": (
        "group_copies",
        r"""
extern "C" __global__ void group_copies(const int *x, int *y, int n) {
  __shared__ int s[2][128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s[0], x, sizeof(int) * 128);
  cg::memcpy_async(block, s[1], x + 128, sizeof(int) * 128);
  cg::wait_prior<1>(block);
  int first = s[0][127 - threadIdx.x];
  cg::wait(block);
  y[threadIdx.x] = first + s[1][127 - threadIdx.x];
}""",
        MIRRORED[:2].sum(0),
        128,
    ),
    "cuda::pipeline of the block": (
        "one_pipeline",
        r"""
extern "C" __global__ void one_pipeline(const int *x, int *y, int n) {
  __shared__ int s[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int read = 0, fetched = 0; read < n; read++) {
    for (; fetched < n && fetched < read + 2; fetched++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[fetched % 2], x + fetched * 128, sizeof(int) * 128, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += s[read % 2][127 - threadIdx.x];
    pipe.consumer_release();
  }
  y[threadIdx.x] = sum;
}""",
        MIRRORED.sum(0),
        128,
    ),
    "cuda::pipeline of producers and consumers": (
        "two_roles",
        r"""
extern "C" __global__ void two_roles(const int *x, int *y, int n) {
  __shared__ int s[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  int t = threadIdx.x, sum = 0;
  auto role = t < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  for (int step = 0; step < n; step++) {
    if (t < 32) {
      pipe.producer_acquire();
      for (int i = t; i < 128; i += 32)
        cuda::memcpy_async(&s[step % 2][i], x + step * 128 + i, sizeof(int), pipe);
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      sum += s[step % 2][159 - t];
      pipe.consumer_release();
    }
  }
  if (t >= 32) y[t - 32] = sum;
}""",
        MIRRORED.sum(0),
        160,
    ),
    "cuda::memcpy_async to a barrier": (
        "barriers",
        r"""
extern "C" __global__ void barriers(const int4 *x, int4 *y, int n) {
  // 16 bytes: in bulk from 9.0 on
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  __shared__ alignas(16) int4 s[32];
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  for (int step = 0; step < n; step++) {
    cuda::memcpy_async(block, s, x + step * 32, cuda::aligned_size_t<16>(sizeof s), barrier);
    barrier.arrive_and_wait();
    int4 mine = s[31 - threadIdx.x];
    auto &sum = y[threadIdx.x];
    sum.x += mine.x; sum.y += mine.y; sum.z += mine.z; sum.w += mine.w;
    barrier.arrive_and_wait();
  }
}""",
        X.reshape(5, 32, 4)[:, ::-1].sum(0).ravel(),
        32,
    ),
}


@cache
def ptx_of_all(architecture: str) -> str:
    """NVRTC reads the headers for seconds: once for all kernels."""
    source = HEADERS + "".join(source for _, source, _, _ in KERNELS.values())
    return compile_to_ptx(source, options=(f"-arch={architecture}",))[0]


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize(
    "architecture", ["sm_90", pytest.param("sm_80", marks=pytest.mark.rehearsal)]
)
@pytest.mark.parametrize("name", KERNELS)
def test_what_the_headers_write_is_right_and_clean(name, architecture, seed):
    entry, _, expected, threads = KERNELS[name]
    y = np.zeros(128, np.int32)
    ptx = ptx_of_all(architecture)
    assert f".target {architecture}" in ptx
    assert "cp.async" in ptx.split(f".entry {entry}(")[1].split(".entry")[0]
    with nullcontext() if seed is None else virtualgpu.schedule(seed), virtualgpu.check() as report:
        Module.from_ptx(ptx).launch(entry, 1, threads, [X, y, 5])
    np.testing.assert_array_equal(y, expected)
    assert report.ok, str(report)


def test_a_fault_in_a_header_names_the_line_that_calls_it():
    module = Module.from_cuda(r"""#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int *x, int *y) {
  __shared__ int s[128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, x, sizeof(int) * 128);
  y[threadIdx.x] = s[threadIdx.x];
  cg::wait(block);
}""")
    with virtualgpu.check() as report:
        module.launch("k", 1, 128, [X, np.zeros(128, np.int32)])
    race = report.of_kind("race")[0]
    assert (race.line, race.other.line) == (7, 6)
    assert "before cp.async delivered it" in race.message
