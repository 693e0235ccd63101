"""Whether there is a real GPU."""

from __future__ import annotations

from functools import cache


@cache
def gpu_is_present() -> bool:
    """Whether this machine has an NVIDIA driver with a device behind it."""
    try:
        from cuda.bindings import driver
    except ImportError:  # macOS
        return False
    try:
        if driver.cuInit(0)[0] != driver.CUresult.CUDA_SUCCESS:
            return False
        status, count = driver.cuDeviceGetCount()
        return status == driver.CUresult.CUDA_SUCCESS and count > 0
    except RuntimeError:  # cuda.bindings finds no libcuda
        return False
