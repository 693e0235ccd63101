"""Right answers to the exercises of "Thinking in warps" in other styles than the lecture's."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import other_styles

from numba import cuda, float32, float64  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("12_thinking_in_warps")


@right("lane-turns")
def by_padding(work):
    padded = np.zeros(-(-len(work) // 32) * 32, int)
    padded[:len(work)] = work
    return int(padded.sum()), int(32 * padded.reshape(-1, 32).max(axis=1, initial=0).sum())


@right("lane-turns")
def by_reduceat(work):
    largest = np.maximum.reduceat(work, np.arange(0, len(work), 32)) if len(work) else np.zeros(1)
    return sum(int(one) for one in work), 32 * int(largest.sum())


@right("turn")
@cuda.jit
def a_tile_written_crosswise(table, turned):
    tile = cuda.shared.array((32, 33), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    i, j = cuda.blockIdx.y * 32 + y, cuda.blockIdx.x * 32 + x
    if i < table.shape[0] and j < table.shape[1]:
        tile[x, y] = table[i, j]
    cuda.syncthreads()
    i, j = cuda.blockIdx.y * 32 + x, cuda.blockIdx.x * 32 + y
    if i < table.shape[0] and j < table.shape[1]:
        turned[j, i] = tile[y, x]


@right("turn")
@cuda.jit
def columns_moved_around(table, turned):
    tile = cuda.shared.array((32, 32), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
    if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
        tile[y, (x + y) % 32] = table[first_i + y, first_j + x]
    cuda.syncthreads()
    if first_j + y < table.shape[1] and first_i + x < table.shape[0]:
        turned[first_j + y, first_i + x] = tile[x, (x + y) % 32]


ALL = 0xFFFFFFFF


@right("warp-max")
@cuda.jit
def crosswise(values, maxima):
    i = cuda.grid(1)
    largest = -math.inf
    if i < values.size:
        largest = values[i]
    mask = 1
    while mask < 32:
        largest = max(largest, cuda.shfl_xor_sync(ALL, largest, mask))
        mask *= 2
    if cuda.laneid == 0:
        maxima[i // 32] = largest


@right("warp-max")
@cuda.jit
def upwards(values, maxima):
    i = cuda.grid(1)
    mine = values[i] if i < len(values) else -math.inf
    for k in (1, 2, 4, 8, 16):
        mine = max(mine, cuda.shfl_up_sync(ALL, mine, k))
    if i % 32 == 31:
        maxima[i // 32] = mine


@right("occupancy")
def the_smallest_of_a_list(threads, registers, shared):
    warps = threads // 32
    of_a_warp = -(-32 * registers // 256) * 256
    fit = [64 // warps, 32, 4 * (16_384 // of_a_warp) // warps, 228 * 1024 // (shared + 1024)]
    return warps * min(fit)


@right("occupancy")
def one_block_after_the_other(threads, registers, shared):
    warps, blocks = threads // 32, 0
    in_a_part = 16_384 // (math.ceil(registers / 8) * 256)
    while ((blocks + 1) * warps <= min(64, 4 * in_a_part) and blocks < 32
           and (blocks + 1) * (shared + 1024) <= 233_472):
        blocks += 1
    return blocks * warps



@right("tiled-matmul")
@cuda.jit
def tiles_of_eight_numbers_more(a, b, out):
    tile_a = cuda.shared.array((16, 17), float32)
    tile_b = cuda.shared.array((16, 17), float32)
    j, i = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float64(0)
    for step in range((a.shape[1] + 15) // 16):
        k = 16 * step
        tile_a[y, x] = 0
        tile_b[y, x] = 0
        if i < a.shape[0] and k + x < a.shape[1]:
            tile_a[y, x] = a[i, k + x]
        if k + y < b.shape[0] and j < b.shape[1]:
            tile_b[y, x] = b[k + y, j]
        cuda.syncthreads()
        for n in range(16):
            total += tile_a[y, n] * tile_b[n, x]
        cuda.syncthreads()
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = total


@right("tiled-matmul")
@cuda.jit
def the_other_tile_turned(a, b, out):
    tile_a = cuda.shared.array((16, 16), float32)
    turned_b = cuda.shared.array((16, 16), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, b.shape[0], 16):
        tile_a[y, x] = a[row, start + x] if row < a.shape[0] and start + x < a.shape[1] else 0
        turned_b[x, y] = b[start + y, column] if (
            start + y < b.shape[0] and column < b.shape[1]) else 0
        cuda.syncthreads()
        for k in range(16):
            total += tile_a[y, k] * turned_b[x, k]
        cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total
