"""Map of the written bytes of an allocation.

Every allocation has one from the start. It is cheap: it holds a few spans that the host wrote,
until a checker needs a byte map. The map of a completely written allocation is dropped. Writes of
a launch are unknown if no checker observed it. All allocations of that device then count as
written.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.memory.sparse import repeated, zeros

SPANS = 64  # host writes to remember individually


class Written:
    """Written bytes of an allocation of ``nbytes``; offsets are relative to its start."""

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
            self._mark(start, end)
        else:
            self.spans.append((start, end))
            if len(self.spans) > SPANS:
                self.map()

    def map(self) -> np.ndarray:
        """Return the map as uint8, one element per byte (1 if written), padded to a whole word."""
        if self._map is None:
            self._map = zeros(-(-self.nbytes // 4) * 4 + 4)
            spans, self.spans = self.spans, []
            for start, end in spans:
                self._mark(start, end)
        return self._map

    def _mark(self, start: int, end: int, which: np.ndarray | int = 1) -> None:
        part = self.map()[start:end]
        before = int(np.count_nonzero(part))
        part |= which
        self.left -= int(np.count_nonzero(part)) - before

    def add_map(self, written: np.ndarray, granule: int, first: int = 0) -> None:
        """Record written granules, one bool each; ``first`` is the number of the first granule."""
        start = first * granule
        if written.size * granule >= self.nbytes and written.all():
            self.left, self.spans, self._map = 0, [(0, self.nbytes)], None
        elif written.any():
            which = np.repeat(written, granule)[: self.nbytes - start]
            self._mark(start, start + len(which), which)

    def copy(self) -> Written:
        """Return a copy of the current map."""
        twin = Written(self.nbytes)
        twin.left, twin.spans = self.left, [*self.spans]
        twin._map = None if self._map is None else repeated(self._map)
        return twin

    def copy_from(self, other: Written | None, start: int, origin: int, nbytes: int) -> None:
        """Copy the record of written bytes together with the bytes."""
        if other is None or other.left == 0:
            self.add(start, start + nbytes)
            return
        part = self.map()[start : start + nbytes]
        before = int(np.count_nonzero(part))
        part[:] = other.map()[origin : origin + nbytes]
        self.left -= int(np.count_nonzero(part)) - before
