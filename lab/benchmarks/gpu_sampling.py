"""Random numbers: the samplers of project 2 and lecture 11 against CuPy and JAX."""

from __future__ import annotations

import math

import numpy as np

from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    fitting,
    full_grid,
    jax_ready,
    on_cupy,
    on_numba,
)

PROJECT, LECTURE = "02_area_by_sampling", "08_random_numbers"
BLOCK = 128


def disc(size: int) -> Work:
    """Time counts of random points of a square that lie in a disc; float64 unless stated."""
    import cupy as cp

    points = min(256, size)  # numbers per thread or stream
    n = fitting(size, 64) // points * points
    threads = n // points
    work = Work(n, "points")

    def check(hits):
        hits, p = int(hits), math.pi / 4
        z = (hits - n * p) / math.sqrt(n * p * (1 - p))
        assert abs(z) < 6, f"π comes out as {4 * hits / n:.6f}, {z:+.1f} errors off"

    @work.add("xoroshiro", "Numba, xoroshiro128+, a state for each thread")
    def _():
        kernels = take(PROJECT, "seed_states", "count_hits", "add_hits", "xoroshiro128p_dtype")
        from numba import cuda

        states = cuda.device_array(threads, kernels.xoroshiro128p_dtype)
        hits, total = cp.zeros(threads, np.int32), cp.zeros(1, np.int64)
        d_hits, d_total = on_numba(hits), on_numba(total)
        blocks = (threads + BLOCK - 1) // BLOCK
        kernels.seed_states[blocks, BLOCK](2026, states)

        def run():
            total.fill(0)
            kernels.count_hits[blocks, BLOCK](states, points, -1.0, 1.0, -1.0, 1.0, d_hits)
            kernels.add_hits[min(blocks, 64), BLOCK](d_hits, d_total)
            return total

        return Ready(run, lambda result: check(result[0]))

    @work.add("philox", "Numba, Philox, no state")
    def _():
        count, total = take(PROJECT, "count_points").count_points, cp.zeros(1, np.int64)
        d_total, blocks = on_numba(total), full_grid(BLOCK)

        def run():
            total.fill(0)
            count[blocks, BLOCK](7, 0, n, -1.0, 1.0, -1.0, 1.0, d_total)
            return total

        return Ready(run, lambda result: check(result[0]))

    @work.add("cupy", "CuPy, Generator.uniform, then arrays", made_by="CuPy")
    def _():
        random = cp.random.default_rng(9)

        def run():
            x, y = random.uniform(-1, 1, n), random.uniform(-1, 1, n)
            return (x * x + y * y < 1).sum()

        return Ready(run, check)

    @work.add("jax", "JAX, a key for each stream, float32", "queue", "JAX")
    def _():
        jax = jax_ready()
        sample = jax.jit(take(PROJECT, "jax_hits").jax_hits, static_argnums=(1, 2))
        add = jax.jit(lambda seed: sample(seed, threads, points).sum())
        return Ready(lambda: add(3), check)

    return work


def numbers(size: int) -> Work:
    """Time uniform numbers written to memory; float64 unless stated."""
    import cupy as cp

    n = fitting(size, 32)
    work = Work(n, "numbers", bytes=8 * n)

    def check(values):
        values = on_cupy(values)
        assert values.size == n and bool((values >= 0).all()) and bool((values <= 1).all())
        # Check the mean and the mean square of n uniform numbers to within six standard errors.
        for power, mean, variance in ((1, 1 / 2, 1 / 12), (2, 1 / 3, 4 / 45)):
            off = float((values.astype(np.float64) ** power).mean()) - mean
            assert abs(off) < 6 * math.sqrt(variance / n), f"the mean of x^{power} is off by {off}"

    @work.add("counter", "Numba, by counter (SplitMix64)")
    def _():
        fill, out = take(LECTURE, "fill").fill, cp.full(n, np.nan)
        d_out, blocks, key = on_numba(out), full_grid(256), np.uint64(2026)
        return Ready(lambda: fill[blocks, 256](key, d_out), lambda _: check(out))

    @work.add("cupy", "CuPy, Generator.random", made_by="CuPy")
    def _():
        random = cp.random.default_rng(9)
        # out= is not used, because without a size CuPy 14 draws one number and fills the array with
        # it.
        return Ready(lambda: random.random(n), check)

    @work.add("cupy-legacy", "CuPy, cupy.random.random_sample", made_by="CuPy")
    def _():
        cp.random.seed(9)
        return Ready(lambda: cp.random.random_sample(n), check)

    @work.add("jax", "JAX, random.uniform, float64", "queue", "JAX")
    def _():
        jax = jax_ready()
        draw = jax.jit(
            lambda seed: jax.random.uniform(jax.random.key(seed), (n,), dtype=jax.numpy.float64)
        )
        return Ready(lambda: draw(9), check)

    return work


GROUPS = (
    Group("sampling.disc", "Random points in a disc", disc, (2**26,), (2**12,)),
    Group(
        "sampling.numbers",
        "Random numbers, written to memory",
        numbers,
        (2**27,),
        (2**12,),
        patience=0.8,
        x64=True,
    ),
)
