"""Pinned host memory, which here is ordinary memory; the pool counts bytes as CuPy's does."""

from __future__ import annotations

import numpy as np

from virtualgpu.standins.interface import queues

_UNIT = 512  # bytes; the pool's sizes are multiples of it


class _Bytes(np.ndarray):
    """Bytes of pinned memory, as a subclass of ``numpy.ndarray``.

    NumPy sets a view's base to the innermost array of the view's own type. With plain
    ``numpy.ndarray``, an array made from a pointer would keep these bytes alive but not the
    pointer, whose memory would return to the pool.
    """


class PinnedMemory:
    """Host memory of ``size`` bytes with its address ``ptr`` and a buffer that NumPy can wrap."""

    def __init__(self, size: int, flags: int = 0):
        self._buffer = np.empty(size, np.uint8).view(_Bytes)
        self.ptr = self._buffer.ctypes.data if size else 0
        self.size = size
        queues.pin(self.ptr, size)

    def __del__(self, unpin=queues.unpin):
        if type(self) is PinnedMemory:  # pooled memory stays pinned
            unpin(self.ptr)

    def __int__(self) -> int:
        return self.ptr


class PinnedMemoryPointer(np.ndarray):
    """Address in pinned memory, which ``numpy.frombuffer(mem, dtype, count)`` can wrap.

    It is a NumPy array of bytes, because a Python class cannot provide a buffer before Python
    3.12.

    Parameters
    ----------
    mem : PinnedMemory
    offset : int
        Offset from the start of ``mem`` in bytes.
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
        """Return the number of bytes from here to the end."""
        return self.mem.size - self._offset


class _Pooled(PinnedMemory):
    """Pinned memory that returns to its pool."""

    def __init__(self, mem: PinnedMemory, pool: PinnedMemoryPool):
        self._buffer, self.ptr, self.size, self._pool = mem._buffer, mem.ptr, mem.size, pool
        self._mem = mem

    def __del__(self):
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool._free.setdefault(self.size, []).append(self._mem)


class PinnedMemoryPool:
    """Pool that reuses freed blocks of the same size (512 bytes times a power of two)."""

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
    """Allocate pinned memory with ``allocator(nbytes)``; None turns the pool off."""
    global _allocator
    _allocator = _malloc if allocator is None else allocator
