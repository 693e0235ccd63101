"""Right answers to the exercises of "Thinking in threads" in other styles than the lecture's."""

from __future__ import annotations

import math

from wrong_answers import other_styles

from numba import cuda, float64  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("06_thinking_in_threads")


@right("launch-shape")
def by_divmod(n, threads):
    whole, rest = divmod(n, threads)
    blocks = whole + (rest > 0)
    return blocks, blocks * threads - n


@right("launch-shape")
def by_ceil(n, threads):
    blocks = math.ceil(n / threads)
    return [blocks, blocks * threads - n]


@right("bounds-guard")
@cuda.jit
def from_the_second(values, out):
    i = 1 + cuda.grid(1)
    if i >= values.size:
        return
    out[i - 1] = values[i] - values[i - 1]


@right("bounds-guard")
@cuda.jit
def strides(values, out):
    for k in range(cuda.grid(1), len(out), cuda.gridsize(1)):
        out[k] = values[k + 1] - values[k]


@right("grid-stride")
@cuda.jit
def shares_of_neighbours(values, cut, counts):
    me, all_of_us = cuda.grid(1), cuda.gridsize(1)
    share = (values.size + all_of_us - 1) // all_of_us
    mine = 0
    for i in range(me * share, min(values.size, (me + 1) * share)):
        if values[i] > cut:
            mine += 1
    counts[me] = mine


@right("grid-stride")
@cuda.jit
def a_while_and_no_if(values, cut, counts):
    i = me = cuda.grid(1)
    counts[me] = 0
    while i < values.size:
        counts[me] += values[i] > cut
        i += cuda.gridDim.x * cuda.blockDim.x


right("lost-update", "the other one first")("ABBBAA", {11, 12, 13})
right("lost-update", "a set by range")("ABBABA", set(range(11, 14)))


@right("check-then-act")
@cuda.jit
def strides_and_keeps_the_best(values, best):
    mine = -math.inf
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        mine = max(mine, values[i])
    if mine > -math.inf:
        cuda.atomic.max(best, 0, mine)


@right("check-then-act")
@cuda.jit
def by_shared_memory(values, best):
    largest = cuda.shared.array(1, float64)
    i = cuda.grid(1)
    if cuda.threadIdx.x == 0:
        largest[0] = -math.inf
    cuda.syncthreads()
    if i < values.size:
        cuda.atomic.max(largest, 0, values[i])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.max(best, 0, largest[0])


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
