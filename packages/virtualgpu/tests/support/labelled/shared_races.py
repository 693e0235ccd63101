"""Races in shared memory: barriers that are missing, too weak or at the wrong place."""

import numpy as np
from numba import cuda, float32, int32

from labelled.catalog import case

X = np.arange(1, 65, dtype=np.float32)
OUT = np.zeros(64, np.float32)
COUNTS = np.zeros(8, np.int32)
UNWRITTEN = ("uninitialised",)


@case("race", (X, OUT), also=UNWRITTEN)
def reversed_without_barrier(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    out[t] = s[63 - t]  # fault


@case("race", (X, OUT), also=UNWRITTEN)
def neighbour_without_barrier(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    if t > 0:
        out[t] = s[t - 1]  # fault


@case("race", (X, OUT))
def tree_without_barrier_in_the_loop(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]  # fault
        k //= 2


@case("race", (X, OUT))
def tile_used_again_too_early(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for step in range(4):
        s[t] = x[t] + step  # fault
        cuda.syncthreads()
        total += s[63 - t]  # fault
    out[t] = total


@case("race", (X, OUT), also=UNWRITTEN)
def double_buffer_that_reads_the_new_one(x, out):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    cuda.syncthreads()
    for step in range(1, 5):
        new = step % 2
        s[new, t] = step  # fault
        out[t] += s[new, 63 - t]  # fault
        cuda.syncthreads()


@case("race", (np.arange(64, dtype=np.int32) % 8, COUNTS))
def histogram_by_increment(bins, counts):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = 0
    cuda.syncthreads()
    s[bins[t]] += 1  # fault
    cuda.syncthreads()
    if t < 8:
        counts[t] = s[t]


@case("race", (np.arange(64, dtype=np.int32) % 8, COUNTS), also=UNWRITTEN)
def histogram_zeroed_without_barrier(bins, counts):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = 0  # fault
    cuda.atomic.add(s, bins[t], 1)  # fault
    cuda.syncthreads()
    if t < 8:
        counts[t] = s[t]


@case("race", (np.arange(64, dtype=np.int32) % 8, COUNTS))
def histogram_read_without_barrier(bins, counts):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, bins[t], 1)  # fault
    if t < 8:
        counts[t] = s[t]  # fault


@case("race", (X, OUT), also=UNWRITTEN)
def one_writes_all_read(x, out):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = x[5]  # fault
    out[t] = s[0]  # fault


@case("race", (X, OUT), also=UNWRITTEN)
def syncwarp_between_warps(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    cuda.syncwarp()
    out[t] = s[63 - t]  # fault


@case("race", (X.reshape(8, 8), OUT.reshape(8, 8)), block=(8, 8), also=UNWRITTEN)
def transpose_without_barrier(x, out):
    s = cuda.shared.array((8, 8), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i, j] = x[i, j]  # fault
    out[i, j] = s[j, i]  # fault


@case("race", (X, OUT))
def scan_in_place(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    k = 1
    while k < 64:
        if t >= k:
            s[t] += s[t - k]  # fault
        cuda.syncthreads()
        k *= 2
    out[t] = s[t]


@case(
    "race",
    (np.ones((16, 16), np.float32), np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)),
    block=(8, 8),
    grid=(2, 2),
)
def matrix_tiles_with_one_barrier(a, b, c):
    left = cuda.shared.array((8, 8), float32)
    i, j = cuda.grid(2)
    ti, tj = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for step in range(2):
        left[ti, tj] = a[i, tj + step * 8]  # fault
        cuda.syncthreads()
        for k in range(8):
            total += left[ti, k] * b[k + step * 8, j]  # fault
    c[i, j] = total


@case("race", (X, OUT), shared=64 * 4, also=UNWRITTEN)
def dynamic_without_barrier(x, out):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    out[t] = s[63 - t]  # fault


@case("race", (X, OUT))
def all_write_the_same(x, out):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    if x[t] > 5:
        s[0] = 1  # fault
    cuda.syncthreads()
    out[t] = s[0]


@case("race", (X, OUT))
def stencil_in_place(x, out):
    s = cuda.shared.array(66, float32)
    t = cuda.threadIdx.x
    s[t + 1] = x[t]
    if t < 2:
        s[t * 65] = 0
    cuda.syncthreads()
    s[t + 1] = (s[t] + s[t + 2]) / 2  # fault
    cuda.syncthreads()
    out[t] = s[t + 1]


@case("race", (X, OUT), shared=64 * 4, also=UNWRITTEN)
def dynamic_arrays_lie_on_each_other(x, out):
    # All dynamic shared arrays start at the same byte.
    values = cuda.shared.array(0, float32)
    places = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    values[t] = x[t]  # fault
    places[63 - t] = t  # fault
    cuda.syncthreads()
    out[t] = values[t]


@case("race", (X, OUT))
def barrier_before_but_not_after(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    left = s[(t + 1) % 64]  # fault
    s[t] = left * 2  # fault
    cuda.syncthreads()
    out[t] = s[t]
