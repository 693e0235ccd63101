"""Shadow memory: the last accesses to each granule of global and shared memory.

A granule is as large as the smallest access so far to an allocation (or to a wave's shared
memory), at most 8 bytes. So threads that write neighbouring bytes are told apart, while arrays of
float64 need only one record per element.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.memory.sparse import repeated, touched, zeros
from virtualgpu.watch import race_loop

KINDS = 5  # plain writes, plain reads, strong writes, strong reads, volatile writes
LARGEST_GRANULE = 8
KEPT = 1 << 23  # records of freed allocations kept for reuse: 64 MB

_NONE = np.zeros(1, np.int64)
_NO_MASKS = np.zeros(1, np.uint32)
_lock = threading.Lock()
_pool: dict[int, list[np.ndarray]] = {}  # by length, because a test suite leaves thousands
_kept = 0  # number of records in all of them


def _take(count: int) -> np.ndarray:
    """Allocate records that are empty or too old to matter, because time never goes back.

    The array may be up to an eighth longer than ``count``, so that allocations of similar size
    share arrays.
    """
    global _kept
    step = 1 << max(count.bit_length() - 4, 0)
    count = -(-count // step) * step
    with _lock:
        if same := _pool.get(count):
            _kept -= count
            return same.pop()
    return zeros(count, np.int64)


def _give(array: np.ndarray) -> None:
    global _kept
    with _lock:
        if len(array) > 1 and _kept + len(array) <= KEPT:
            _kept += len(array)
            _pool.setdefault(len(array), []).append(array)


def forget() -> None:
    """Drop all records, because the clock has restarted."""
    global _kept
    with _lock:
        _pool.clear()
        _kept = 0


def _all(records: np.ndarray) -> np.ndarray:
    """Return masks that stand for all lanes where there are records."""
    masks = zeros(len(records), np.uint32)
    for part in touched(records):
        masks[part] = 0xFFFF_FFFF
    return masks


class Shadow:
    """Records of ``nbytes`` of memory from address ``start`` on."""

    def __init__(self, start: int, nbytes: int, granule: int):
        self.start, self.nbytes = start, nbytes
        self.shift = min(granule, LARGEST_GRANULE).bit_length() - 1
        self.has_strong = self.has_volatile = False
        self.written = self.read = self.strong = 0  # at the last access
        count = max(1, -(-nbytes >> self.shift) + 1)
        self.records = [_take(count) if kind < 2 else _NONE for kind in range(KINDS)]
        self.masks = [_NO_MASKS] * KINDS
        self._find()

    def _find(self) -> None:
        rare = self.has_strong, self.has_volatile
        arrays = *self.records, *self.masks[1:]  # a plain write is by one thread: no mask
        self.words = np.array([*rare, *map(pointer, arrays)], np.int64)

    def seen(self, floor: int, kind: int, now: int) -> int:
        """Return a flag for each kind of record later than ``floor``.

        The flags are 1 for plain writes, 2 for plain reads and 4 for strong accesses. ``kind`` of
        access (0 load, 1 store, others strong) is recorded as of ``now``.
        """
        seen = (self.written > floor) | (self.read > floor) << 1 | (self.strong > floor) << 2
        if kind == 0:
            self.read = now
        elif kind == 1:
            self.written = now
        else:
            self.strong = now
        return seen

    def since(self, floor: int) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
        """Yield the granules that were written, read and strongly accessed after a time.

        They come in parts: the first granule of a part, and three masks.
        """
        last = floor << race_loop.TIME | race_loop.MAXIMUM_RECORD
        for kind, records in enumerate(self.records):
            for part in touched(records) if len(records) > 1 else ():
                after = records[part] > last
                none = np.zeros(len(after), bool)
                masks = [none, none, none]
                masks[min(kind, 2)] = after
                yield part.start, tuple(masks)

    def refine(self, granule: int) -> None:
        """Split granules, and give each part the records of the original."""
        times = (1 << self.shift) // granule
        if times <= 1:
            return
        self.shift = granule.bit_length() - 1
        for arrays in (self.records, self.masks):
            for kind, array in enumerate(arrays):
                if len(array) > 1:
                    arrays[kind] = repeated(array, times)
        self._find()

    def use_strong(self) -> None:
        """Also record strong accesses from now on."""
        if not self.has_strong:
            self.has_strong = True
            self._keep((2, 3))

    def use_volatile(self) -> None:
        """Also record volatile stores from now on."""
        if not self.has_volatile:
            self.has_volatile = True
            self._keep((4,))

    def _keep(self, kinds: tuple[int, ...]) -> None:
        for kind in kinds:
            self.records[kind] = _take(len(self.records[0]))
            if len(self.masks[1]) > 1:
                self.masks[kind] = _all(self.records[kind])
        self._find()

    def use_masks(self) -> None:
        """Keep masks in records of several threads; earlier records stand for all lanes."""
        if len(self.masks[1]) == 1:
            self.masks = [_all(a) if len(a) > 1 else _NO_MASKS for a in self.records]
            self._find()

    def forget(self) -> None:
        """Empty all records."""
        self.written = self.read = self.strong = 0
        for array in self.records:
            for part in touched(array):
                array[part] = 0

    def close(self) -> None:
        for array in self.records:
            _give(array)
        self.records = [_NONE] * KINDS
