"""Pinned host memory. Here all host memory is alike; the pool counts as CuPy's does."""

from __future__ import annotations

import numpy as np

from virtualgpu.standins.interface import queues

_UNIT = 512  # bytes; sizes of the pool are multiples


class _Bytes(np.ndarray):
    """Memory of an address in pinned memory.

    A view's base is the array behind all views of its type: were this one of ``numpy.ndarray``, an
    array made of a place would keep these bytes and not the place, which would go back to its pool.
    """


class PinnedMemory:
    """Host memory of ``size`` bytes: ``ptr`` (int), and a buffer that NumPy can wrap."""

    def __init__(self, size: int, flags: int = 0):
        self._buffer = np.empty(size, np.uint8).view(_Bytes)
        self.ptr = self._buffer.ctypes.data if size else 0
        self.size = size
        queues.pin(self.ptr, size)

    def __del__(self, unpin=queues.unpin):
        if type(self) is PinnedMemory:  # not one that goes back to its pool
            unpin(self.ptr)

    def __int__(self) -> int:
        return self.ptr


class PinnedMemoryPointer(np.ndarray):
    """A place in pinned memory; ``numpy.frombuffer(mem, dtype, count)`` wraps it.

    An array of bytes by type, since only such lend a buffer from Python code before 3.12.

    Parameters
    ----------
    mem : PinnedMemory
    offset : int
        Bytes from its start.
    """

    def __new__(cls, mem: PinnedMemory, offset: int):
        self = mem._buffer[offset:].view(cls)
        self.mem, self.ptr, self._offset = mem, mem.ptr + offset, offset
        return self

    def __int__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<PinnedMemoryPointer {self.ptr:#x}, {self.size()} bytes>"

    def __add__(self, offset: int) -> PinnedMemoryPointer:
        return PinnedMemoryPointer(self.mem, self._offset + offset)

    def __sub__(self, offset: int) -> PinnedMemoryPointer:
        return self + -offset

    def size(self) -> int:  # type: ignore[override]
        """Return the bytes from here to the end."""
        return self.mem.size - self._offset


class _Pooled(PinnedMemory):
    """Goes back to its pool."""

    def __init__(self, mem: PinnedMemory, pool: PinnedMemoryPool):
        self._buffer, self.ptr, self.size, self._pool = mem._buffer, mem.ptr, mem.size, pool
        self._mem = mem

    def __del__(self):
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool._free.setdefault(self.size, []).append(self._mem)


class PinnedMemoryPool:
    """Freed blocks of one size are handed out again for that size (powers of two of 512)."""

    def __init__(self, allocator=None):
        self._free: dict[int, list[PinnedMemory]] = {}

    def malloc(self, size: int) -> PinnedMemoryPointer:
        if size == 0:
            return PinnedMemoryPointer(PinnedMemory(0), 0)
        rounded = _UNIT
        while rounded < size:
            rounded *= 2
        kept = self._free.get(rounded)
        mem = kept.pop() if kept else PinnedMemory(rounded)
        return PinnedMemoryPointer(_Pooled(mem, self), 0)

    def free_all_blocks(self) -> None:
        self._free.clear()

    def n_free_blocks(self) -> int:
        return sum(map(len, self._free.values()))


def _malloc(size: int) -> PinnedMemoryPointer:
    return PinnedMemoryPointer(PinnedMemory(size), 0)


_pool = PinnedMemoryPool()
_allocator = _pool.malloc


def default_pool() -> PinnedMemoryPool:
    return _pool


def alloc_pinned_memory(size: int) -> PinnedMemoryPointer:
    """Allocate pinned host memory from the current allocator."""
    return _allocator(size)


def set_pinned_memory_allocator(allocator=None) -> None:
    """Take pinned memory from ``allocator(nbytes)``; None switches the pool off."""
    global _allocator
    _allocator = _malloc if allocator is None else allocator
