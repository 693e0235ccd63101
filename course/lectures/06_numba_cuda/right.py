"""Right answers to the exercises of "Numba CUDA" in other styles than the lecture's."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import other_styles

from numba import cuda, float32, float64  # isort: skip  (after the virtual GPU is active)

RIGHT, right = other_styles("06_numba_cuda")


@right("loop-to-kernel")
@cuda.jit
def leaves_early(pt, eta, pz):
    i = cuda.threadIdx.x + cuda.blockDim.x * cuda.blockIdx.x
    if i >= pz.shape[0]:
        return
    pz[i] = 0.5 * pt[i] * (math.exp(eta[i]) - math.exp(-eta[i]))


@right("loop-to-kernel")
@cuda.jit
def strides_through_the_grid(pt, eta, pz):
    for i in range(cuda.grid(1), len(pt), cuda.gridsize(1)):
        pz[i] = math.sinh(eta[i]) * pt[i]


@right("device-function")
@cuda.jit(device=True)
def by_whole_turns(phi1, phi2):
    difference = phi1 - phi2
    return difference - 2 * math.pi * round(difference / (2 * math.pi))


@right("device-function")
@cuda.jit(device=True)
def by_loops(a, b):
    d = a - b
    while d > math.pi:
        d -= 2 * math.pi
    while d < -math.pi:
        d += 2 * math.pi
    return d


@right("single-precision")
@cuda.jit
def named_constants(energy, out):
    gain, offset = float32(0.983), float32(0.12)
    for i in range(cuda.grid(1), energy.size, cuda.gridsize(1)):
        out[i] = gain * energy[i] + offset


@right("single-precision")
@cuda.jit
def by_fma(energy, out):
    i = cuda.grid(1)
    if i >= energy.size:
        return
    out[i] = cuda.fma(energy[i], float32(0.983), float32(0.12))


@right("stencil")
@cuda.jit
def a_tile_with_its_halo(values, out):
    rows, columns = values.shape
    tile = cuda.shared.array((6, 34), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    inside = row < rows and column < columns
    if inside:
        tile[y + 1, x + 1] = values[row, column]
        if x == 0:
            tile[y + 1, 0] = values[row, (column - 1) % columns]
        if x == 31 or column == columns - 1:
            tile[y + 1, x + 2] = values[row, (column + 1) % columns]
        if y == 0:
            tile[0, x + 1] = values[row - 1, column] if row > 0 else 0
        if y == 3 or row == rows - 1:
            tile[y + 2, x + 1] = values[row + 1, column] if row + 1 < rows else 0
    cuda.syncthreads()
    if inside:
        out[row, column] = (tile[y + 1, x + 1] + tile[y + 1, x] + tile[y + 1, x + 2]
                            + tile[y, x + 1] + tile[y + 2, x + 1]) / 5


@right("stencil")
@cuda.jit
def neighbours_by_conditions(values, out):
    rows, columns = values.shape
    j, i = cuda.grid(2)
    if i >= rows or j >= columns:
        return
    left = j - 1 if j else columns - 1
    right_ = j + 1 if j + 1 < columns else 0
    total = values[i, j] + values[i, left] + values[i, right_]
    for k in (i - 1, i + 1):
        if 0 <= k < rows:
            total += values[k, j]
    out[i, j] = total / 5


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


@right("stencil")
@cuda.jit
def times_a_fifth(values, out):
    rows, columns = values.shape
    column, row = cuda.grid(2)
    if row >= rows or column >= columns:
        return
    above = values[row - 1, column] if row else 0
    below = values[row + 1, column] if row != rows - 1 else 0.0
    beside = values[row, column - 1] + values[row, (column + 1) % columns]
    out[row, column] = 0.2 * (values[row, column] + beside + above + below)


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
