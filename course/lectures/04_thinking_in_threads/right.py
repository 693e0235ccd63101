"""Right answers to the exercises of "Thinking in threads" in other styles than the lecture's."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import other_styles

from numba import cuda, float64  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("04_thinking_in_threads")


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


@right("launch-shape")
def an_array_of_two(n, threads):
    return np.array([np.ceil(n / threads), -n % threads])
