"""Sums: the kernels of "Trees and barriers" and "… in warps" against CuPy, CUB and JAX."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

import numpy as np

from lab.benchmarks import gpu_cub, gpu_tuned, gpu_twins
from lab.benchmarks.gpu_cells import take
from lab.benchmarks.gpu_quadratic import SCAN
from lab.benchmarks.gpu_work import (
    Group,
    Ready,
    Work,
    expect_number,
    fitting,
    full_grid,
    jax_ready,
    needs_gpu,
    on_jax,
    on_numba,
)

LECTURE, WARPS_LECTURE = "07_trees_and_barriers", "12_thinking_in_warps"
THREADS = 128  # as in the lectures


@contextlib.contextmanager
def without_cub():
    """Use CuPy's own reductions and routines instead of CUB, its default."""
    from cupy import _core

    before = _core.get_routine_accelerators(), _core.get_reduction_accelerators()
    _core.set_routine_accelerators([])
    _core.set_reduction_accelerators([])
    try:
        yield
    finally:
        _core.set_routine_accelerators(before[0])
        _core.set_reduction_accelerators(before[1])


def reduction(*, scan: bool = False) -> Callable[[int], Work]:
    """Return a builder of the work: the sum of ``size`` float32 numbers."""

    def build(size: int) -> Work:
        import cupy as cp

        n = fitting(size, 12)
        work = Work(n, "numbers", bytes=4 * n, flops=n)
        # All are positive, so the sum has no cancellation and a float32 tree is right to a few
        # digits.
        values = cp.random.default_rng(4).uniform(0, 1, n).astype(np.float32)
        expected = float(cp.asnumpy(values).sum(dtype=np.float64))
        blocks = min(full_grid(THREADS), max(1, n // THREADS))

        def kernel(id, label, get, made_by="course"):
            @work.add(id, label, made_by=made_by)
            def _():
                function, total = get(), cp.zeros(1)
                d_values, d_total = on_numba(values), on_numba(total)

                def run():
                    total.fill(0)  # a sum must start at zero
                    function[blocks, THREADS](d_values, d_total)
                    return total

                return Ready(run, lambda result: expect_number(result, expected, 1e-9))

        kernel("tree", "Numba, tree in shared memory", lambda: take(LECTURE, "sum_all").sum_all)
        kernel(
            "shuffle", "Numba, shuffles", lambda: take(WARPS_LECTURE, "sum_by_warps").sum_by_warps
        )
        if not scan:
            kernel("eight", "Numba, shuffles and eight loads at once", gpu_tuned.sum_eight, "tuned")
            kernel(
                "vectors",
                "Numba, shuffles and four loads of 16 bytes",
                gpu_tuned.sum_vectors,
                "tuned",
            )

            @work.add("cpp", "CUDA C++ twin of the tree", made_by="C++")
            def _():
                twin, total = cp.RawKernel(gpu_twins.SUM_ALL, "sum_all"), cp.zeros(1)

                def run():
                    total.fill(0)
                    twin((blocks,), (THREADS,), (values, np.int64(n), total))
                    return total

                return Ready(run, lambda result: expect_number(result, expected, 1e-9))

            @work.add("launches", "Numba, a launch for each level")
            def _():
                tree_sum = take(LECTURE, "tree_sum").tree_sum
                work_on, first = cp.empty_like(values), {}

                def run():
                    # It overwrites its input, but the values of later sums do not affect their
                    # time.
                    if not first:
                        work_on[...] = values
                        first["result"] = on_numba(work_on)
                    return tree_sum(first["result"])[0]

                return Ready(run, lambda result: _expect_float(result, expected, 1e-4))

        @work.add("cupy", "cupy.sum (CUB)", made_by="CuPy")
        def _():
            return Ready(values.sum, lambda result: expect_number(result, expected, 1e-4))

        if not scan:

            @work.add("cupy-own", "cupy.sum without CUB", made_by="CuPy")
            def _():
                needs_gpu("CuPy without CUB")

                def run():
                    with without_cub():
                        return values.sum()

                return Ready(run, lambda result: expect_number(result, expected, 1e-4))

            @work.add("cub", "CUB DeviceReduce, by nvcc", made_by="C++")
            def _():
                total = cp.zeros(1, np.float32)
                call = gpu_cub.with_scratch(
                    gpu_cub.library().reduce_sum,
                    ctypes.c_void_p(values.data.ptr),
                    ctypes.c_void_p(total.data.ptr),
                    ctypes.c_longlong(n),
                )
                return Ready(call, lambda _: expect_number(total, expected, 1e-4))

        @work.add("jax", "JAX, jit of sum", "queue", "JAX")
        def _():
            jax = jax_ready()
            total, array = jax.jit(jax.numpy.sum), on_jax(values)
            return Ready(lambda: total(array), lambda result: expect_number(result, expected, 1e-4))

        if scan:

            @work.add("numpy", "NumPy, one core", "call", "CPU")
            def _():
                array = cp.asnumpy(values)
                return Ready(array.sum, lambda result: _expect_float(result, expected, 1e-4))

        return work

    return build


def _expect_float(got, expected: float, rtol: float) -> None:
    assert abs(float(got) - expected) <= rtol * abs(expected), f"{float(got)}, not {expected}"


GROUPS = (
    Group("reduction", "Sum of float32 numbers", reduction(), (2**28,), (1009,)),
    Group(
        "scaling.reduction",
        "Sum of float32 numbers, by size",
        reduction(scan=True),
        SCAN,
        (33,),
        patience=0.15,
    ),
)
