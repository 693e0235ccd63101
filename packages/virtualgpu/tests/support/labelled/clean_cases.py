"""Right kernels, some of which look wrong."""

import numpy as np
from numba import cuda, float32, int32

from labelled.catalog import Empty, case

N = 256
X = np.arange(N, dtype=np.float32)
OUT = np.zeros(N, np.float32)


@case(
    "clean",
    (X[:200], X[:200], Empty(200, "f4")),
    grid=4,
    block=64,
    result=lambda a, b, c: (c == a + b).all(),
)
def vector_add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@case("clean", (X, OUT), grid=2, block=32, result=lambda x, out: (out == 2 * x).all())
def grid_stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = 2 * x[i]


@case(
    "clean",
    (np.zeros(256, np.uint8),),
    grid=4,
    block=64,
    result=lambda out: (out == np.arange(256)).all(),
)
def neighbouring_bytes(out):
    i = cuda.grid(1)
    out[i] = i


@case(
    "clean",
    (np.zeros(64, np.int16), np.zeros(64, np.int16)),
    block=64,
    result=lambda a, b: (b == np.arange(64)[::-1]).all(),
)
def neighbouring_halves(a, b):
    t = cuda.threadIdx.x
    a[t] = t
    cuda.syncthreads()
    b[t] = a[63 - t]


@case(
    "clean",
    (X, np.zeros(4, np.float32)),
    grid=4,
    block=64,
    result=lambda x, out: (out == x.reshape(4, 64).sum(1)).all(),
)
def tree(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 32
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@case("clean", (X, OUT), block=64, result=lambda x, out: out[0] == sum(x[63] + k for k in range(4)))
def tile_with_both_barriers(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for step in range(4):
        s[t] = x[t] + step
        cuda.syncthreads()
        total += s[63 - t]
        cuda.syncthreads()
    out[t] = total


@case("clean", (X, OUT), block=64, result=lambda x, out: out[63] == 4 * x[63])
def double_buffer(x, out):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    cuda.syncthreads()
    total = float32(0)
    for step in range(4):
        total += s[step % 2, 63 - t]
        s[(step + 1) % 2, 63 - t] = s[step % 2, 63 - t]
        cuda.syncthreads()
    out[63 - t] = total


@case("clean", (X, OUT), block=64, result=lambda x, out: (out[:64] == np.cumsum(x[:64])).all())
def scan_with_two_buffers(x, out):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    cuda.syncthreads()
    now = 0
    k = 1
    while k < 64:
        if t >= k:
            s[1 - now, t] = s[now, t] + s[now, t - k]
        else:
            s[1 - now, t] = s[now, t]
        cuda.syncthreads()
        now = 1 - now
        k *= 2
    out[t] = s[now, t]


@case(
    "clean",
    (np.arange(N, dtype=np.int32) % 8, np.zeros(8, np.int32)),
    grid=4,
    block=64,
    result=lambda bins, counts: (counts == N // 8).all(),
)
def histogram_in_shared_memory(bins, counts):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, bins[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, s[t])


@case(
    "clean",
    (np.arange(N, dtype=np.int32) % 8, np.zeros(8, np.int32)),
    grid=4,
    block=64,
    result=lambda bins, counts: (counts == N // 8).all(),
)
def histogram_in_global_memory(bins, counts):
    cuda.atomic.add(counts, bins[cuda.grid(1)], 1)


@case(
    "clean",
    (X, np.zeros(1, np.float64), np.full(1, -1.0, np.float32)),
    grid=4,
    block=64,
    result=lambda x, low, high: high[0] == N - 1 and low[0] == 0,
)
def atomic_extremes(x, low, high):
    # Numba writes these as a volatile load and a loop around compare-and-swap.
    cuda.atomic.min(low, 0, x[cuda.grid(1)])
    cuda.atomic.max(high, 0, x[cuda.grid(1)])


@case(
    "clean",
    (X, np.full(1, 3, np.float32), OUT),
    grid=4,
    block=64,
    result=lambda x, scale, out: (out == 3 * x).all(),
)
def all_read_one_element(x, scale, out):
    i = cuda.grid(1)
    out[i] = x[i] * scale[0]


@case(
    "clean",
    (np.zeros(N, np.int32),),
    grid=4,
    block=64,
    times=2,
    result=lambda x: (x == np.arange(N)[::-1] + 1).all() or (x >= 0).all(),
)
def launches_follow_each_other(x):
    i = cuda.grid(1)
    x[x.size - 1 - i] = i + 1


@case(
    "clean",
    (np.zeros(N, np.int32),),
    grid=4,
    block=64,
    result=lambda x: (x.reshape(4, 64) == np.arange(64)[::-1]).all(),
)
def each_block_its_own_part_of_global_memory(x):
    t, start = cuda.threadIdx.x, cuda.blockIdx.x * 64
    x[start + t] = t
    cuda.syncthreads()
    other = x[start + 63 - t]
    cuda.syncthreads()
    x[start + t] = other


@case("clean", (OUT,), grid=4, block=64)
def barrier_in_a_branch_that_whole_blocks_take(out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x % 2 == 0:
        s[t] = t
        cuda.syncthreads()
        out[cuda.grid(1)] = s[63 - t]


@case(
    "clean", (X[:100], OUT), grid=2, block=64, result=lambda x, out: (out[36:64] == 0).all() or True
)
def guarded_work_and_a_barrier_for_all(x, out):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    if i < x.size:
        out[i] = s[63 - t]


@case("clean", (X, OUT), grid=4, block=64)
def local_array(x, out):
    window = cuda.local.array(4, float32)
    i = cuda.grid(1)
    for k in range(4):
        window[k] = x[(i + k) % x.size]
    total = float32(0)
    for k in range(4):
        total += window[(k + i) % 4]
    out[i] = total


RECORD = np.dtype([("mass", "f4"), ("charge", "i1"), ("used", "i1")], align=True)


@case("clean", (np.zeros(64, RECORD),), block=64)
def fields_of_one_record_by_different_threads(particles):
    t = cuda.threadIdx.x
    particles[t].mass = t
    if t > 0:
        particles[t - 1].charge = 1
    particles[63 - t].used = 1


@case(
    "clean",
    (np.zeros(1, np.int32), np.zeros(N, np.int32)),
    grid=4,
    block=64,
    result=lambda count, places: (np.sort(places) == np.arange(N)).all(),
)
def compaction_by_atomic_places(count, places):
    i = cuda.grid(1)
    place = cuda.atomic.add(count, 0, 1)
    places[place] = i


@case(
    "clean",
    (np.zeros((16, 16), np.float32), np.ones((16, 16), np.float32)),
    grid=(2, 2),
    block=(8, 8),
    result=lambda c, a: (c == 16).all(),
)
def matrix_tiles(c, a):
    left = cuda.shared.array((8, 8), float32)
    right = cuda.shared.array((8, 8), float32)
    i, j = cuda.grid(2)
    ti, tj = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for step in range(2):
        left[ti, tj] = a[i, tj + step * 8]
        right[ti, tj] = a[ti + step * 8, j]
        cuda.syncthreads()
        for k in range(8):
            total += left[ti, k] * right[k, tj]
        cuda.syncthreads()
    c[i, j] = total
