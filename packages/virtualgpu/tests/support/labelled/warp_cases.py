"""Inside one warp: lockstep orders nothing, syncwarp does, for the lanes in its mask."""

import numpy as np
from numba import cuda, float32, int32

from labelled.catalog import case

X = np.arange(1, 33, dtype=np.float32)
OUT = np.zeros(32, np.float32)
UNWRITTEN = ("uninitialised",)


@case("race", (X, OUT), block=32, also=UNWRITTEN)
def lanes_exchange_without_sync(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    out[t] = s[t ^ 1]  # fault


@case("race", (X, OUT), block=32)
def last_warp_in_lockstep(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 32] = 0
    cuda.syncthreads()
    k = 16
    while k > 0:
        s[t] += s[t + k]  # fault
        k //= 2
    if t == 0:
        out[0] = s[0]


@case("race", (X, OUT), block=32, also=UNWRITTEN)
def shuffle_orders_no_memory(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    other = cuda.shfl_xor_sync(0xFFFFFFFF, t, 1)
    out[t] = s[other]  # fault


@case("race", (X, OUT), block=32, also=UNWRITTEN)
def half_masks_and_the_other_half(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # fault
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
    else:
        cuda.syncwarp(0xFFFF0000)
    out[t] = s[31 - t]  # fault


@case(
    "clean",
    (X, OUT),
    block=32,
    result=lambda x, out: (out == x[[*range(15, -1, -1), *range(31, 15, -1)]]).all(),
)
def half_masks_and_the_own_half(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
        out[t] = s[15 - t]
    else:
        cuda.syncwarp(0xFFFF0000)
        out[t] = s[47 - t]


@case("clean", (X, OUT), block=32, result=lambda x, out: (out == x[::-1]).all())
def lanes_exchange_with_sync(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[31 - t]


@case("clean", (X, OUT), block=32, result=lambda x, out: out[0] == x.sum())
def warp_tree_with_sync(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    k = 16
    while k > 0:
        if t < k:
            s[t] += s[t + k]
        cuda.syncwarp()
        k //= 2
    if t == 0:
        out[0] = s[0]


@case(
    "clean",
    (np.ones(128, np.float32), np.zeros(1, np.float32)),
    block=128,
    result=lambda x, out: out[0] == 128,
)
def shuffles_then_one_barrier(x, out):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    value = x[t]
    k = 16
    while k > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, k)
        k //= 2
    if t % 32 == 0:
        s[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        out[0] = s[0] + s[1] + s[2] + s[3]


@case(
    "clean",
    (X, np.zeros(32, np.int32)),
    block=32,
    result=lambda x, out: out[0] == np.int32(-0x55555556),
)
def votes(x, out):
    t = cuda.threadIdx.x
    even = cuda.ballot_sync(0xFFFFFFFF, x[t] % 2 == 0)
    if t == 0:
        out[0] = int32(even)


@case("race", (X, OUT), block=32)
def one_lane_writes_for_all(x, out):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 1
    cuda.syncwarp()
    before = s[0]  # fault
    if t == 31:
        s[0] = 2  # fault
    out[t] = before


@case("clean", (np.zeros(64, np.int32),), block=64, result=lambda out: (out == np.arange(64)).all())
def each_warp_its_own_row(out):
    s = cuda.shared.array((2, 32), int32)
    t = cuda.threadIdx.x
    row, lane = t // 32, t % 32
    s[row, lane] = 31 - lane + row * 32
    cuda.syncwarp()
    out[row * 32 + 31 - lane] = s[row, lane]
    cuda.syncwarp()
    s[row, 31 - lane] = 0
