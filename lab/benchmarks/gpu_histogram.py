"""Histograms: the kernels of project 1 against those of CuPy, CUB and JAX."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from lab.benchmarks import gpu_cub, gpu_tuned, gpu_twins
from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_reduction import without_cub
from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    fitting,
    full_grid,
    jax_ready,
    multiprocessors,
    needs_gpu,
    on_cupy,
    on_jax,
    on_numba,
    virtual,
)

PROJECT = "01_fill_a_histogram"
LOW, HIGH, BINS = 0.0, 120.0, 240  # GeV, as in the project's comparison with CuPy
THREADS = 256
ROW_BYTES = 2**28  # maximum for private histograms


def values_of(kind: str, n: int):
    """Return n float64 values from 0 to 120: "peaks" like the project's masses, or "even"."""
    import cupy as cp

    random = cp.random.default_rng(5)
    even = random.uniform(LOW, HIGH, n)
    if kind == "even":
        return even
    which, small = random.random(n), random.standard_normal(n)
    falling = cp.minimum(random.exponential(20.0, n), 119.9)
    peaks = cp.where(
        which < 0.25,
        3.1 + 0.03 * small,  # J/psi, which is narrower than a bin
        cp.where(
            which < 0.35, 9.5 + 0.1 * small, cp.where(which < 0.65, 91.2 + 1.8 * small, falling)
        ),
    )
    return cp.clip(peaks, 0.0, 119.9)


def histogram(kind: str) -> Callable[[int], Work]:
    """Return a builder of the work on ``size`` values of a kind."""

    def build(size: int) -> Work:
        import cupy as cp

        bins, n = BINS, fitting(size, 96)
        work = Work(n, "values", bytes=8 * n)
        values, slots = values_of(kind, n), bins + 2
        d_values, blocks = on_numba(values), min(full_grid(THREADS), max(1, n // THREADS))
        # The reference uses device arrays and the kernels' own rule, and is compared with NumPy.
        slot = cp.minimum((values - LOW) / (HIGH - LOW) * bins, bins - 1).astype(np.int32) + 1
        expected = cp.bincount(slot, minlength=slots)
        few = cp.asnumpy(values[:10_000])
        counted = np.histogram(few, bins, (LOW, HIGH))[0]
        assert (
            abs(cp.asnumpy(cp.bincount(slot[:10_000], minlength=slots))[1:-1] - counted).sum() <= 2
        ), "the reference disagrees with NumPy"
        del slot

        def check(counts, without_slots=False):
            counts = on_cupy(counts).astype(np.int64)
            wanted = expected[1:-1] if without_slots else expected
            off = int(cp.abs(counts - wanted).sum())
            # A value within a rounding error of an edge may be counted on either side of it.
            assert off <= max(4, 1e-6 * n), f"{off:,} of {n:,} values in the wrong bins"

        def adding(id, label, name, fresh=None, made_by="course"):
            @work.add(id, label, made_by=made_by)
            def _():
                kernel, counts = take(PROJECT, name).__dict__[name], cp.zeros(slots, np.int32)
                d_counts = on_numba(counts)

                def run():
                    counts.fill(0)
                    kernel[blocks, THREADS](d_values, LOW, HIGH, d_counts)
                    return counts

                return Ready(run, check)

        adding("shared", "Numba, one for each block in shared memory", "fill_shared")
        adding("atomic", "Numba, one for all, global atomics", "fill_atomic")

        @work.add("private", "Numba, one for each thread, then a tree")
        def _():
            kernels = take(PROJECT, "fill_private", "merge_rows")
            rows = min(ROW_BYTES // (4 * slots), 512 * multiprocessors())
            rows = 64 if virtual() else rows // THREADS * THREADS
            private, counts = cp.empty((rows, slots), np.int32), cp.zeros(slots, np.int32)
            d_private, d_counts = on_numba(private), on_numba(counts)

            def run():
                kernels.fill_private[max(1, rows // THREADS), THREADS](
                    d_values, LOW, HIGH, d_private
                )
                kernels.merge_rows[slots, THREADS](d_private, d_counts)
                return counts

            return Ready(run, check)

        @work.add("golf", "Numba, eight copies for each block, no global atomics")
        def _():
            kernels = take(PROJECT, "fill_rows", "add_rows")
            rows, counts = cp.empty((blocks, slots), np.int32), cp.zeros(slots, np.int32)
            d_rows, d_counts = on_numba(rows), on_numba(counts)

            def run():
                kernels.fill_rows[blocks, THREADS](d_values, LOW, HIGH, d_rows)
                kernels.add_rows[(slots + 63) // 64, 64](d_rows, d_counts)
                return counts

            return Ready(run, check)

        @work.add(
            "eight", "Numba, eight loads at once, a product for the quotient", made_by="tuned"
        )
        def _():
            kernel, counts = gpu_tuned.fill_eight(), cp.zeros(slots, np.int32)
            d_counts = on_numba(counts)

            def run():
                counts.fill(0)
                kernel[blocks, gpu_tuned.FILL_THREADS](
                    d_values, LOW, HIGH, bins / (HIGH - LOW), d_counts
                )
                return counts

            return Ready(run, check)

        @work.add("cpp", "CUDA C++ twin of shared", made_by="C++")
        def _():
            twin = cp.RawKernel(gpu_twins.FILL_SHARED, "fill_shared")
            counts = cp.zeros(slots, np.int32)

            def run():
                counts.fill(0)
                twin(
                    (blocks,),
                    (THREADS,),
                    (
                        values,
                        np.int64(n),
                        np.float64(LOW),
                        np.float64(HIGH),
                        counts,
                        np.int32(slots),
                    ),
                )
                return counts

            return Ready(run, check)

        @work.add("cupy", "cupy.histogram (CUB, by edges)", made_by="CuPy")
        def _():
            return Ready(
                lambda: cp.histogram(values, bins, (LOW, HIGH))[0],
                lambda counts: check(counts, True),
            )

        @work.add("cupy-own", "cupy.histogram without CUB", made_by="CuPy")
        def _():
            needs_gpu("CuPy without CUB")

            def run():
                with without_cub():
                    return cp.histogram(values, bins, (LOW, HIGH))[0]

            return Ready(run, lambda counts: check(counts, True))

        @work.add("cub", "CUB HistogramEven, by nvcc", made_by="C++")
        def _():
            counts = cp.zeros(bins, np.int32)
            call = gpu_cub.with_scratch(
                gpu_cub.library().histogram_even,
                ctypes.c_void_p(values.data.ptr),
                ctypes.c_void_p(counts.data.ptr),
                ctypes.c_int(bins),
                ctypes.c_double(LOW),
                ctypes.c_double(HIGH),
                ctypes.c_int(n),
            )
            return Ready(call, lambda _: check(counts, True))

        @work.add("bincount", "CuPy, bins as an array, then bincount", made_by="CuPy")
        def _():
            def run():
                place = ((values - LOW) * (bins / (HIGH - LOW))).astype(np.int32)
                return cp.bincount(place, minlength=bins)

            return Ready(run, lambda counts: check(counts, True))

        @work.add("jax", "JAX, jit of histogram", "queue", "JAX")
        def _():
            jax = jax_ready()
            array = on_jax(values)
            fill = jax.jit(lambda x: jax.numpy.histogram(x, bins, (LOW, HIGH))[0])
            return Ready(lambda: fill(array), lambda counts: check(counts, True))

        return work

    return build


GROUPS = (
    Group(
        "histogram.peaks",
        "Histogram of 240 bins, values in peaks",
        histogram("peaks"),
        (2**27,),
        (4099,),
        x64=True,
    ),
    Group(
        "histogram.even",
        "Histogram of 240 bins, values spread evenly",
        histogram("even"),
        (2**27,),
        (4099,),
        patience=0.8,
        x64=True,
    ),
)
