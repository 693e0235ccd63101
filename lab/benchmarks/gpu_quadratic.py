"""The quadratic formula of "CuPy: NumPy on the device", with every tool of the course."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    blocks_for,
    expect_close,
    fitting,
    jax_ready,
    on_jax,
    on_numba,
)

LECTURE = "05_cupy"
#: b², 4a, ·c, the difference, the root, the sum, 2a and the quotient; a change of sign is not
#: counted.
FLOPS = 8


def quadratic(kind: type, *, with_cpu: bool = False) -> Callable[[int], Work]:
    """Return a builder of the work for float32 or float64; with NumPy if sizes are scanned."""

    def build(size: int) -> Work:
        import cupy as cp
        from numba import cuda

        width = np.dtype(kind).itemsize
        n = fitting(size, 96)  # including the temporaries of the array version and of the check
        work = Work(n, "particles", bytes=4 * width * n, flops=FLOPS * n)
        random = cp.random.default_rng(3)
        # Any a, b > 0 and c < 0 have a real root, so nothing cancels and no NaN hides a mistake.
        a, b = (random.uniform(low, low + 1, n).astype(kind) for low in (1, 2))
        c = random.uniform(-2, -1, n).astype(kind)
        formula = take(LECTURE, "time_to_wall").time_to_wall
        with_numpy = [cp.asnumpy(part[:1000]) for part in (a, b, c)]
        expected = formula(*(part.astype(np.float64) for part in (a, b, c)))
        # Compare the reference itself with NumPy.
        expect_close(expected[:1000], formula(*(p.astype(np.float64) for p in with_numpy)), 1e-14)
        # float32 loses a digit in the difference, and libraries may use approximate roots.
        rtol = 1e-12 if kind is np.float64 else 1e-5

        def check(result, out=None):
            expect_close(result if out is None else out, expected, rtol, "the root")

        @work.add("numba", "Numba kernel")
        def _():
            # This is the lecture's own code, with math instead of numpy. (For float32 and the
            # integers 2 and 4, Numba computes in float64: see "Numba CUDA: kernels in Python".)
            same = take(LECTURE, "time_to_wall", given={"np": math}).time_to_wall
            on_device = cuda.jit(device=True)(same)

            @cuda.jit
            def each(a, b, c, out):
                i = cuda.grid(1)
                if i < out.size:
                    out[i] = on_device(a[i], b[i], c[i])

            out = cp.full(n, np.nan, kind)
            arrays, blocks = [on_numba(x) for x in (a, b, c, out)], blocks_for(n, 256)
            return Ready(lambda: each[blocks, 256](*arrays), lambda _: check(None, out))

        @work.add("cupy-fuse", "CuPy, fused", made_by="CuPy")
        def _():
            fused = take(LECTURE, "fused_time").fused_time
            return Ready(lambda: fused(a, b, c), check)

        @work.add("cupy-fuse-product", "the same with b * b for b**2", made_by="CuPy")
        def _():
            @cp.fuse()
            def fused_product(a, b, c):  # cp.fuse compiles b**2 to a call of pow, not to a product
                return (-b + cp.sqrt(b * b - 4 * a * c)) / (2 * a)

            return Ready(lambda: fused_product(a, b, c), check)

        @work.add("cupy-elementwise", "CuPy ElementwiseKernel", made_by="CuPy")
        def _():
            kernel = take(LECTURE, "wall_kernel").wall_kernel
            out = cp.full(n, np.nan, kind)
            return Ready(lambda: kernel(a, b, c, out), lambda _: check(None, out))

        @work.add("cpp", "CUDA C++ (RawKernel)", made_by="C++")
        def _():
            source = 'extern "C"' + take("03_the_walk", "wall_source").wall_source
            if kind is np.float32:
                source = source.replace("double", "float")
            kernel, out = cp.RawKernel(source, "wall"), cp.full(n, np.nan, kind)
            blocks = blocks_for(n, 256)
            return Ready(
                lambda: kernel((blocks,), (256,), (a, b, c, out, np.int32(n))),
                lambda _: check(None, out),
            )

        @work.add("jax", "JAX, jit", "queue", "JAX")
        def _():
            jax = jax_ready()
            same = take(LECTURE, "time_to_wall", given={"np": jax.numpy}).time_to_wall
            compiled, arrays = jax.jit(same), [on_jax(x) for x in (a, b, c)]
            assert arrays[0].dtype == kind, f"JAX made {arrays[0].dtype} of {kind.__name__}"
            return Ready(lambda: compiled(*arrays), check)

        @work.add("cupy-arrays", "CuPy, nine kernels", made_by="CuPy")
        def _():
            return Ready(lambda: formula(a, b, c), check)

        if with_cpu:

            @work.add("numpy", "NumPy, one core", "call", "CPU")
            def _():
                arrays = [cp.asnumpy(x) for x in (a, b, c)]
                return Ready(lambda: formula(*arrays), check)

        return work

    return build


#: Sizes of scans, from an almost empty launch to arrays far larger than any cache.
SCAN = tuple(4**k for k in range(4, 13))

GROUPS = (
    Group(
        "quadratic.float64",
        "Quadratic formula, float64",
        quadratic(np.float64),
        (2**26,),
        (1009,),
        x64=True,
    ),
    Group(
        "quadratic.float32", "Quadratic formula, float32", quadratic(np.float32), (2**27,), (1009,)
    ),
    Group(
        "scaling.quadratic",
        "Quadratic formula, float64, by size",
        quadratic(np.float64, with_cpu=True),
        SCAN,
        (33,),
        patience=0.15,
        x64=True,
    ),
)
