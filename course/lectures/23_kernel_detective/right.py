"""Right answers to the exercises of "Kernel detective" in other styles than the lecture's."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import other_styles

import cupy as cp  # isort: skip  (after the virtual GPU is active)
from numba import cuda, float64  # isort: skip

THREADS = 128
ALL = 0xFFFFFFFF

RIGHT, right = other_styles("23_kernel_detective")

# --- wrong-sum ----------------------------------------------------------------------------------


@right("wrong-sum")
@cuda.jit
def zeros_first(values, sums):
    tile = cuda.shared.array(shape=(128,), dtype=float64)
    t = cuda.threadIdx.x
    tile[t] = 0.0
    if cuda.grid(1) < len(values):
        tile[t] = values[cuda.grid(1)]
    distance = 1
    while distance < cuda.blockDim.x:
        cuda.syncthreads()
        if t % (2 * distance) == 0:
            tile[t] += tile[t + distance]
        distance *= 2
    if t == 0:
        sums[cuda.blockIdx.x] = tile[t]


@right("wrong-sum")
@cuda.jit
def a_tree_of_what_there_is(values, sums):
    tile = cuda.shared.array(THREADS, float64)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * THREADS
    n = min(THREADS, values.size - first)
    if t < n:
        tile[t] = values[first + t]
    cuda.syncthreads()
    while n > 1:
        half = (n + 1) // 2
        if t + half < n:
            tile[t] += tile[t + half]
        cuda.syncthreads()
        n = half
    if t == 0:
        sums[cuda.blockIdx.x] = tile[0] if n == 1 else 0.0


@right("wrong-sum")
@cuda.jit
def warp_by_warp(values, sums):
    parts = cuda.shared.array(4, float64)
    i, lane = cuda.grid(1), cuda.laneid
    mine = 0.0
    if i < values.size:
        mine = values[i]
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(ALL, mine, k)
    if lane == 0:
        parts[cuda.threadIdx.x // 32] = mine
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3]


# --- crash --------------------------------------------------------------------------------------


@cuda.jit
def keep_maxima(values, maxima):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.max(maxima, cuda.blockIdx.x, values[i])


@cuda.jit
def maxima_by_trees(values, maxima):
    tile = cuda.shared.array(THREADS, float64)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t] = values[i] if i < values.size else -math.inf
    half = THREADS // 2
    while half:
        cuda.syncthreads()
        if t < half:
            tile[t] = max(tile[t], tile[t + half])
        half >>= 1
    if t == 0:
        maxima[cuda.blockIdx.x] = tile[0]


@right("crash")
def nothing_to_fill(values):
    if values.size == 0:
        return np.empty(0)
    d_maxima = cuda.device_array(math.ceil(values.size / THREADS))
    maxima_by_trees[d_maxima.shape, THREADS](cuda.to_device(values), d_maxima)
    return d_maxima.copy_to_host()


@right("crash")
def a_row_of_cupy_for_each_run(values):
    runs = -(-values.size // THREADS)
    rows = cp.full(runs * THREADS, -math.inf)
    rows[:values.size] = cp.asarray(values)
    return rows.reshape(runs, THREADS).max(axis=1).get()


@right("crash")
def whole_runs(values):
    runs = -(-values.size // THREADS)
    padded = np.full(runs * THREADS, -math.inf)
    padded[:values.size] = values
    maxima = cuda.to_device(np.full(runs, -math.inf))
    if runs:
        keep_maxima[runs, THREADS](cuda.to_device(padded), maxima)
    return maxima.copy_to_host()


# --- hang ---------------------------------------------------------------------------------------


@right("hang")
@cuda.jit
def until_it_is_done(values, cut, best, lock):
    i = cuda.grid(1)
    if i >= values.size or values[i] < cut:
        return
    done = False
    while not done:
        if cuda.atomic.cas(lock, 0, 0, 1) == 0:
            cuda.threadfence()
            best[0] = max(best[0], values[i])
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
            done = True


@right("hang")
@cuda.jit
def both_questions_under_the_lock(values, cut, best, lock):
    for i in range(cuda.grid(1), len(values), cuda.gridsize(1)):
        while cuda.atomic.exch(lock, 0, 1):
            pass
        cuda.threadfence()
        if values[i] >= cut and values[i] > best[0]:
            best[0] = values[i]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


@right("hang")
@cuda.jit
def the_best_of_a_warp_takes_it(values, cut, best, lock):
    i = cuda.grid(1)
    mine = values[i] if i < values.size and values[i] >= cut else 0.0
    for k in (16, 8, 4, 2, 1):
        mine = max(mine, cuda.shfl_down_sync(0xFFFFFFFF, mine, k))
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1):
            pass
        cuda.threadfence()
        if mine > best[0]:
            best[0] = mine
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


# --- slow ---------------------------------------------------------------------------------------


@right("slow")
@cuda.jit
def parts_in_shared_memory(table, sums):
    parts = cuda.shared.array(32, float64)
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    parts[lane] = 0.0
    for column in range(lane, table.shape[1], 32):
        parts[lane] += table[row, column]
    cuda.syncthreads()
    half = 16
    while half:
        if lane < half:
            parts[lane] += parts[lane + half]
        cuda.syncthreads()
        half //= 2
    if lane == 0:
        sums[row] = parts[0]


@right("slow")
@cuda.jit
def crosswise(table, sums):
    row = table[cuda.blockIdx.x]
    mine = 0.0
    for first in range(0, row.size, 32):
        column = first + cuda.threadIdx.x
        mine += row[column] if column < row.size else 0.0
    mask = 1
    while mask < 32:
        mine += cuda.shfl_xor_sync(ALL, mine, mask)
        mask <<= 1
    if cuda.threadIdx.x == 31:
        sums[cuda.blockIdx.x] = mine


# --- most-days ----------------------------------------------------------------------------------


@cuda.jit
def over_a_number(values, total, shares):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        shares[i] = values[i] / total


add_up = cuda.reduce(lambda a, b: a + b)


@right("most-days")
def by_reduce(values):
    d_values = cuda.to_device(values)
    d_shares = cuda.device_array_like(d_values)
    over_a_number[4, 64](d_values, add_up(d_values), d_shares)
    return d_shares.copy_to_host()


@cuda.jit
def add_blocks(values, total):
    own = cuda.shared.array(1, float64)
    if cuda.threadIdx.x == 0:
        own[0] = 0.0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(own, 0, values[i])
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(total, 0, own[0])


@cuda.jit
def over_the_total(values, total):
    i = cuda.grid(1)
    if i < values.size:
        values[i] /= total[0]


@right("most-days")
def an_atomic_for_each_block(values):
    launch = 1 + values.size // 256, 256
    d_total = cuda.to_device(np.array([0.0]))
    d_values = cuda.to_device(values)
    add_blocks[launch](d_values, d_total)
    over_the_total[launch](d_values, d_total)
    return d_values.copy_to_host()


@right("most-days")
def two_operations_of_cupy(values):
    d_values = cp.asarray(values)
    return (d_values / d_values.sum()).get()


# --- two-streams --------------------------------------------------------------------------------


def add_half(values, totals, which):
    totals[which] = values.sum()


def divide_half(values, totals):
    values /= totals[0] + totals[1]


@right("two-streams")
def line_by_line(gpu, halves, results):
    totals, first, second = gpu.buffer(2), gpu.stream(), gpu.stream()
    a, b = gpu.buffer(len(halves[0])), gpu.buffer(len(halves[1]))
    a_added, b_added = gpu.event(), gpu.event()
    first.copy_in(halves[0], a)
    second.copy_in(halves[1], b)
    first.launch(add_half, a, totals, 0)
    a_added.record(first)
    second.launch(add_half, b, totals, 1)
    b_added.record(second)
    b_added.wait(first)
    first.launch(divide_half, a, totals)
    first.copy_out(a, results[0])
    a_added.wait(second)
    second.launch(divide_half, b, totals)
    second.copy_out(b, results[1])


@right("two-streams")
def the_host_waits(gpu, halves, results):
    totals = gpu.buffer(2)
    work = [(gpu.stream(), gpu.buffer(half.size), half) for half in halves]
    for k, (stream, buffer, half) in enumerate(work):
        stream.copy_in(half, buffer)
        stream.launch(add_half, buffer, totals, k)
    gpu.synchronize()
    for (stream, buffer, _), result in zip(work, results, strict=True):
        stream.launch(divide_half, buffer, totals)
        stream.copy_out(buffer, result)
