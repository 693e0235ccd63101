"""``cupyx.jit.rawkernel``: kernels in Python, compiled by numba.cuda."""

from __future__ import annotations

import runpy

import pytest

import virtualgpu


def test_a_loop_over_the_grid(cp):
    from cupyx import jit

    @jit.rawkernel()
    def copy(x, y, size):
        tid = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        ntid = jit.gridDim.x * jit.blockDim.x
        for i in range(tid, size, ntid):
            y[i] = x[i]

    x = cp.arange(1000, dtype=cp.float32)
    y, z = cp.zeros_like(x), cp.zeros_like(x)
    copy((4,), (64,), (x, y, cp.uint32(1000)))
    copy[4, 64](x, z, 1000)
    assert (x.get() == y.get()).all() and (x.get() == z.get()).all()
    with pytest.raises(TypeError, match="lies on the host"):
        copy((4,), (64,), (x.get(), y, 1000))


def test_shared_memory_atomics_and_device_functions(cp):
    from cupyx import jit
    from cupyx.jit import syncthreads, threadIdx

    @jit.rawkernel(device=True)
    def twice(value):
        return value * cp.float32(2)

    @jit.rawkernel()
    def total(x, out):
        tile = jit.shared_memory(cp.float32, 64)
        i = threadIdx.x
        tile[i] = twice(x[i])
        syncthreads()
        for _ in jit.range(1, unroll=True):
            jit.atomic_add(out, jit.laneid() // 32, tile[63 - i])

    x, out = cp.arange(64, dtype=cp.float32), cp.zeros(1, cp.float32)
    with virtualgpu.check() as report:
        total((1,), (64,), (x, out))
    assert report.ok and out.get()[0] == 63 * 64


def test_a_fault_is_at_its_own_line(cp):
    from cupyx import jit

    @jit.rawkernel()
    def past(x):
        x[jit.grid(1)] = 1

    with pytest.raises(virtualgpu.MemoryAccessError) as caught:
        past((1,), (32,), (cp.zeros(8),))
    assert "kernel past, test_cupyx_jit.py" in str(caught.value)
    assert "x[jit.grid(1)] = 1" in str(caught.value)


def test_names_are_for_kernels(cp):
    from cupyx import jit

    with pytest.raises(RuntimeError, match="is for kernels"):
        jit.syncthreads()
    with pytest.raises(NotImplementedError, match=r"cupyx\.jit\.cub"):
        jit.cub  # noqa: B018


TOP_LEVEL = """
import virtualgpu
virtualgpu.activate()
import cupy as cp
from cupyx import jit

@jit.rawkernel(device=True)
def doubled(value):
    return 2 * value

@jit.rawkernel()
def fill(x):
    x[jit.threadIdx.x] = doubled(7)

@jit.rawkernel()
def unfinished(x):
    x[jit.threadIdx.x] = nothing_of_this_name

x = cp.zeros(8, "f")
fill[1, 8](x)
result = x.tolist()
"""


def test_kernels_at_the_top_level_of_a_program(tmp_path):
    """Each is among its own globals, and beside it one that is never launched and has a mistake."""
    script = tmp_path / "program.py"
    script.write_text(TOP_LEVEL)
    names = runpy.run_path(str(script))
    assert names["result"] == [14] * 8
    with pytest.raises(Exception, match="nothing_of_this_name"):
        names["unfinished"][1, 8](names["x"])


def test_cached_code_says_where_the_ptx_is(cp):
    from cupyx import jit

    @jit.rawkernel()
    def kernel(x):
        x[jit.threadIdx.x] = 1

    kernel[1, 2](cp.zeros(2))
    for name in ("cached_code", "cached_codes"):
        with pytest.raises(NotImplementedError, match=r"kernel\.compiled\.inspect_asm\(\)"):
            getattr(kernel, name)
    assert all(".visible .entry" in ptx for ptx in kernel.compiled.inspect_asm().values())
