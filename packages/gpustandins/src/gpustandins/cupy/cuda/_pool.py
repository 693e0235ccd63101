"""Memory pool, which keeps freed memory and reuses it.

Bytes are counted as in CuPy 14: sizes are rounded up to 512 bytes, the smallest free block that
fits is split, freed neighbours are merged, each stream has its own arena, and a block that is
partly in use cannot be returned to the device. The memory itself is allocated by the virtual GPU:
each array has its own allocation with guard zones, and freed allocations are kept for arrays of
the same size.
"""

from __future__ import annotations

import bisect
import gc
import os
import sys
import threading
from collections import deque

from virtualgpu.standins.interface import OutOfMemory

from ._machine import machine
from .memory import BaseMemory, Memory, MemoryPointer, OutOfMemoryError
from .stream import get_current_stream

UNIT = 512  # bytes; CuPy's ALLOCATION_UNIT_SIZE
# Bytes of freed allocations kept in addition to the free blocks. A small array may split a large
# free block whose allocation (with all its pages) is soon needed again.
SPARE = 64 << 20


class _Block:
    """Part of one ``cudaMalloc``; ``prev`` and ``next`` are its neighbours there."""

    __slots__ = ("arena", "next", "prev", "size")

    def __init__(self, size: int, arena: _Arena):
        self.size, self.arena = size, arena
        self.prev: _Block | None = None
        self.next: _Block | None = None


class _Arena:
    """Free blocks of one stream, sorted by size."""

    def __init__(self):
        self.free: list[tuple[int, int, _Block]] = []

    def take(self, size: int) -> _Block | None:
        at = bisect.bisect_left(self.free, (size, 0))
        if at == len(self.free):
            return None
        block = self.free.pop(at)[2]
        if block.size > size:
            rest = _Block(block.size - size, self)
            block.size = size
            rest.prev, rest.next = block, block.next
            if rest.next is not None:
                rest.next.prev = rest
            block.next = rest
            self._insert(rest)
        return block

    def give(self, block: _Block) -> None:
        while block.next is not None and self._remove(block.next):
            block = self._join(block)
        while block.prev is not None and self._remove(block.prev):
            block = self._join(block.prev)
        self._insert(block)

    def give_back(self) -> int:
        """Discard the blocks that are not split, and return their total bytes."""
        whole = [one for one in self.free if one[2].prev is None and one[2].next is None]
        self.free = [one for one in self.free if one not in whole]
        return sum(one[0] for one in whole)

    def _join(self, block: _Block) -> _Block:
        block.size += block.next.size
        block.next = block.next.next
        if block.next is not None:
            block.next.prev = block
        return block

    def _insert(self, block: _Block) -> None:
        bisect.insort(self.free, (block.size, id(block), block))

    def _remove(self, block: _Block) -> bool:
        at = bisect.bisect_left(self.free, (block.size, id(block)))
        if at < len(self.free) and self.free[at][2] is block:
            del self.free[at]
            return True
        return False


class PooledMemory(BaseMemory):
    """Memory that returns to its pool; ``size`` is the block size, a multiple of 512 bytes."""

    __slots__ = ("_block", "_pool")

    def __init__(self, ptr: int, block: _Block, pool: MemoryPool, owner):
        self.ptr, self.size, self._machine = ptr, block.size, owner
        self._block, self._pool = block, pool

    def free(self) -> None:
        """Free the memory now; a later use of the array is detected as an error."""
        if self.ptr:
            pointer, self.ptr = self.ptr, 0
            self._pool._free(pointer, self._block, self._machine)

    def __del__(self, ending=sys.is_finalizing):
        if not ending() and getattr(self, "ptr", 0):
            self.free()


class MemoryPool:
    """CuPy's memory pool on the virtual GPU.

    Parameters
    ----------
    allocator : callable, optional
        Ignored, also ``cupy.cuda.malloc_managed``, because all memory here is host memory.
    """

    def __init__(self, allocator=None):
        self._arenas: dict[int, _Arena] = {}
        self._lock = threading.Lock()
        self._waiting: deque = deque()  # freed while the pool was locked
        self._used = self._total = self._limit = 0
        # Bytes of freed allocations, oldest first, by address and machine (each has its own
        # addresses).
        self._places: dict[tuple[int, object], int] = {}
        self._by_size: dict[int, list[tuple[int, object]]] = {}
        self._kept = 0  # bytes in _places
        self.set_limit(**_environment_limit())

    def malloc(self, size: int, *, poison: bool = True) -> MemoryPointer:
        """Allocate ``size`` uninitialised bytes, which hold 0xFE.

        Raises OutOfMemoryError if the limit or the device's memory is exceeded.
        """
        return MemoryPointer(self.allocate(size, poison) if size else Memory(0), 0)

    def allocate(self, size: int, poison: bool) -> PooledMemory:
        """Allocate as :meth:`malloc` does, but return the memory without a pointer."""
        rounded = -(-size // UNIT) * UNIT
        owner = machine()
        with self._lock:
            if self._waiting:
                self._collect()
            arena = self._arena()
            block = arena.take(rounded)
            fresh = block is None
            if fresh:
                self._grow(rounded)
                block = _Block(rounded, arena)
            try:
                pointer = self._place(size, rounded, owner, poison)
            except OutOfMemory:
                if fresh:  # allocation failed: the pool keeps its size
                    self._total -= rounded
                else:
                    arena.give(block)
                raise OutOfMemoryError(rounded, self._total, self._limit) from None
            self._used += rounded
        return PooledMemory(pointer, block, self, owner)

    def _arena(self) -> _Arena:
        stream = get_current_stream().ptr
        arena = self._arenas.get(stream)
        if arena is None:
            arena = self._arenas[stream] = _Arena()
        return arena

    def _grow(self, size: int) -> None:
        if self._limit and self._total + size > self._limit:
            self._give_back()
            if self._total + size > self._limit:
                self._lock.release()  # arrays in reference cycles return through _free
                gc.collect()
                self._lock.acquire()
                self._collect()
                self._give_back()
            if self._total + size > self._limit:
                raise OutOfMemoryError(size, self._total, self._limit)
        self._total += size

    def _place(self, size: int, rounded: int, owner, poison: bool) -> int:
        places = self._by_size.get(rounded)
        if places:
            place = address, lives_on = places.pop()
            del self._places[place]
            self._kept -= rounded
            if lives_on is owner:
                owner.revive(address, size, poison=poison)
                return address
            lives_on.free(address)
        try:
            return owner.allocate(size, poison=poison)
        except OutOfMemory:
            self._trim(0)
            return owner.allocate(size, poison=poison)

    def _free(self, address: int, block: _Block, lives_on) -> None:
        self._waiting.append((address, block, lives_on))
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def _collect(self) -> None:
        while self._waiting:
            address, block, lives_on = self._waiting.popleft()
            size = block.size
            self._used -= size
            block.arena.give(block)
            lives_on.retire(address)
            self._places[address, lives_on] = size
            self._by_size.setdefault(size, []).append((address, lives_on))
            self._kept += size
            if self._kept > self._total - self._used + SPARE:
                self._trim(self._total - self._used + SPARE)

    def _trim(self, keep: int) -> None:
        """Free the oldest kept allocations until at most ``keep`` bytes remain."""
        while self._kept > keep:
            place, size = next(iter(self._places.items()))
            address, lives_on = place
            del self._places[place]
            self._by_size[size].remove(place)
            self._kept -= size
            lives_on.free(address)

    def _give_back(self, arenas=None) -> None:
        for arena in self._arenas.values() if arenas is None else arenas:
            self._total -= arena.give_back()
        self._trim(self._total - self._used)

    def free_all_blocks(self, stream=None) -> None:
        """Return all free blocks that are not split to the device (of one stream or all)."""
        with self._lock:
            self._collect()
            if stream is None:
                self._give_back()
            elif stream.ptr in self._arenas:
                self._give_back([self._arenas[stream.ptr]])

    def free_all_free(self) -> None:
        """Call :meth:`free_all_blocks`, of which this is a deprecated name."""
        self.free_all_blocks()

    def n_free_blocks(self) -> int:
        """Return the number of free blocks in the pool."""
        with self._lock:
            self._collect()
            return sum(len(arena.free) for arena in self._arenas.values())

    def used_bytes(self) -> int:
        """Return the bytes used by arrays, each rounded up to a multiple of 512."""
        with self._lock:
            self._collect()
            return self._used

    def free_bytes(self) -> int:
        """Return the bytes that the pool holds and no array uses."""
        with self._lock:
            self._collect()
            return self._total - self._used

    def total_bytes(self) -> int:
        """Return the bytes that the pool has allocated on the device."""
        with self._lock:
            self._collect()
            return self._total

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Limit the pool to ``size`` bytes or a ``fraction`` of the memory; 0 means no limit."""
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified at one time")
        if fraction is not None:
            if not 0 <= fraction <= 1:
                raise ValueError(f"memory limit fraction out of range: {fraction}")
            size = int(fraction * machine().total_memory)
        if (size or 0) < 0:
            raise ValueError(f"memory limit size out of range: {size}")
        self._limit = int(size or 0)

    def get_limit(self) -> int:
        """Return the limit in bytes; 0 means no limit."""
        return self._limit


class MemoryAsyncPool(MemoryPool):
    """CuPy's pool of ``cudaMallocAsync``, which is an ordinary :class:`MemoryPool` here.

    Parameters
    ----------
    pool_handles
        ``'current'``, ``'default'`` or handles of driver pools; ignored, as there are no driver
        pools.
    """

    def __init__(self, pool_handles="current"):
        super().__init__()


def _environment_limit() -> dict:
    """Return ``CUPY_GPU_MEMORY_LIMIT``, in bytes or as a fraction (for example ``50%``)."""
    limit = os.environ.get("CUPY_GPU_MEMORY_LIMIT", "0")  # 0 means no limit
    return {"fraction": float(limit[:-1]) / 100} if limit.endswith("%") else {"size": int(limit)}


_pool = MemoryPool()
_allocator = _pool.malloc


def default_pool() -> MemoryPool:
    return _pool


def allocate(nbytes: int, poison: bool) -> BaseMemory:
    """Allocate the memory of an array; without poison if all of it will be written."""
    if _allocator == _pool.malloc:
        return _pool.allocate(nbytes, poison)
    return _allocator(nbytes).mem


def get_allocator():
    """Return the function that allocates the memory of new arrays."""
    return _allocator


def set_allocator(allocator=None) -> None:
    """Allocate the memory of new arrays with ``allocator(nbytes) -> MemoryPointer``.

    None turns the pool off, so that every array has its own ``cudaMalloc``.
    """
    global _allocator
    _allocator = _malloc if allocator is None else allocator


def _malloc(nbytes: int) -> MemoryPointer:
    try:
        return MemoryPointer(Memory(nbytes), 0)
    except OutOfMemory:
        raise OutOfMemoryError(nbytes, -1) from None
