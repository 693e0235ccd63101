"""CuPy's stand-in and Numba on one device: each frees its own memory, on the device that has it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices


@pytest.fixture
def first(active) -> Iterator[virtualgpu.VirtualDevice]:
    with devices.use(virtualgpu.VirtualDevice(1 << 20)) as device:
        yield device


def test_what_is_put_off_is_freed_where_it_was_allocated(cuda, cp, first):
    second = virtualgpu.VirtualDevice(1 << 20)  # its memory begins at the same address
    with cuda.defer_cleanup():
        there = cuda.to_device(np.zeros(8))
        address = there.device_ctypes_pointer.value
        del there
        with devices.use(second):
            pooled = cp.zeros(8)
            assert pooled.data.ptr == address
            del pooled  # CuPy's pool keeps the place
    assert first.allocated == 64
    with devices.use(second):
        gc.collect()
        cuda.current_context().memory_manager.deallocations.clear()
        assert first.allocated == 0
        assert cp.zeros(8).data.ptr == address  # KeyError where Numba had freed the pool's place


def test_only_live_memory_is_freed(cuda, cp, first):
    from numba.cuda.cudadrv.driver import CudaAPIError, driver

    pooled = cp.zeros(8)
    address = pooled.data.ptr
    del pooled
    with pytest.raises(CudaAPIError, match="CUDA_ERROR_INVALID_VALUE"):
        driver.cuMemFree(address)
    with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
        cp.cuda.runtime.free(address)
    assert cp.zeros(8).data.ptr == address
