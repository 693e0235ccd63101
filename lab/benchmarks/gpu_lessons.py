"""Times of pairs of kernels whose counts the lectures compare.

They are coalescing, bank conflicts and transposition from "Thinking in warps", and the matrix
product from "Numba CUDA: kernels in Python". Two more pairs show where bank conflicts cost time:
in a column of 32 without padding where nothing else limits the kernel, and within a transposition.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    expect_close,
    expect_number,
    fitting,
    full_grid,
    jax_ready,
    on_jax,
    on_numba,
)

WARPS_LECTURE = "12_thinking_in_warps"


def adding(work: Work, lesson: str, blocks, threads, given: tuple, fresh, check):
    """Return ``kernel(id, label, name)``, which adds the lesson's kernel ``name`` to ``work``.

    It is launched with the arrays ``given`` and with the result of ``fresh()``, which is also
    passed to ``check``.
    """

    def kernel(id: str, label: str, name: str) -> None:
        @work.add(id, label)
        def _():
            function, out = getattr(take(lesson, name), name), fresh()
            arrays = [on_numba(array) for array in (*given, out)]
            return Ready(lambda: function[blocks, threads](*arrays), lambda _: check(out))

    return kernel


def coalescing(size: int) -> Work:
    """Time partial sums with adjacent threads on adjacent elements, and with contiguous shares."""
    import cupy as cp

    n = fitting(size, 12)
    work = Work(n, "numbers", bytes=4 * n, flops=n)
    values = cp.random.default_rng(4).uniform(0, 1, n).astype(np.float32)
    expected, blocks = float(values.sum(dtype=np.float64)), full_grid(128)
    kernel = adding(
        work,
        WARPS_LECTURE,
        blocks,
        128,
        (values,),
        lambda: cp.zeros(blocks * 128),
        lambda partial: expect_number(partial.sum(), expected, 1e-9),
    )
    kernel("side-by-side", "Numba, neighbouring lanes read neighbours", "partial_sums")
    kernel("shares", "Numba, each lane reads a share of its own", "sums_of_shares")
    return work


def banks(size: int) -> Work:
    """Time sums of 128 numbers in shared memory: by halves, and with bank conflicts."""
    import cupy as cp

    n = fitting(size, 12) // 128 * 128
    work = Work(n, "numbers", bytes=4 * n, flops=n)
    values = cp.random.default_rng(4).uniform(0, 1, n).astype(np.float32)
    expected = values.reshape(-1, 128).sum(axis=1)
    kernel = adding(
        work,
        WARPS_LECTURE,
        n // 128,
        128,
        (values,),
        lambda: cp.full(n // 128, np.nan, np.float32),
        lambda sums: expect_close(sums, expected, 1e-5),
    )
    kernel("halves", "Numba, the far half onto the near half", "fold_halves")
    kernel("neighbours", "Numba, neighbours, with bank conflicts", "fold_neighbours")
    return work


#: The number of columns that each thread of :func:`columns` reads, which is all of a tile. Only
#: shared memory should limit the kernel. (With more, the compiler would keep values in registers.)
ROUNDS = 32


@cache
def turn_unpadded():
    """Return ``turn`` of the lecture with a tile of 32 columns, the usual first version."""
    from numba import cuda, float32

    @cuda.jit
    def turn_unpadded(table, turned):
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        first_i, first_j = 32 * cuda.blockIdx.y, 32 * cuda.blockIdx.x
        tile = cuda.shared.array((32, 32), float32)
        if first_i + y < table.shape[0] and first_j + x < table.shape[1]:
            tile[y, x] = table[first_i + y, first_j + x]
        cuda.syncthreads()
        if first_j + y < table.shape[1] and first_i + x < table.shape[0]:
            turned[first_j + y, first_i + x] = tile[x, y]

    return turn_unpadded


@cache
def column_sums(width: int):
    """Return a kernel whose warps read the columns of a shared tile ``width`` words wide.

    The tile has 32 rows. With 32 columns, the words that a warp reads lie in one bank; with 33, in
    32 banks.
    """
    from numba import cuda, float32, uint32

    @cuda.jit
    def sum_columns(values, sums):
        tile = cuda.shared.array((32, width), float32)
        lane, row = cuda.threadIdx.x, cuda.threadIdx.y
        for k in range(row, 32, 8):
            tile[k, lane] = values[k, lane]
        cuda.syncthreads()
        mine = float32(0)
        column = uint32(row + cuda.blockIdx.x)
        for _ in range(ROUNDS):
            mine += tile[uint32(lane), column % uint32(32)]
            column += uint32(1)
        sums[cuda.blockIdx.x, row, lane] = mine

    return sum_columns


def columns(blocks: int) -> Work:
    """Time columns of a shared tile: one transaction per load with padding, 32 without."""
    import cupy as cp

    work = Work(blocks * 256 * ROUNDS, "words")
    values = cp.random.default_rng(4).uniform(0, 1, (32, 32)).astype(np.float32)
    # Every thread reads all columns of its row.
    expected = cp.broadcast_to(values.sum(axis=1), (blocks, 8, 32))

    def kernel(id: str, label: str, width: int) -> None:
        @work.add(id, label)
        def _():
            function, sums = column_sums(width), cp.full((blocks, 8, 32), np.nan, np.float32)
            arrays = on_numba(values), on_numba(sums)
            return Ready(
                lambda: function[blocks, (32, 8)](*arrays),
                lambda _: expect_close(sums, expected, 1e-5),
            )

    kernel("padded", "Numba, columns of a tile of 32 × 33: no conflict", 33)
    kernel("plain", "Numba, columns of a tile of 32 × 32: conflicts of 32", 32)
    return work


def turning(size: int) -> Work:
    """Time the transposition of a square table of float32."""
    import cupy as cp

    work = Work(size * size, "numbers", bytes=8 * size * size, flops=0)
    table = cp.random.default_rng(4).uniform(0, 1, (size, size)).astype(np.float32)
    blocks = ((size + 31) // 32,) * 2
    kernel = adding(
        work,
        WARPS_LECTURE,
        blocks,
        (32, 32),
        (table,),
        lambda: cp.full((size, size), np.nan, np.float32),
        lambda turned: expect_close(turned, table.T, 0.0),
    )
    kernel("plain", "Numba, writes scattered", "turn_plainly")
    kernel("tiled", "Numba, by tiles of 32 × 33 in shared memory", "turn")

    @work.add("unpadded", "Numba, by tiles of 32 × 32: the columns are conflicts of 32")
    def _():
        function, turned = turn_unpadded(), cp.full((size, size), np.nan, np.float32)
        arrays = on_numba(table), on_numba(turned)
        return Ready(
            lambda: function[blocks, (32, 32)](*arrays),
            lambda _: expect_close(turned, table.T, 0.0),
        )

    @work.add("cupy", "CuPy, ascontiguousarray(table.T)", made_by="CuPy")
    def _():
        return Ready(
            lambda: cp.ascontiguousarray(table.T), lambda turned: expect_close(turned, table.T, 0.0)
        )

    return work


def product(size: int) -> Work:
    """Time a square matrix product in float32."""
    import cupy as cp

    work = Work(size * size, "elements", bytes=12 * size * size, flops=2 * size**3)
    random = cp.random.default_rng(4)
    a, b = (random.uniform(0, 1, (size, size)).astype(np.float32) for _ in range(2))
    blocks = ((size + 15) // 16,) * 2
    expected = a.astype(np.float64) @ b.astype(np.float64)
    rtol = 1e-4  # float32, sums of positive numbers: no cancellation
    kernel = adding(
        work,
        WARPS_LECTURE,
        blocks,
        (16, 16),
        (a, b),
        lambda: cp.full((size, size), np.nan, np.float32),
        lambda out: expect_close(out, expected, rtol),
    )
    kernel("naive", "Numba, a thread for each element", "matmul")
    kernel("tiled", "Numba, by tiles of 16 × 16 in shared memory", "matmul_any")

    @work.add("cupy", "cupy.matmul (cuBLAS)", made_by="CuPy")
    def _():
        return Ready(lambda: cp.matmul(a, b), lambda out: expect_close(out, expected, rtol))

    @work.add("jax", "JAX, highest precision", "queue", "JAX")
    def _():
        jax = jax_ready()
        # JAX may use tf32 by default, which has a mantissa of ten bits.
        multiply = jax.jit(lambda x, y: jax.numpy.matmul(x, y, precision="highest"))
        x, y = on_jax(a), on_jax(b)
        return Ready(lambda: multiply(x, y), lambda out: expect_close(out, expected, rtol))

    return work


GROUPS = (
    Group(
        "lesson.coalescing",
        "Reading side by side, or in shares",
        coalescing,
        (2**28,),
        (1009,),
        patience=0.5,
    ),
    Group("lesson.banks", "Bank conflicts in a fold", banks, (2**28,), (1024,), patience=0.5),
    Group(
        "lesson.columns",
        "Columns of a tile in shared memory, 32 loads each thread",
        columns,
        (2**16,),
        (3,),
        patience=0.5,
    ),
    Group("lesson.turning", "A table turned", turning, (2**14,), (96,), patience=0.5),
    Group("lesson.product", "Matrix product, float32", product, (4096,), (33,), patience=0.8),
)
