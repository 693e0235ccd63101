"""Switching the virtual GPU on and off."""

from __future__ import annotations

from functools import cache


@cache
def gpu_is_present() -> bool:
    """Whether this machine has an NVIDIA driver with a device behind it."""
    from cuda.bindings import driver

    try:
        if driver.cuInit(0)[0] != driver.CUresult.CUDA_SUCCESS:
            return False
        status, count = driver.cuDeviceGetCount()
        return status == driver.CUresult.CUDA_SUCCESS and count > 0
    except RuntimeError:  # cuda.bindings finds no libcuda
        return False


def activate(force: bool = False) -> bool:
    """Run ``numba.cuda`` kernels on the virtual GPU where there is no GPU.

    Parameters
    ----------
    force : bool
        Also where there is a GPU.

    Returns
    -------
    bool
        Whether the virtual GPU is in use now.
    """
    if not force and gpu_is_present():
        return False
    from virtualgpu.frontends import numba_cuda

    numba_cuda.activate()
    return True


def deactivate() -> None:
    """Undo :func:`activate`."""
    from virtualgpu.frontends import numba_cuda

    numba_cuda.deactivate()


def is_active() -> bool:
    """Whether ``numba.cuda`` talks to the virtual GPU (or another device of ours)."""
    import sys

    frontend = sys.modules.get("virtualgpu.frontends.numba_cuda")
    return frontend is not None and frontend.is_active()
