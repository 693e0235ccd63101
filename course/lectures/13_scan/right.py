"""Right answers to the exercises of "Scan" in other styles than the lecture's."""

from __future__ import annotations

import itertools

import numpy as np

from wrong_answers import other_styles

from numba import cuda, int64  # isort: skip  (after the virtual GPU is active)

THREADS = 128

RIGHT, right = other_styles("13_scan")


@right("offsets")
def by_accumulate(counts):
    return np.array([0, *itertools.accumulate(int(count) for count in counts)], np.int64)


@right("offsets")
def by_insert(counts):
    return np.insert(np.cumsum(counts), 0, 0).astype("int64")


@right("scan-blocks")
@cuda.jit
def blelloch(values, sums, totals):
    tile = cuda.shared.array(THREADS, int64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    own = values[i] if i < values.size else 0
    tile[t] = own
    distance = 1
    while distance < THREADS:
        cuda.syncthreads()
        k = 2 * distance * (t + 1) - 1
        if k < THREADS:
            tile[k] += tile[k - distance]
        distance *= 2
    cuda.syncthreads()
    if t == 0:
        tile[THREADS - 1] = 0
    while distance > 1:
        distance //= 2
        cuda.syncthreads()
        k = 2 * distance * (t + 1) - 1
        if k < THREADS:
            left = tile[k - distance]
            tile[k - distance] = tile[k]
            tile[k] += left
    cuda.syncthreads()
    if i < values.size:
        sums[i] = tile[t] + own
    if t == THREADS - 1:
        totals[cuda.blockIdx.x] = tile[t] + own


@right("scan-blocks")
@cuda.jit
def by_two_buffers(values, sums, totals):
    tile = cuda.shared.array((2, THREADS), int64)
    t, i, now = cuda.threadIdx.x, cuda.grid(1), 0
    tile[0, t] = values[i] if i < values.size else 0
    distance = 1
    while distance < THREADS:
        cuda.syncthreads()
        tile[1 - now, t] = tile[now, t] + (tile[now, t - distance] if t >= distance else 0)
        now, distance = 1 - now, 2 * distance
    if i < values.size:
        sums[i] = tile[now, t]
    if t == THREADS - 1:
        totals[cuda.blockIdx.x] = tile[now, t]


@cuda.jit
def add_of_the_block_before(sums, totals):
    i, b = cuda.grid(1), cuda.blockIdx.x
    if b and i < sums.size:
        sums[i] += totals[b - 1]


@right("scan")
def by_a_loop_of_levels(d_values):
    levels = []
    while True:
        blocks = -(-d_values.size // THREADS)
        d_sums = cuda.device_array(d_values.size, np.int64)
        d_totals = cuda.device_array(blocks, np.int64)
        by_two_buffers[blocks, THREADS](d_values, d_sums, d_totals)
        levels.append(d_sums)
        if blocks == 1:
            break
        d_values = d_totals
    while len(levels) > 1:
        d_totals = levels.pop()
        add_of_the_block_before[d_totals.size, THREADS](levels[-1], d_totals)
    return levels[0]


@right("scan")
def with_another_kernel_for_blocks(d_values):
    blocks = (d_values.size + THREADS - 1) // THREADS
    d_sums, d_totals = cuda.device_array_like(d_values), cuda.device_array(blocks, np.int64)
    blelloch[blocks, THREADS](d_values, d_sums, d_totals)
    if blocks > 1:
        add_of_the_block_before[blocks, THREADS](d_sums, with_another_kernel_for_blocks(d_totals))
    return d_sums


@right("compact")
@cuda.jit
def strides(values, flags, ends, kept):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        if flags[i] != 0:
            kept[ends[i] - flags[i]] = values[i]


@right("compact")
@cuda.jit
def asks_the_neighbour(values, flags, ends, kept):
    i = cuda.grid(1)
    if i >= values.size:
        return
    before = ends[i - 1] if i > 0 else 0
    if ends[i] > before:
        kept[before] = values[i]
