"""Tensor cores as CUDA C++ uses them, by mma.h and by inline PTX: right within half precision's
bounds, in lockstep and in random order, and clean under check()."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import virtualgpu
from virtualgpu.compilers.nvrtc import compile_to_ptx
from virtualgpu.cuda.module import Module

# A tile of C for each warp, tiles of A and B by way of shared memory; n is a multiple of 32.
PRODUCT = r"""
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void product(const half *a, const half *b, float *c, int n) {
  __shared__ alignas(32) half at[32][24], bt[16][40];  // 8 more elements a row: other banks
  int warp = threadIdx.x / 32, row = blockIdx.y * 32, column = blockIdx.x * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.f);
  for (int k = 0; k < n; k += 16) {
    for (int i = threadIdx.x; i < 512; i += blockDim.x) {
      at[i / 16][i % 16] = a[(row + i / 16) * n + k + i % 16];
      bt[i / 32][i % 32] = b[(k + i / 32) * n + column + i % 32];
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::load_matrix_sync(x, &at[warp / 2 * 16][0], 24);
    wmma::load_matrix_sync(y, &bt[0][warp % 2 * 16], 40);
    wmma::mma_sync(sum, x, y, sum);
    __syncthreads();
  }
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] *= 2;
  wmma::store_matrix_sync(c + (row + warp / 2 * 16) * n + column + warp % 2 * 16, sum, n,
                          wmma::mem_row_major);
}"""

# The same product of one warp, as libraries write it: ldmatrix, then mma.
BY_HAND = r"""
#include <cuda_fp16.h>
extern "C" __global__ void product(const half *a, const half *b, float *c) {
  __shared__ alignas(16) half at[16][16], bt[16][8];
  int t = threadIdx.x;
  for (int i = t; i < 256; i += 32) at[i / 16][i % 16] = a[i];
  for (int i = t; i < 128; i += 32) bt[i / 8][i % 8] = b[i];
  __syncwarp();
  unsigned x[4], y[2];
  float d[4] = {0, 0, 0, 0};
  unsigned from = __cvta_generic_to_shared(&at[t % 16][t / 16 * 8]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(from));
  from = __cvta_generic_to_shared(&bt[t % 16][0]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(y[0]), "=r"(y[1]) : "r"(from));
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
               "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; i++) c[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i];
}"""


def halves(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def close(found: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Within the bound of a float32 sum of exact products, one rounding a step."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = a.shape[1] * 2.0**-24 * (abs(a.astype(np.float64)) @ abs(b.astype(np.float64)))
    return bool((abs(found - exact) <= bound).all())


@pytest.mark.parametrize("seed", [None, 3])
def test_a_kernel_multiplies_tiles(seed):
    n = 64
    a, b = halves(1, n, n), halves(2, n, n)
    c = np.full((n, n), np.nan, np.float32)
    module = Module.from_cuda(PRODUCT)
    with nullcontext() if seed is None else virtualgpu.schedule(seed), virtualgpu.check() as report:
        module.launch("product", (2, 2), 128, [a, b, c, np.int32(n)])
    assert report.ok, str(report)
    assert close(c / 2, a, b)
    np.testing.assert_allclose(c / 2, a.astype(np.float32) @ b.astype(np.float32), atol=1e-4)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_86", "sm_90"])
def test_rows_and_products_by_inline_ptx(architecture):
    ptx, _ = compile_to_ptx(BY_HAND, options=(f"-arch={architecture}",))
    a, b, c = halves(3, 16, 16), halves(4, 16, 8), np.zeros((16, 8), np.float32)
    with virtualgpu.check() as report:
        Module.from_ptx(ptx).launch("product", 1, 32, [a, b, c])
    assert report.ok, str(report)
    assert close(c, a, b)


# Element types of mma.h, and what it calls their fragments.
FRAGMENTS = {
    "bf16": ("__nv_bfloat16", "__nv_bfloat16", "float", (16, 16, 16), "x.x[i]"),
    "tf32": (
        "wmma::precision::tf32",
        "float",
        "float",
        (16, 16, 8),
        "wmma::__float_to_tf32(x.x[i])",
    ),
    "f64": ("double", "double", "double", (8, 8, 4), "x.x[i]"),
    "s8": ("signed char", "signed char", "int", (32, 8, 16), "x.x[i]"),
    "u8": ("unsigned char", "unsigned char", "int", (8, 32, 16), "x.x[i]"),
    "f16": ("half", "half", "half", (8, 32, 16), "x.x[i]"),
}


@pytest.mark.parametrize("type_", FRAGMENTS)
def test_what_the_header_makes_of_each_type(type_):
    element, held, total, (m, n, k), prepared = FRAGMENTS[type_]
    module = Module.from_cuda(f"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const {held} *a, const {held} *b, {total} *c) {{
  wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {element}, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {element}, wmma::row_major> y;
  wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {total}> z;
  wmma::load_matrix_sync(x, a, {k});
  wmma::load_matrix_sync(y, b, {n});
  wmma::load_matrix_sync(z, c, {n}, wmma::mem_row_major);
  for (int i = 0; i < x.num_elements; i++) x.x[i] = {prepared};
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(c, z, {n}, wmma::mem_row_major);
}}""")
    # Small integers: all sums are exact, in each type.
    chance = np.random.default_rng(len(type_))
    low = 0 if type_ == "u8" else -9
    a, b, c = (chance.integers(low, 10, size) for size in ((m, k), (k, n), (m, n)))
    bits = {"tf32": "f4", "f64": "f8", "s8": "i1", "u8": "u1", "f16": "f2"}
    if type_ == "bf16":
        given = [(one.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for one in (a, b)]
    else:
        given = [one.astype(bits[type_]) for one in (a, b)]
    out = c.astype({"float": "f4", "double": "f8", "int": "i4", "half": "f2"}[total])
    with virtualgpu.check() as report:
        module.launch("k", 1, 32, [*given, out])
    assert report.ok, str(report)
    np.testing.assert_array_equal(out, a @ b + c)
