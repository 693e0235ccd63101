"""Bad addresses, unwritten memory, barriers that not all reach, deadlocks."""

import numpy as np
from numba import cuda, float32, int32

from labelled.catalog import Empty, case

X = np.arange(100, dtype=np.float32)
OUT = np.zeros(100, np.float32)
ONE = np.zeros(1, np.int32)


@case("memory", (X, OUT), grid=2)
def no_guard(x, out):
    i = cuda.grid(1)
    out[i] = 1  # fault


@case("memory", (X, OUT), grid=2, block=50)
def one_past_the_end(x, out):
    i = cuda.grid(1)
    out[i] = x[i + 1]  # fault


@case("memory", (np.zeros((4, 16), np.float32),), block=(4, 16))
def row_and_column_swapped(x):
    i, j = cuda.grid(2)
    x[j, i] = 1  # fault


@case("memory", (OUT,))
def past_shared_memory(out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = t
    cuda.syncthreads()
    out[t] = s[t + 1]  # fault


@case("memory", (OUT, np.array([7])))
def past_local_memory(out, many):
    a = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        a[k] = k
    out[t] = a[many[0]]  # fault


@case("memory", (np.full(64, 8, np.int32), np.zeros(8, np.int32)))
def bin_past_the_last(bins, counts):
    cuda.atomic.add(counts, bins[cuda.threadIdx.x], 1)  # fault


@case("memory", (np.zeros(0, np.float32),))
def empty_array(x):
    x[cuda.threadIdx.x] = 1  # fault


@case("memory", (X,), shared=0)
def dynamic_memory_that_was_not_asked_for(x):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    cuda.syncthreads()
    x[t] = s[63 - t]


@case("uninitialised", (X, Empty(100, "f4")), grid=2)
def sum_into_unwritten_memory(x, total):
    i = cuda.grid(1)
    if i < x.size:
        total[i] += x[i]  # fault


@case("uninitialised", (np.arange(64, dtype=np.int32) % 8, Empty(8)))
def histogram_that_nobody_zeroed(bins, counts):
    cuda.atomic.add(counts, bins[cuda.threadIdx.x], 1)  # fault


@case("uninitialised", (OUT,))
def shared_memory_is_not_zero(out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t % 2 == 0:
        s[t] = t
    cuda.syncthreads()
    out[t] = s[t]  # fault


@case("uninitialised", (OUT, np.arange(64, dtype=np.int32) % 8))
def shared_counts_are_not_zero(out, bins):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(s, bins[t], 1)  # fault
    cuda.syncthreads()
    if t < 8:
        out[t] = s[t]


@case("uninitialised", (Empty(64), np.zeros(64, np.int32)))
def reads_what_the_guard_left_out(x, out):
    t = cuda.threadIdx.x
    if t < 60:
        x[t] = t
    cuda.syncthreads()
    out[t] = x[63 - t]  # fault


@case("uninitialised", (Empty(64, "u1"), np.zeros(64, np.int32)))
def every_other_byte_written(x, out):
    t = cuda.threadIdx.x
    if t % 2:
        x[t] = t
    out[t] = x[t]  # fault


@case("clean", (Empty(64), np.zeros(64, np.int32)))
def reads_what_it_wrote(x, out):
    t = cuda.threadIdx.x
    x[t] = t
    out[t] = x[t]


@case("barrier", (X, OUT), grid=2, also=("uninitialised",))
def returns_before_the_barrier(x, out):
    i, t = cuda.grid(1), cuda.threadIdx.x
    s = cuda.shared.array(64, float32)
    if i >= x.size:
        return
    s[t] = x[i]
    cuda.syncthreads()  # fault
    out[i] = s[t]


@case("barrier", (OUT,))
def barrier_in_a_branch(out):
    t = cuda.threadIdx.x
    if t < 32:
        out[t] = t
        cuda.syncthreads()  # fault


@case("barrier", (OUT,))
def barriers_in_both_branches(out):
    t = cuda.threadIdx.x
    if t < 32:
        out[t] = t
        cuda.syncthreads()  # fault
    else:
        cuda.syncthreads()  # fault
        out[t] = 2 * t


@case("barrier", (np.arange(64, dtype=np.int32) % 3, OUT))
def loop_of_different_lengths(rounds, out):
    t = cuda.threadIdx.x
    for k in range(rounds[t]):
        out[t] += k
        cuda.syncthreads()  # fault
    cuda.syncthreads()  # fault


@case("barrier", (X, OUT))
def barrier_where_the_data_say_so(x, out):
    t = cuda.threadIdx.x
    if x[t] != 17:
        cuda.syncthreads()  # fault
    out[t] = x[t]


@case("barrier", (OUT,), block=32)
def mask_without_the_lane(out):
    t = cuda.threadIdx.x
    out[t] = 1
    cuda.syncwarp(0x0000FFFF)  # fault


@case("barrier", (OUT,), block=32, instead="deadlock")
def masks_that_disagree(out):
    t = cuda.threadIdx.x
    mask = 0xFFFFFFFF
    if t == 5:
        mask = 0x0000003F
    cuda.syncwarp(mask)  # fault
    out[t] = 1


@case("deadlock", (OUT,), block=32)
def one_lane_at_the_other_barrier(out):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.syncthreads()  # fault
    else:
        cuda.syncwarp()  # fault
        cuda.syncthreads()
    out[t] = 1


@case("barrier", (np.zeros(64, np.int32),), grid=2, block=32)
def grid_sync_that_a_block_leaves_out(a):
    grid = cuda.cg.this_grid()
    if cuda.blockIdx.x == 0:
        a[cuda.grid(1)] = 1
        grid.sync()  # fault
