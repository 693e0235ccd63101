"""Presence of a real GPU."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


@cache
def driver_without_device() -> int:
    """Return the error of an NVIDIA driver that has no device for this process.

    It is a ``CUresult``, such as 100 for CUDA_ERROR_NO_DEVICE. It is 0 if there is a device, no
    driver, or no Linux.

    A login node has such a driver, and so does a machine whose GPUs ``CUDA_VISIBLE_DEVICES``
    hides. The library is closed again, because code that opens ``libcuda.so.1`` later would
    otherwise find it before the virtual GPU's library, and cuda.bindings keeps the first that it
    finds.
    """
    if sys.platform != "linux":
        return 0
    import _ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1")
        initialise, count_devices = driver.cuInit, driver.cuDeviceGetCount
    except (OSError, AttributeError):  # no driver, or only cuda.bindings finds its functions
        return 0
    count = ctypes.c_int()
    status = initialise(0) or count_devices(ctypes.byref(count))
    if not status and count.value > 0:
        return 0
    _ctypes.dlclose(driver._handle)
    return status or _NO_DEVICE


@cache
def gpu_is_present() -> bool:
    """Return True if this machine has an NVIDIA driver and at least one device."""
    if driver_without_device():
        return False
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
