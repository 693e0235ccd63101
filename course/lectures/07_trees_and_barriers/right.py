"""Right answers to the exercises of "Trees and barriers" in other styles than the lecture's."""

from __future__ import annotations

import math

from wrong_answers import other_styles

from numba import cuda, float64  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("07_trees_and_barriers")


@right("fold")
@cuda.jit
def by_distances(values, n, target):
    i, half = cuda.grid(1), n - n // 2
    j = i + half
    if j >= n:
        return
    if math.fabs(target - values[j]) < math.fabs(target - values[i]):
        values[i] = values[j]


@right("fold")
@cuda.jit
def writes_either_way(values, n, target):
    i = cuda.grid(1)
    half = (n + 1) >> 1
    if i < half and i + half < n:
        a, b = values[i], values[i + half]
        values[i] = b if abs(b - target) < abs(a - target) else a


@right("block-max")
@cuda.jit
def from_powers_of_two_down(values, maxima):
    place = cuda.shared.array(128, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    place[t] = -math.inf
    if i < values.size:
        place[t] = values[i]
    cuda.syncthreads()
    stride = 64
    while stride:
        if t < stride and t + stride < cuda.blockDim.x and place[t + stride] > place[t]:
            place[t] = place[t + stride]
        cuda.syncthreads()
        stride >>= 1
    if t == 0:
        maxima[cuda.blockIdx.x] = place[0]


@right("block-max")
@cuda.jit
def an_atomic_in_shared_memory(values, maxima):
    place = cuda.shared.array(128, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    place[t] = values[i] if i < values.size else -math.inf
    cuda.syncthreads()
    distance = 1
    while distance < cuda.blockDim.x:
        if t % (2 * distance) == 0 and t + distance < cuda.blockDim.x:
            place[t] = max(place[t], place[t + distance])
        distance *= 2
        cuda.syncthreads()
    if t == 0:
        maxima[cuda.blockIdx.x] = place[0]


@right("block-max")
@cuda.jit
def shuffles_within_the_warps(values, maxima):
    place = cuda.shared.array(4, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    mine = values[i] if i < values.size else -math.inf
    lane, lanes = t % 32, min(32, cuda.blockDim.x - t // 32 * 32)
    mask = 0xFFFFFFFF if lanes == 32 else (1 << lanes) - 1
    for k in (16, 8, 4, 2, 1):
        other = cuda.shfl_down_sync(mask, mine, k)
        if lane + k < lanes:
            mine = max(mine, other)
    if lane == 0:
        place[t // 32] = mine
    cuda.syncthreads()
    if t == 0:
        for warp in range(1, (cuda.blockDim.x + 31) // 32):
            mine = max(mine, place[warp])
        maxima[cuda.blockIdx.x] = mine
