"""Asynchronous copies and barriers in shared memory, in the words of CUDA C++."""

import numpy as np

from labelled.catalog import cuda_case

X, Y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
ARGUMENTS = [X, Y]

BEGINS = r"""
#include <cuda_pipeline.h>
extern "C" __global__ void k(const int *x, int *y) {
  __shared__ int s[128];
  int t = threadIdx.x;
"""

cuda_case(
    "copy_that_is_waited_for",
    "clean",
    BEGINS
    + r"""
  __pipeline_memcpy_async(&s[t], &x[t], 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  y[t] = s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
    result=lambda x, y: (y == x[::-1]).all(),
)

cuda_case(
    "copy_that_nobody_waits_for",
    "race",
    BEGINS
    + r"""
  s[t] = 0;
  __syncthreads();
  __pipeline_memcpy_async(&s[t], &x[t], 4);  // fault
  __pipeline_commit();
  __syncthreads();
  y[t] = s[127 - t];  // fault
}
""",
    ARGUMENTS,
    block=128,
)

cuda_case(
    "copy_that_is_waited_for_too_late",
    "race",
    BEGINS
    + r"""
  __pipeline_memcpy_async(&s[t], &x[t], 4);  // fault
  __pipeline_commit();
  y[t] = s[t];  // fault
  __pipeline_wait_prior(0);
}
""",
    ARGUMENTS,
    block=128,
    also=["uninitialised"],
)

cuda_case(
    "copy_without_a_barrier_after_its_wait",
    "race",
    BEGINS
    + r"""
  __pipeline_memcpy_async(&s[t], &x[t], 4);  // fault
  __pipeline_commit();
  __pipeline_wait_prior(0);
  y[t] = s[127 - t];  // fault
}
""",
    ARGUMENTS,
    block=128,
    also=["uninitialised"],
)

cuda_case(
    "wait_for_all_but_the_group_that_is_read",
    "race",
    r"""
#include <cuda_pipeline.h>
extern "C" __global__ void k(const int *x, int *y) {
  __shared__ int s[2][64];
  int t = threadIdx.x;
  for (int i = 0; i < 2; i++) s[i][t] = 0;
  __pipeline_memcpy_async(&s[0][t], &x[t], 4);
  __pipeline_commit();
  __pipeline_memcpy_async(&s[1][t], &x[64 + t], 4);  // fault
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  y[t] = s[0][63 - t];
  y[64 + t] = s[1][63 - t];  // fault
}
""",
    ARGUMENTS,
    block=64,
)

cuda_case(
    "tile_copied_to_while_others_read_it",
    "race",
    BEGINS
    + r"""
  for (int i = 0; i < 3; i++) {
    __pipeline_memcpy_async(&s[t], &x[t], 4);  // fault
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[t] += s[127 - t];  // fault
  }
}
""",
    ARGUMENTS,
    block=128,
)

cuda_case(
    "copy_that_begins_while_others_read",
    "race",
    BEGINS
    + r"""
  s[t] = x[t];
  __syncthreads();
  y[t] = s[127 - t];  // fault
  __pipeline_memcpy_async(&s[t], &x[t], 4);  // fault
  __pipeline_commit();
  __syncthreads();
  __pipeline_wait_prior(0);
  __syncthreads();
  y[t] += s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
)

# <cuda/barrier> takes NVRTC 1.5 s a kernel, this header 0.3 s.
BARRIER = r"""
#include <cuda_awbarrier_primitives.h>
#define MEET(b) { auto token = __mbarrier_arrive(&b); while (!__mbarrier_test_wait(&b, token)); }
extern "C" __global__ void k(const int *x, int *y) {
  __shared__ int s[128];
  __shared__ __mbarrier_t b;
  int t = threadIdx.x;
"""

cuda_case(
    "barrier_that_orders",
    "clean",
    BARRIER
    + r"""
  if (t == 0) __mbarrier_init(&b, blockDim.x);
  __syncthreads();
  for (int i = 0; i < 3; i++) {
    s[t] = x[t] + i;
    MEET(b)
    y[t] = s[127 - t];
    MEET(b)
  }
}
""",
    ARGUMENTS,
    block=128,
    result=lambda x, y: (y == x[::-1] + 2).all(),
)

cuda_case(
    "arrival_without_a_wait",
    "race",
    BARRIER
    + r"""
  s[t] = 0;
  if (t == 0) __mbarrier_init(&b, blockDim.x);
  __syncthreads();
  s[t] = x[t];  // fault
  (void)__mbarrier_arrive(&b);
  y[t] = s[127 - t];  // fault
}
""",
    ARGUMENTS,
    block=128,
)

cuda_case(
    "barrier_of_half_the_threads",
    "race",
    BARRIER
    + r"""
  s[t] = 0;
  if (t == 0) __mbarrier_init(&b, blockDim.x / 2);
  __syncthreads();
  s[t] = x[t];  // fault
  MEET(b)
  y[t] = s[127 - t];  // fault
}
""",
    ARGUMENTS,
    block=128,
)

cuda_case(
    "barrier_used_before_all_know_it",
    "race",
    BARRIER
    + r"""
  if (t == 0) __mbarrier_init(&b, blockDim.x);  // fault
  s[t] = x[t];
  MEET(b)  // fault
  y[t] = s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
    instead="barrier",
    also=["uninitialised"],
)

cuda_case(
    "barrier_that_nobody_initialised",
    "barrier",
    BARRIER
    + r"""
  s[t] = x[t];
  MEET(b)  // fault
  y[t] = s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
    also=["uninitialised"],
)

cuda_case(
    "barrier_that_every_thread_initialises",
    "barrier",
    BARRIER
    + r"""
  __mbarrier_init(&b, blockDim.x);  // fault
  __syncthreads();
  s[t] = x[t];
  MEET(b)
  y[t] = s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
    also=["race"],
)

cuda_case(
    "barrier_of_more_threads_than_come",
    "deadlock",
    BARRIER
    + r"""
  if (t == 0) __mbarrier_init(&b, blockDim.x + 1);
  __syncthreads();
  s[t] = x[t];
  MEET(b)  // fault
  y[t] = s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
)

cuda_case(
    "one_lane_arrives_for_its_warp",
    "clean",
    BARRIER
    + r"""
  if (t == 0) __mbarrier_init(&b, 2);
  __syncthreads();
  if (t < 64) {  // two warps produce
    s[t] = x[t];
    __syncwarp();
    if (t % 32 == 0) (void)__mbarrier_arrive(&b);
  } else {
    while (!__mbarrier_test_wait_parity(&b, false));
    y[t] = s[127 - t];
  }
}
""",
    ARGUMENTS,
    block=128,
    result=lambda x, y: (y[64:] == x[63::-1]).all(),
)

cuda_case(
    "one_lane_arrives_for_a_warp_that_is_not_there",
    "race",
    BARRIER
    + r"""
  s[t] = 0;
  if (t == 0) __mbarrier_init(&b, 2);
  __syncthreads();
  if (t < 64) {
    s[t] = x[t];  // fault
    if (t % 32 == 0) (void)__mbarrier_arrive(&b);
  } else {
    while (!__mbarrier_test_wait_parity(&b, false));
    y[t] = s[127 - t];  // fault
  }
}
""",
    ARGUMENTS,
    block=128,
)

cuda_case(
    "one_thread_fetches_for_all",
    "clean",
    BARRIER
    + r"""
  if (t == 0) __mbarrier_init(&b, 1);
  __syncthreads();
  if (t == 0) {
    for (int i = 0; i < 128; i++) s[i] = x[i];
    (void)__mbarrier_arrive(&b);
  }
  while (!__mbarrier_test_wait_parity(&b, false));
  y[t] = s[127 - t];
}
""",
    ARGUMENTS,
    block=128,
    result=lambda x, y: (y == x[::-1]).all(),
)
