"""Kernels that do the lectures' work and are closer to the libraries' speed.

Three changes make the difference, each found in the machine code from ``ptxas`` (docs/gpu.md, "As
fast as the libraries"). First, a thread issues several loads before it uses the first; they are
consecutive, at addresses with constant distances. Second, indices are unsigned, because for signed
indices Numba checks the sign to support ``values[-1]``. Third, counters are only as wide as
necessary.
"""

from __future__ import annotations

from functools import cache

from numba import cuda, float32, float64, int32, uint32, uint64
from numba.core.extending import intrinsic

#: Threads per block of :func:`sum_eight` and :func:`sum_vectors`, and of :func:`fill_eight`.
SUM_THREADS, FILL_THREADS = 128, 256
SUM_WARPS = SUM_THREADS // 32
MAX_SLOTS = 1024


@intrinsic
def four_at(typing, array, start):
    """Load four adjacent values with one load of 16 bytes; ``start`` is a multiple of four."""
    from llvmlite import ir
    from numba.core import types
    from numba.np import arrayobj

    def generate(context, builder, signature, arguments):
        held = arrayobj.make_array(signature.args[0])(context, builder, arguments[0])
        four = ir.VectorType(ir.FloatType(), 4)
        address = builder.bitcast(builder.gep(held.data, [arguments[1]]), four.as_pointer())
        loaded = builder.load(address)
        loaded.align = 16
        parts = [builder.extract_element(loaded, ir.IntType(32)(k)) for k in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float32, 4)(array, start), generate


@cuda.jit(device=True)
def add_to(total, mine):
    """Add a block's numbers to ``total[0]``: shuffles in warps, then shared memory.

    One thread adds the sum of the block. (With one atomic per warp, the atomics would wait for
    each other: ``reduction/shuffle``.)
    """
    place = cuda.shared.array(SUM_WARPS, float64)
    for k in (16, 8, 4, 2, 1):
        mine += cuda.shfl_down_sync(0xFFFFFFFF, mine, k)
    if cuda.threadIdx.x % 32 == 0:
        place[cuda.threadIdx.x // 32] = mine
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for warp in range(1, SUM_WARPS):
            mine += place[warp]
        cuda.atomic.add(total, 0, mine)


@cache
def sum_eight():
    """Return a kernel that adds the sum of float32 ``values``, with eight loads in flight."""
    t = SUM_THREADS
    k1, k2, k3, k4, k5, k6, k7 = (uint64(k * t) for k in range(1, 8))

    @cuda.jit
    def sum_eight(values, total):
        n, tile = uint64(values.size), uint64(8 * t)
        i = uint64(cuda.blockIdx.x) * tile + uint64(cuda.threadIdx.x)
        mine = 0.0
        while i + k7 < n:
            a, b, c, d = values[i], values[i + k1], values[i + k2], values[i + k3]
            e, f, g, h = values[i + k4], values[i + k5], values[i + k6], values[i + k7]
            mine += ((float64(a) + b) + (float64(c) + d)) + ((float64(e) + f) + (float64(g) + h))
            i += uint64(cuda.gridDim.x) * tile
        while i < n:  # at most one block has part of a tile, in its last iteration
            mine += values[i]
            i += uint64(t)
        add_to(total, mine)

    return sum_eight


@cache
def sum_vectors():
    """Return the same with four loads of 16 bytes; ``values`` must be aligned to 16 bytes."""
    row = 4 * SUM_THREADS
    k1, k2, k3 = (uint64(k * row) for k in range(1, 4))

    @cuda.jit
    def sum_vectors(values, total):
        n, tile = uint64(values.size), uint64(4 * row)
        i = uint64(cuda.blockIdx.x) * tile + uint64(4) * uint64(cuda.threadIdx.x)
        mine = 0.0
        while i + k3 + uint64(4) <= n:
            a, b = four_at(values, i), four_at(values, i + k1)
            c, d = four_at(values, i + k2), four_at(values, i + k3)
            mine += (
                ((float64(a[0]) + a[1]) + (float64(a[2]) + a[3]))
                + ((float64(b[0]) + b[1]) + (float64(b[2]) + b[3]))
            ) + (
                ((float64(c[0]) + c[1]) + (float64(c[2]) + c[3]))
                + ((float64(d[0]) + d[1]) + (float64(d[2]) + d[3]))
            )
            i += uint64(cuda.gridDim.x) * tile
        for k in range(4):
            for j in range(4):
                at = i + uint64(row) * uint64(k) + uint64(j)
                if at < n:
                    mine += values[at]
        add_to(total, mine)

    return sum_vectors


@cuda.jit(device=True)
def slot_of(value, low, high, scale, bins):
    """Return project 1's bin with one product.

    0 is underflow, 1 to bins are bins, and bins + 1 is for overflow and NaN.
    """
    if value < low:
        return uint32(0)
    if value < high:
        return min(uint32((value - low) * scale), bins - uint32(1)) + uint32(1)
    return bins + uint32(1)


@cache
def fill_eight():
    """Return project 1's ``fill_shared`` with eight loads in flight and no division.

    ``scale`` replaces the division.
    """
    t = FILL_THREADS
    k1, k2, k3, k4, k5, k6, k7 = (uint64(k * t) for k in range(1, 8))

    @cuda.jit
    def fill_eight(values, low, high, scale, counts):
        mine = cuda.shared.array(MAX_SLOTS, int32)
        slots, own = uint32(counts.size), uint32(cuda.threadIdx.x)
        bins = slots - uint32(2)
        for slot in range(own, slots, uint32(t)):
            mine[slot] = 0
        cuda.syncthreads()
        n, tile = uint64(values.size), uint64(8 * t)
        i = uint64(cuda.blockIdx.x) * tile + uint64(own)
        while i + k7 < n:
            a, b, c, d = values[i], values[i + k1], values[i + k2], values[i + k3]
            e, f, g, h = values[i + k4], values[i + k5], values[i + k6], values[i + k7]
            for one in (a, b, c, d, e, f, g, h):
                cuda.atomic.add(mine, slot_of(one, low, high, scale, bins), 1)
            i += uint64(cuda.gridDim.x) * tile
        while i < n:
            cuda.atomic.add(mine, slot_of(values[i], low, high, scale, bins), 1)
            i += uint64(t)
        cuda.syncthreads()
        for slot in range(own, slots, uint32(t)):
            if mine[slot] > 0:
                cuda.atomic.add(counts, slot, mine[slot])

    return fill_eight


@cache
def stays_narrow():
    """Return ``stays_cuda`` of lecture 18 with 32-bit counters and one branch per step."""

    @cuda.jit
    def stays_narrow(real, imag, limit, out):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            cx, cy = real[column], imag[row]
            x = y = xx = yy = float32(0)
            steps = int32(0)
            while (steps < limit) & (xx + yy <= float32(4)):
                y = (x + x) * y + cy
                x = xx - yy + cx
                xx, yy = x * x, y * y
                steps = int32(steps + 1)
            out[row, column] = steps

    return stays_narrow
