"""CuPy's stand-in and NVIDIA's ``cuda.core`` see the same memory."""

from __future__ import annotations

import pytest

import virtualgpu
from virtualgpu.driver import library

pytestmark = pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")

SOURCE = r"""
extern "C" __global__ void reverse(int *x)
{
    extern __shared__ int tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""


def test_buffers_and_cupy_share_memory(cp):
    import cuda.core as core

    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    module = core.Program(SOURCE, "c++", core.ProgramOptions(name="reverse.cu")).compile("cubin")
    x = cp.arange(64, dtype=cp.int32)
    with virtualgpu.check() as report:
        core.launch(
            stream,
            core.LaunchConfig(grid=1, block=64, shmem_size=256),
            module.get_kernel("reverse"),
            x.data.ptr,
        )
    assert report.ok and report.launches == 1
    assert x.get().tolist() == list(range(63, -1, -1))
    buffer = device.allocate(20, stream=stream)
    seen = cp.from_dlpack(buffer).view(cp.int32)
    seen[:] = cp.arange(5)
    seen *= 2
    there = device.allocate(20, stream=stream)
    buffer.copy_to(there, stream=stream)
    assert cp.from_dlpack(there).view(cp.int32).tolist() == [0, 2, 4, 6, 8]
    stream.close()
