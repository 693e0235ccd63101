"""Package information, memory pools and memoisation.

These functions are not in ``__init__``, because the names ``any``, ``all``, ``max``, ... are
CuPy's there.
"""

from __future__ import annotations

import functools

import numpy as np

from . import cuda
from ._arrays.core import ndarray

is_available = cuda.is_available

#: The package itself, set on import, for modules inside it that look functions up by name.
namespace = None


def get_array_module(*args):
    """Return :mod:`cupy` if an argument is a CuPy array, else :mod:`numpy`."""
    return namespace if any(isinstance(one, ndarray) for one in args) else np


def get_default_memory_pool() -> cuda.MemoryPool:
    """Return the memory pool of the arrays."""
    return cuda._pool.default_pool()


def get_default_pinned_memory_pool() -> cuda.PinnedMemoryPool:
    """Return the pool of pinned host memory."""
    return cuda.pinned_memory.default_pool()


def show_config(*, _full=False) -> None:
    """Print that this is CuPy's stand-in, with its versions and device."""
    free, total = cuda.Device().mem_info
    for name, value in {
        "What this is": "CuPy's stand-in for machines without a GPU (virtualgpu)",
        "Follows CuPy": "14.2.0",
        "Arrays are computed by": f"NumPy {np.__version__} on the CPU",
        "Kernels are compiled by": "NVRTC; the virtual GPU runs them",
        "Device 0 Name": cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "Device 0 Compute Capability": cuda.Device().compute_capability,
        "Device 0 Memory": f"{free:,} of {total:,} bytes free",
        "CUDA Bindings Version": cuda.runtime.runtimeGetVersion(),
        "Times": "none, because no GPU runs",
    }.items():
        print(f"{name:<28}: {value}")


def memoize(for_each_device=False):
    """Cache the results of a function for every combination of (hashable) arguments."""

    def decorate(function):
        remembered = functools.cache(function)
        _memos.append(remembered)
        return functools.wraps(function)(remembered)

    return decorate


_memos: list = []


def clear_memo() -> None:
    """Clear the caches of all functions decorated with :func:`memoize`."""
    for remembered in _memos:
        remembered.cache_clear()
