"""Right answers to the exercises of "Numba CUDA" in other styles than the lecture's."""
from __future__ import annotations
import math
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
