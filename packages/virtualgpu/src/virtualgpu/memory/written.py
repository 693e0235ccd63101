"""Map of the written bytes of an allocation.

Kept for every allocation from its birth, and cheaply: a few spans that the host wrote, until a
checker asks for a byte map. What is complete is dropped. What a launch wrote is
not known if no checker watched it: then all of that device's allocations count as written.
"""

from __future__ import annotations

import numpy as np

SPANS = 64  # host writes to remember one by one


class Written:
    """The written bytes of ``nbytes``; offsets count from the allocation's start."""

    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.left = nbytes  # bytes not written so far
        self.spans: list[tuple[int, int]] = []
        self._map: np.ndarray | None = None

    def add(self, start: int, end: int) -> None:
        """Record that the host wrote bytes ``start`` to ``end``."""
        if end - start == self.nbytes:
            self.left, self.spans, self._map = 0, [(0, self.nbytes)], None
        elif self._map is not None:
            part = self._map[start:end]
            self.left -= part.size - int(np.count_nonzero(part))
            part[:] = 1
        else:
            self.spans.append((start, end))
            if len(self.spans) > SPANS:
                self.map()

    def map(self) -> np.ndarray:
        """uint8, one element per byte and padded to a whole word: 1 where written."""
        if self._map is None:
            self._map = np.zeros(-(-self.nbytes // 4) * 4 + 4, np.uint8)
            for start, end in self.spans:
                self._map[start:end] = 1
            self.spans = []
            self.left = self.nbytes - int(np.count_nonzero(self._map))
        return self._map

    def add_map(self, written: np.ndarray, granule: int) -> None:
        """Record the granules that were written, given as one bool for each."""
        if written.all():
            self.left, self.spans, self._map = 0, [(0, self.nbytes)], None
        elif written.any():
            known = self.map()
            known[: self.nbytes] |= np.repeat(written, granule)[: self.nbytes]
            self.left = self.nbytes - int(np.count_nonzero(known))

    def copy(self) -> Written:
        """Return a copy of the present map."""
        twin = Written(self.nbytes)
        twin.left, twin.spans = self.left, [*self.spans]
        twin._map = None if self._map is None else self._map.copy()
        return twin

    def copy_from(self, other: Written | None, start: int, origin: int, nbytes: int) -> None:
        """Bytes copied on the device bring along whether they were written."""
        if other is None or other.left == 0:
            self.add(start, start + nbytes)
            return
        part = self.map()[start : start + nbytes]
        before = int(np.count_nonzero(part))
        part[:] = other.map()[origin : origin + nbytes]
        self.left -= int(np.count_nonzero(part)) - before
