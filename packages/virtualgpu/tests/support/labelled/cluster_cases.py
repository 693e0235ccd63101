"""Thread block clusters: the histogram over distributed shared memory of the CUDA C++ Programming
Guide ("Distributed Shared Memory"), and what goes wrong around it.
"""

import numpy as np

from labelled.catalog import cuda_case

VALUES = np.random.default_rng(7).integers(0, 64, 300, dtype=np.int32)
HISTOGRAM = [np.zeros(64, np.int32), 32, VALUES, 300]
X, Y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)

# By the headers, which NVRTC reads for seconds, and by the compiler's own functions.
HEADERS = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define SYNC cg::this_cluster().sync()
#define of(s, rank) cg::this_cluster().map_shared_rank(s, rank)
#define RANK cg::this_cluster().block_rank()
"""
BUILT_IN = r"""
#define SYNC __cluster_barrier_arrive(), __cluster_barrier_wait()
#define of(s, rank) static_cast<int *>(__cluster_map_shared_rank(s, rank))
#define RANK __clusterRelativeBlockRank()
"""

# Two blocks have half of the bins each, and count what falls into them for all.
COUNTS = r"""
extern "C" __global__ void __cluster_dims__(2) k(int *bins, int mine, const int *values, int n) {
  __shared__ int own[32];
  for (int i = threadIdx.x; i < mine; i += blockDim.x) own[i] = 0;%s
  %s;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int bin = values[i];
    int *whose = of(own, bin / mine);
    atomicAdd(&whose[bin %% mine], 1);%s
  }
  %s;
  for (int i = threadIdx.x; i < mine; i += blockDim.x)
    atomicAdd(&bins[RANK * mine + i], own[i]);%s
}
"""
FAULT = "  // fault"

cuda_case(
    "cluster_histogram",
    "clean",
    HEADERS + COUNTS % ("", "SYNC", "", "SYNC", ""),
    HISTOGRAM,
    grid=4,
    block=64,
    result=lambda bins, *_: (bins == np.bincount(VALUES, minlength=64)).all(),
)

cuda_case(
    "cluster_histogram_without_its_last_barrier",
    "race",
    BUILT_IN + COUNTS % ("", "SYNC", FAULT, "__syncthreads()", FAULT),
    HISTOGRAM,
    grid=4,
    block=64,
    instead="memory",
)

cuda_case(
    "cluster_histogram_without_its_first_barrier",
    "race",
    BUILT_IN + COUNTS % (FAULT, "__syncthreads()", FAULT, "SYNC", ""),
    HISTOGRAM,
    grid=4,
    block=64,
    also=["uninitialised"],
)

PASSES_ON = (
    BUILT_IN
    + r"""
extern "C" __global__ void __cluster_dims__(2) k(const int *x, int *y) {
  __shared__ int s[64];
  int t = threadIdx.x, rank = RANK, place = rank * 64 + t;
"""
)

cuda_case(
    "cluster_reads_its_neighbour",
    "clean",
    PASSES_ON
    + r"""
  s[t] = x[place];
  SYNC;
  y[place] = of(s, 1 - rank)[63 - t];
  SYNC;
}
""",
    [X, Y],
    grid=2,
    block=64,
    result=lambda x, y: (y == x[::-1]).all(),
)

cuda_case(
    "cluster_ends_before_its_neighbour_has_read",
    "race",
    PASSES_ON
    + r"""
  s[t] = x[place];
  SYNC;
  y[place] = of(s, 1 - rank)[63 - t];  // fault
}
""",
    [X, Y],
    grid=2,
    block=64,
    instead="memory",
)

cuda_case(
    "cluster_block_overwrites_what_its_neighbour_reads",
    "race",
    PASSES_ON
    + r"""
  s[t] = x[place];
  SYNC;
  y[place] = of(s, 1 - rank)[63 - t];  // fault
  __syncthreads();
  s[t] = 0;  // fault
  SYNC;
}
""",
    [X, Y],
    grid=2,
    block=64,
)

cuda_case(
    "cluster_writes_to_a_block_that_may_not_have_begun",
    "race",
    PASSES_ON
    + r"""
  of(s, 1 - rank)[t] = x[place];  // fault
  SYNC;
  y[place] = s[t];
}
""",
    [X, Y],
    grid=2,
    block=64,
)

cuda_case(
    "cluster_waits_between_arrival_and_use",
    "clean",
    PASSES_ON
    + r"""
  s[t] = x[place];
  __cluster_barrier_arrive();
  int more = x[place] + 1;
  __cluster_barrier_wait();
  y[place] = of(s, 1 - rank)[63 - t] + more;
  SYNC;
}
""",
    [X, Y],
    grid=2,
    block=64,
    result=lambda x, y: (y == x[::-1] + x + 1).all(),
)

cuda_case(
    "cluster_reads_before_it_has_waited",
    "race",
    PASSES_ON
    + r"""
  SYNC;
  s[t] = x[place];  // fault
  __cluster_barrier_arrive();
  y[place] = of(s, 1 - rank)[63 - t];  // fault
  __cluster_barrier_wait();
  SYNC;
}
""",
    [X, Y],
    grid=2,
    block=64,
    also=["uninitialised"],
)

cuda_case(
    "cluster_barrier_that_threads_miss",
    "barrier",
    PASSES_ON
    + r"""
  if (t < 40) return;
  y[place] = x[place];
  SYNC;  // fault
}
""",
    [X, Y],
    grid=2,
    block=64,
)

cuda_case(
    "cluster_barrier_against_a_barrier_of_the_block",
    "deadlock",
    PASSES_ON
    + r"""
  y[place] = x[place];
  if (t < 32) SYNC;  // fault
  else __syncthreads();  // fault
}
""",
    [X, Y],
    grid=2,
    block=64,
)

cuda_case(
    "cluster_has_no_such_rank",
    "memory",
    PASSES_ON
    + r"""
  SYNC;
  y[place] = of(s, rank + 1)[t];  // fault
  SYNC;
}
""",
    [X, Y],
    grid=2,
    block=64,
    also=["uninitialised"],
)
