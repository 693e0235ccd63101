"""Tiles for tensor cores, in the words of CUDA C++."""

import numpy as np

from labelled.catalog import cuda_case

A = (np.arange(512) % 23 - 11).astype(np.float16)
D = np.zeros(256, np.float32)
ARGUMENTS = [A, D]

BEGINS = r"""
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const half *a, float *d) {
  __shared__ alignas(32) half s[512];
  __shared__ alignas(32) float r[256];
  int t = threadIdx.x;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
  wmma::fill_fragment(z, 0.f);
"""


def _right(a, d):
    one, two = a.astype(np.float32).reshape(2, 16, 16)
    return bool((d.reshape(16, 16) == one @ two.T).all())


cuda_case(
    "tile_that_is_waited_for",
    "clean",
    BEGINS
    + r"""
  for (int i = t; i < 512; i += blockDim.x) s[i] = a[i];
  __syncthreads();
  wmma::load_matrix_sync(x, s, 16);
  wmma::load_matrix_sync(y, s + 256, 16);
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(r, z, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = t; i < 256; i += 32) d[i] = r[i];
}
""",
    ARGUMENTS,
    block=32,
    result=_right,
)

cuda_case(
    "tile_that_nobody_waits_for",
    "race",
    BEGINS
    + r"""
  for (int i = 0; i < 16; i++) s[16 * t + i] = a[16 * t + i];  // fault
  wmma::load_matrix_sync(x, s, 16);  // fault
  wmma::load_matrix_sync(y, a + 256, 16);
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(d, z, 16, wmma::mem_row_major);
}
""",
    ARGUMENTS,
    block=32,
)

cuda_case(
    "product_that_another_warp_overwrites",
    "race",
    BEGINS
    + r"""
  wmma::load_matrix_sync(x, a, 16);
  wmma::load_matrix_sync(y, a + 256, 16);
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(r, z, 16, wmma::mem_row_major);  // fault
  __syncthreads();
  for (int i = t; i < 256; i += 64) d[i] = r[i];
}
""",
    ARGUMENTS,
    block=64,
)

cuda_case(
    "tile_of_which_half_was_filled",
    "uninitialised",
    BEGINS
    + r"""
  for (int i = t; i < 256; i += 32) s[i] = a[i];
  __syncthreads();
  wmma::load_matrix_sync(x, s, 16);
  wmma::load_matrix_sync(y, s + 256, 16);  // fault
  wmma::mma_sync(z, x, y, z);
  wmma::store_matrix_sync(d, z, 16, wmma::mem_row_major);
}
""",
    ARGUMENTS,
    block=32,
)

cuda_case(
    "rows_for_ldmatrix_without_a_wait",
    "race",
    r"""
#include <cuda_fp16.h>
extern "C" __global__ void k(const half *a, float *d) {
  __shared__ alignas(16) half s[256];
  int t = threadIdx.x;
  unsigned p[4], row = (unsigned)__cvta_generic_to_shared(&s[8 * (t ^ 1)]);
  for (int i = 0; i < 8; i++) s[8 * t + i] = a[8 * t + i];  // fault
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // fault
               : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3]) : "r"(row) : "memory");
  d[t] = p[0] + p[1] + p[2] + p[3];
}
""",
    ARGUMENTS,
    block=32,
)
