"""What Numba cannot say: barriers with numbers and counts, scopes, volatile, odd addresses."""

import numpy as np

from labelled.catalog import cuda_case

OUT = np.zeros(128, np.int32)

cuda_case(
    "named_barriers_between_warps",
    "clean",
    r"""
extern "C" __global__ void k(int *out) {
  __shared__ int buffer[64];
  int t = threadIdx.x;
  for (int step = 0; step < 4; step++) {
    if (t < 64) {  // two warps produce
      if (step) asm volatile("barrier.sync 2, 128;" ::: "memory");
      buffer[t] = t + step;
      asm volatile("barrier.arrive 1, 128;" ::: "memory");
    } else {  // two warps consume
      asm volatile("barrier.sync 1, 128;" ::: "memory");
      out[t] += buffer[127 - t];
      if (step < 3) asm volatile("barrier.arrive 2, 128;" ::: "memory");
    }
  }
}
""",
    [OUT],
    block=128,
    result=lambda out: out[64] == 4 * 63 + 6,
)

cuda_case(
    "named_barrier_not_waited_for",
    "race",
    r"""
extern "C" __global__ void k(int *out) {
  __shared__ int buffer[64];
  int t = threadIdx.x;
  for (int step = 0; step < 4; step++) {
    if (t < 64) {
      buffer[t] = t + step;  // fault
      asm volatile("barrier.arrive %0, 128;" :: "r"(step + 1) : "memory");
    } else {
      asm volatile("barrier.sync %0, 128;" :: "r"(step + 1) : "memory");
      out[t] += buffer[127 - t];  // fault
    }
  }
}
""",
    [OUT],
    block=128,
)

cuda_case(
    "barrier_of_two_warps_for_four",
    "race",
    r"""
extern "C" __global__ void k(int *out) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = t;  // fault
  asm volatile("barrier.sync %0, 64;" :: "r"(t / 64 + 1) : "memory");
  out[t] = s[127 - t];  // fault
}
""",
    [OUT],
    block=128,
    also=["uninitialised"],
)

cuda_case(
    "barriers_of_two_warps_each",
    "clean",
    r"""
extern "C" __global__ void k(int *out) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = t;
  asm volatile("barrier.sync %0, 64;" :: "r"(t / 64 + 1) : "memory");
  out[t] = s[t ^ 63];
}
""",
    [OUT],
    block=128,
    result=lambda out: (out == np.arange(128) ^ 63).all(),
)

cuda_case(
    "knowledge_through_two_barriers",
    "clean",
    r"""
extern "C" __global__ void k(int *out) {
  __shared__ int s[32];
  int t = threadIdx.x, warp = t / 32;
  if (warp == 0) { s[t] = t; asm volatile("barrier.sync 1, 64;" ::: "memory"); }
  if (warp == 1) { asm volatile("barrier.sync 1, 64;" ::: "memory");
                   asm volatile("barrier.sync 2, 64;" ::: "memory"); }
  if (warp == 2) { asm volatile("barrier.sync 2, 64;" ::: "memory"); out[t] = s[95 - t]; }
}
""",
    [OUT],
    block=128,
)

cuda_case(
    "block_scope_atomics_between_blocks",
    "race",
    r"""
extern "C" __global__ void k(int *out) {
  atomicAdd_block(out, 1);  // fault
}
""",
    [OUT],
    grid=2,
    block=32,
)

cuda_case(
    "block_scope_atomics_in_each_block",
    "clean",
    r"""
extern "C" __global__ void k(int *out) {
  atomicAdd_block(out + blockIdx.x, 1);
}
""",
    [OUT],
    grid=2,
    block=32,
    result=lambda out: out[0] == out[1] == 32,
)

cuda_case(
    "release_and_acquire",
    "clean",
    r"""
extern "C" __global__ void k(int *data, int *flag, int *out) {
  if (blockIdx.x == 1) {
    data[0] = 42;
    asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory");
  } else {
    int seen;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    while (!seen);
    out[0] = data[0];
  }
}
""",
    [OUT[:1], OUT[:1], OUT[:1]],
    grid=2,
    block=1,
    result=lambda data, flag, out: out[0] == 42,
)

cuda_case(
    "relaxed_flag_orders_nothing",
    "race",
    r"""
extern "C" __global__ void k(int *data, int *flag, int *out) {
  if (blockIdx.x == 1) {
    data[0] = 42;  // fault
    asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory");
  } else {
    int seen;
    do asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    while (!seen);
    out[0] = data[0];  // fault
  }
}
""",
    [OUT[:1], OUT[:1], OUT[:1]],
    grid=2,
    block=1,
)

cuda_case(
    "volatile_does_not_race_with_volatile",
    "clean",
    r"""
extern "C" __global__ void k(volatile int *flags, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  flags[i % 4] = 1;
  if (flags[(i + 1) % 4]) out[i] = 1;
}
""",
    [OUT[:4], OUT],
    grid=2,
    block=32,
)

cuda_case(
    "half_of_a_word",
    "race",
    r"""
extern "C" __global__ void k(long long *words) {
  int *halves = (int *)words;
  if (threadIdx.x == 0) words[1] = 5;  // fault
  if (threadIdx.x == 40) halves[3] = 7;  // fault
}
""",
    [np.zeros(4, np.int64)],
)

cuda_case(
    "other_half_of_a_word",
    "clean",
    r"""
extern "C" __global__ void k(long long *words) {
  int *halves = (int *)words;
  if (threadIdx.x == 0) words[1] = 5;
  if (threadIdx.x == 40) halves[4] = 7;
  if (threadIdx.x == 50) halves[5] = 7;
}
""",
    [np.zeros(4, np.int64)],
)

cuda_case(
    "odd_address",
    "memory",
    r"""
extern "C" __global__ void k(char *bytes) {
  *(int *)(bytes + 4 * threadIdx.x + 1) = 1;  // fault
}
""",
    [np.zeros(256, np.int8)],
    block=32,
)

cuda_case(
    "two_barriers_that_wait_for_each_other",
    "deadlock",
    r"""
extern "C" __global__ void k(int *out) {
  if (threadIdx.x < 32) asm volatile("barrier.sync 1, 64;" ::: "memory");  // fault
  else asm volatile("barrier.sync 2, 64;" ::: "memory");  // fault
  out[threadIdx.x] = 1;
}
""",
    [OUT],
)

cuda_case(
    "local_array_half_written",
    "uninitialised",
    r"""
extern "C" __global__ void k(int *out, int many) {
  int a[8];
  for (int i = 0; i < many; i++) a[i] = i;
  out[threadIdx.x] = a[out[threadIdx.x] + many];  // fault
}
""",
    [np.zeros(64, np.int32), np.int32(4)],
)

cuda_case(
    "vectors_of_four",
    "clean",
    r"""
extern "C" __global__ void k(int4 *out) {
  __shared__ int4 s[32];
  int t = threadIdx.x;
  s[t] = make_int4(t, t, t, t);
  __syncthreads();
  ((int *)out)[t] = ((int *)s)[4 * (31 - t) + 2];
}
""",
    [OUT],
    block=32,
)
