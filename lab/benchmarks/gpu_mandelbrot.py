"""The Mandelbrot set: the picture of lecture 18 with every tool, and the area of project 2."""

from __future__ import annotations

import numpy as np

from lab.benchmarks import gpu_tuned
from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    full_grid,
    jax_ready,
    on_cupy,
    on_jax,
    on_numba,
)

LECTURE, PROJECT = "18_one_problem_every_tool", "02_area_by_sampling"
LIMIT = 100  # steps, as in the lecture
#: Operations of a step in the lecture's text: xx, yy, their sum and difference, + cx; x + x, · y, +
#: cy.
FLOPS = 8
AREA, BOX = 1.5065918849, 6.25  # values of project 2, with its source


def axes(width: int):
    """Return float32 axes of the lecture's window with width × 2/3 width points."""
    height = 2 * width // 3
    return (
        np.linspace(-2.2, 0.8, width, dtype=np.float32),
        np.linspace(-1.0, 1.0, height, dtype=np.float32),
    )


def picture(width: int) -> Work:
    """Time the steps until each point escapes; inputs and result stay on the device."""
    import cupy as cp

    real, imag = axes(width)
    shape = imag.size, real.size
    d_real, d_imag = cp.asarray(real), cp.asarray(imag)
    # The reference for the others is one kernel without fused multiply-add, so it rounds as NumPy
    # does.
    source = take(LECTURE, "SOURCE").SOURCE
    expected = cp.zeros(shape, np.int32)
    blocks = (real.size + 31) // 32, (imag.size + 7) // 8
    numbers = np.int32(real.size), np.int32(imag.size)
    cp.RawKernel(source, "stays", options=("--fmad=false",))(
        blocks, (32, 8), (d_real, d_imag, np.int32(LIMIT), expected, *numbers)
    )
    few = slice(None, None, max(1, width // 96))
    with np.errstate(all="ignore"):  # points that have escaped continue to infinity
        small = take(LECTURE, "whole_picture").whole_picture(np, real[few], imag[few], LIMIT)
    assert np.array_equal(cp.asnumpy(expected)[few, few], small), "the reference is not NumPy's"
    work = Work(
        expected.size,
        "pixels",
        bytes=4 * expected.size,
        flops=FLOPS * int(expected.sum(dtype=np.int64)),
    )

    def check(result):
        result = on_cupy(result)
        assert result.shape == shape, f"shape {result.shape}"
        # The lecture's own tolerance: fma and double precision change some points at the edge.
        off = int((result != expected).sum())
        assert off <= 1e-3 * expected.size, f"{off:,} of {expected.size:,} pixels differ"

    def elementwise(id, label, name):
        @work.add(id, label, made_by="CuPy")
        def _():
            kernel = take(LECTURE, name).__dict__[name]
            out = cp.zeros(shape, np.int32)
            cx, cy = d_real[None, :], d_imag[:, None]
            return Ready(lambda: kernel(cx, cy, np.int32(LIMIT), out), lambda _: check(out))

    @work.add("numba", "Numba kernel")
    def _():
        kernel, out = take(LECTURE, "stays_cuda").stays_cuda, cp.zeros(shape, np.int32)
        arrays = on_numba(d_real), on_numba(d_imag), LIMIT, on_numba(out)
        return Ready(lambda: kernel[blocks, (32, 8)](*arrays), lambda _: check(out))

    @work.add("narrow", "Numba, counting in 32 bits", made_by="tuned")
    def _():
        kernel, out = gpu_tuned.stays_narrow(), cp.zeros(shape, np.int32)
        arrays = on_numba(d_real), on_numba(d_imag), np.int32(LIMIT), on_numba(out)
        return Ready(lambda: kernel[blocks, (32, 8)](*arrays), lambda _: check(out))

    @work.add("cpp", "CUDA C++ (RawKernel)", made_by="C++")
    def _():
        kernel, out = cp.RawKernel(source, "stays"), cp.zeros(shape, np.int32)
        return Ready(
            lambda: kernel(blocks, (32, 8), (d_real, d_imag, np.int32(LIMIT), out, *numbers)),
            lambda _: check(out),
        )

    elementwise("cupy-elementwise", "CuPy ElementwiseKernel", "stays_elementwise")
    elementwise("cupy-register", "the same, counting in a register", "frugal")

    @work.add("jax", "JAX, jit with fori_loop", "queue", "JAX")
    def _():
        jax_ready()
        draw = take(LECTURE, "jax_picture").jax_picture
        arrays = on_jax(d_real), on_jax(d_imag)
        return Ready(lambda: draw(*arrays, LIMIT), check)

    @work.add("cupy-arrays", "CuPy, a thousand kernels", made_by="CuPy")
    def _():
        whole = take(LECTURE, "whole_picture").whole_picture
        return Ready(lambda: whole(cp, d_real, d_imag, LIMIT), check)

    return work


def area(size: int) -> Work:
    """Time project 2: the random points that do not escape, with and without waiting lanes."""
    import cupy as cp

    work, limit, seed = Work(size, "points"), 500, 2

    def kernel(id, label, name):
        @work.add(id, label)
        def _():
            function, total = take(PROJECT, name).__dict__[name], cp.zeros(1, np.int64)
            d_total, blocks = on_numba(total), full_grid(128)

            def run():
                total.fill(0)
                function[blocks, 128](seed, 0, size, limit, d_total)
                return total

            def check(result):
                hits, p = int(result[0]), AREA / BOX
                # Undecided points make the area 0.003 too large (measured in the project).
                allowed = 6 * (size * p * (1 - p)) ** 0.5 + 0.006 / BOX * size
                assert abs(hits - size * p) < allowed, f"an area of {BOX * hits / size:.4f}"

            return Ready(run, check)

    kernel("hits", "Numba, a lane waits for its slowest neighbour", "mandelbrot_hits")
    kernel("fast", "Numba, a lane that is done fetches the next point", "mandelbrot_fast")
    return work


GROUPS = (
    Group(
        "mandelbrot.picture",
        "Picture of the Mandelbrot set, 100 steps",
        picture,
        (3072, 1536),
        (96,),
    ),
    Group(
        "mandelbrot.area",
        "Area of the Mandelbrot set by sampling, 500 turns",
        area,
        (10_000_000,),
        (2000,),
        patience=0.8,
    ),
)
