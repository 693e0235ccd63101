"""The stand-ins of CuPy and PyCUDA with arrays that are only said to be large."""

from __future__ import annotations

import os

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.errors import VirtualGPUError

PLUS_ONE = """extern "C" __global__ void plus_one(const int *x, int *y, long long n) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}"""
LENGTH = 2**32


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def huge_from(cp, monkeypatch):
    """Allocations from 1 GiB on are only said to be large, as under ``--virtual-gpu-huge``."""
    memory = devices.current().memory
    monkeypatch.setattr(memory, "huge_from", 1 << 30)
    yield memory
    cp.get_default_memory_pool().free_all_blocks()


def test_cupy_takes_it_in_place_and_computes_on_parts(cp):
    x = cp.asarray(virtualgpu.huge((2**16, 2**16), np.float32, "index"))
    before = resident()
    assert (x[3, 5:8] * 2).get().tolist() == [2 * (3 * 2**16 + k) for k in (5, 6, 7)]
    assert float(x[-1].sum()) == pytest.approx(2**16 * (2**32 - 2**15), rel=1e-6)
    assert x[:, 7][-2:].get().tolist() == [
        float(np.float32((2**16 - k) * 2**16 + 7)) for k in (2, 1)
    ]
    x[2] = 4
    x[2, :3] += cp.arange(3)
    assert x[2, :4].get().tolist() == [4, 5, 6, 4]
    assert "..." in repr(x)
    assert resident() - before < 600 << 20  # the column's pages: one of each row


@pytest.mark.parametrize(
    "work",
    [
        lambda cp, x: x.get(),
        lambda cp, x: x + 1,
        lambda cp, x: x.sum(),
        lambda cp, x: x.sort(),
        lambda cp, x: x.copy(),
        lambda cp, x: x.fill(1),
        lambda cp, x: x.astype(np.int64),
        lambda cp, x: cp.where(x > 0, x, 0),
        lambda cp, x: cp.add(x, 1, out=x),
        lambda cp, x: x.__iadd__(1),
        lambda cp, x: x.__setitem__(slice(None), 2),
        lambda cp, x: cp.ones(LENGTH, np.int32),
        lambda cp, x: cp.concatenate([x, x]),
        lambda cp, x: cp.unique(x),
        lambda cp, x: x[x > 0],
        lambda cp, x: cp.random.permutation(x),
        lambda cp, x: x.tobytes(),
    ],
)
def test_work_on_all_of_it_is_refused(cp, huge_from, work):
    x = cp.empty(LENGTH, np.int32)
    before = resident()
    with pytest.raises(VirtualGPUError, match="of a huge array"):
        work(cp, x)
    assert resident() - before < 64 << 20


def test_cupys_arrays_above_the_size_take_little_memory(cp, huge_from):
    before, free = resident(), huge_from.allocated
    x, y = cp.zeros(LENGTH, np.int32), cp.empty(LENGTH, np.int32)
    kernel = cp.RawKernel(PLUS_ONE, "plus_one")
    x[-3:] = cp.arange(3)
    with virtualgpu.sample(blocks=4), virtualgpu.check() as report:
        kernel((LENGTH // 256,), (256,), (x, y, np.int64(LENGTH)))
    assert report.ok, report
    assert y[-4:].get().tolist() == [1, 1, 2, 3]
    with virtualgpu.sample(blocks=9), virtualgpu.check() as report:
        kernel((LENGTH // 256,), (256,), (y, x, np.int64(LENGTH)))
    assert [one.kind for one in report.findings] == ["uninitialised"]
    assert huge_from.allocated - free < 1 << 20
    del x, y
    x = cp.zeros(LENGTH, np.int32)  # the pool hands the same places out again
    assert not x[-4:].get().any()
    assert resident() - before < 200 << 20


def test_pycuda_takes_it_and_allocates_so(cp, huge_from):
    import pycuda.autoinit  # noqa: F401
    import pycuda.driver as drv
    from pycuda import gpuarray
    from pycuda.compiler import SourceModule

    kernel = SourceModule(PLUS_ONE, no_extern_c=True).get_function("plus_one")
    x = virtualgpu.huge(LENGTH, np.int32, "index")
    y = gpuarray.empty(LENGTH, np.int32)
    with virtualgpu.sample(blocks=3):
        kernel(x, y, np.int64(LENGTH), grid=(LENGTH // 256, 1), block=(256, 1, 1))
    assert y[:3].get().tolist() == [1, 2, 3] and y[-2:].get().tolist() == [-1, 0]
    with pytest.raises(drv.LogicError, match="of a huge array"):
        y.get()
    part = np.empty(2, np.int32)
    drv.memcpy_dtoh(part, int(y.gpudata) + 4 * LENGTH - 8)
    assert part.tolist() == [-1, 0]
