"""The stand-ins of CuPy and PyCUDA on several virtual GPUs in one process."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices


def test_cupy_s_devices(four_devices):
    import cupy as cp

    assert cp.cuda.runtime.getDeviceCount() == 4
    with cp.cuda.Device(2) as second:
        x = cp.arange(6, dtype=cp.float32)
        kernel = cp.RawKernel(
            'extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }', "twice"
        )
        kernel((1,), (6,), (x,))
        assert cp.cuda.get_device_id() == 2
        stream = cp.cuda.Stream()
    assert (x.device, x.device.id, stream.device_id) == (second, 2, 2)
    assert cp.cuda.get_device_id() == 0
    cp.arange(6, dtype=cp.float32) + 1  # from now on such a sum goes a shorter way
    with pytest.raises(ValueError, match=r"resides \(2\) is different from the current device"):
        x + 1
    with pytest.raises(virtualgpu.VirtualGPUError, match="on device 2, and this is device 0"):
        kernel((1,), (6,), (x,))
    here = cp.asarray(x)
    assert here.device.id == 0
    assert (here + 1).get().tolist() == [1, 3, 5, 7, 9, 11]
    cp.cuda.runtime.memcpyPeer(here.data.ptr, 0, x.data.ptr + 12, 2, 12)
    assert here.get().tolist() == [6, 8, 10, 6, 8, 10]
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="invalid device ordinal"):
        cp.cuda.Device(4).use()


def test_pycuda_s_arrays_lie_on_the_device_of_their_context(four_devices):
    import pycuda.driver as drv
    from pycuda import gpuarray

    drv.init()
    here = drv.Device(0).make_context()
    there = drv.Device(1).make_context()
    x = gpuarray.to_gpu(np.arange(3.0))
    assert (x + 1).get().tolist() == [1, 2, 3]
    there.pop()
    assert x.get().tolist() == [0, 1, 2]
    with pytest.raises(drv.LogicError, match=r"lies on device 1, .* context .* device 0"):
        x + 1
    y = gpuarray.zeros(3, np.float64)
    drv.memcpy_peer(y.ptr, x.ptr, x.nbytes)
    assert y.get().tolist() == [0, 1, 2]
    here.pop()


def test_numba_and_cupy_mean_the_same_device(cuda, four_devices):
    import cupy as cp

    @cuda.jit
    def add(x, value):
        x[cuda.grid(1)] += value

    with cp.cuda.Device(3):
        x = cp.zeros(4)
        add[1, 4](x, 5)
        assert cuda.get_current_device().id == 3
    assert x.get().tolist() == [5.0] * 4


def test_variables_outlast_the_use_of_another_device(four_devices):
    import cupy as cp

    module = cp.RawModule(
        code="""__device__ float table[2];
extern "C" __global__ void read(float *x) { x[threadIdx.x] = table[threadIdx.x]; }"""
    )
    read, x = module.get_function("read"), cp.zeros(2, cp.float32)
    cp.ndarray(2, cp.float32, module.get_global("table"))[:] = 5
    with devices.use(devices.VirtualDevice(64 << 20)):
        other = cp.ones(2, cp.float32)
        read((1,), (2,), (other,))
        assert other.tolist() == [0, 0]
    read((1,), (2,), (x,))
    assert x.tolist() == [5, 5]
