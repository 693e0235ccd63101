"""``cupy.cuda``: devices, memory, streams and events."""

from __future__ import annotations

import contextlib

from . import device, memory, pinned_memory, runtime, stream
from ._pool import MemoryAsyncPool, MemoryPool, PooledMemory, get_allocator, set_allocator
from .device import Device, get_device_id
from .memory import BaseMemory, Memory, MemoryPointer, OutOfMemoryError, UnownedMemory
from .pinned_memory import (
    PinnedMemory,
    PinnedMemoryPointer,
    PinnedMemoryPool,
    alloc_pinned_memory,
    set_pinned_memory_allocator,
)
from .stream import Event, ExternalStream, Stream, get_current_stream, get_elapsed_time

__all__ = [
    "BaseMemory",
    "Device",
    "Event",
    "ExternalStream",
    "Memory",
    "MemoryAsyncPool",
    "MemoryPointer",
    "MemoryPool",
    "OutOfMemoryError",
    "PinnedMemory",
    "PinnedMemoryPointer",
    "PinnedMemoryPool",
    "PooledMemory",
    "Stream",
    "UnownedMemory",
    "alloc",
    "alloc_pinned_memory",
    "device",
    "get_allocator",
    "get_current_stream",
    "get_device_id",
    "get_elapsed_time",
    "get_local_runtime_version",
    "is_available",
    "malloc_managed",
    "memory",
    "pinned_memory",
    "profile",
    "runtime",
    "set_allocator",
    "set_pinned_memory_allocator",
    "stream",
    "texture",
    "using_allocator",
]


def is_available() -> bool:
    """Return True, because the virtual GPU is always available."""
    return True


def get_local_runtime_version() -> int:
    """Return the same version as :func:`cupy.cuda.runtime.runtimeGetVersion`."""
    return runtime.runtimeGetVersion()


def alloc(size: int) -> MemoryPointer:
    """Allocate uninitialised memory from the current allocator."""
    return get_allocator()(size)


def malloc_managed(size: int) -> MemoryPointer:
    """Allocate like ``cudaMalloc``, because host and device share all memory here."""
    return MemoryPointer(Memory(size), 0)


@contextlib.contextmanager
def using_allocator(allocator=None):
    """Allocate new arrays with ``allocator`` inside the ``with`` block."""
    before = get_allocator()
    set_allocator(allocator)
    try:
        yield
    finally:
        set_allocator(before)


@contextlib.contextmanager
def profile():
    """Do nothing; ``virtualgpu.profile()`` counts the work of kernels."""
    yield


def __getattr__(name: str):
    if name in "compiler cublas cufft driver function nvtx texture thrust".split():
        import importlib

        return importlib.import_module(f".{name}", __name__)
    from .._missing import missing

    raise missing(__name__, name, _INSTEAD.get(name, "a GPU"))


_INSTEAD = {
    "Graph": "plain launches",
    "graph": "plain launches",
    "ManagedMemory": "cupy.cuda.Memory",
    "MemoryAsync": "cupy.cuda.Memory",
    "malloc_async": "cupy.cuda.alloc",
    "Module": "cupy.cuda.function.Module",
    "Function": "cupy.RawKernel",
    "cub": "cupy.sum and the other reductions",
    "cusolver": "cupy.linalg",
    "cusparse": "cupyx.scipy.sparse",
    "curand": "cupy.random",
    "memory_hooks": "virtualgpu.launches()",
}
