"""Huge allocations: addresses for all bytes, but memory only for touched pages.

Elements that are not written yet follow a rule: zeros, which cost nothing, or a function of the
element's index, which fills a page before it is first read. The host can only copy or compute on
parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from virtualgpu.errors import VirtualGPUError
from virtualgpu.memory.mapping import BASE, PAGE, Mapping
from virtualgpu.memory.sparse import touched, zeros

PART = 1 << 30  # bytes that the host may copy or compute on at once
_CHUNK = 1 << 14  # pages that a rule fills at once

Rule = Callable[[np.ndarray], Any]  # indices, int64, to the elements' values


class Huge:
    """One huge allocation, which begins at the start of a page.

    Parameters
    ----------
    rule : callable, optional
        Function from flat indices to the values of elements of ``dtype``; by default zeros.
    """

    def __init__(
        self,
        mapping: Mapping,
        start: int,
        nbytes: int,
        dtype: Any = np.uint8,
        rule: Rule | None = None,
    ):
        self.raw = mapping.raw[start - BASE : start - BASE + nbytes]
        self.mapping, self.start, self.dtype, self.rule = mapping, start, np.dtype(dtype), rule
        self._filled = zeros(-(-nbytes // PAGE) if rule else 0, np.bool_)

    def demand_part(self, nbytes: int, what: str) -> None:
        """Raise VirtualGPUError if the host may not hold ``nbytes`` bytes at once."""
        if nbytes > PART:
            raise VirtualGPUError(
                f"{what} of {nbytes:,} bytes of a huge array: the host would have to hold every "
                "element. Take a part of at most "
                f"{PART:,} bytes, as in array[a:b].get()"
            )

    def fill(self, low: int, high: int) -> bool:
        """Fill new pages of bytes ``low`` to ``high`` by the rule; return True if any were."""
        if self.rule is None:
            return False
        pages = low // PAGE + np.flatnonzero(~self._filled[low // PAGE : -(-high // PAGE)])
        breaks = np.flatnonzero(np.diff(pages) != 1) + 1
        for run in np.split(pages, breaks) if len(pages) else ():
            for at in range(0, len(run), _CHUNK):
                part = run[at : at + _CHUNK]
                self._apply(int(part[0]) * PAGE, min(int(part[-1] + 1) * PAGE, len(self.raw)))
                self._filled[part[0] : part[-1] + 1] = True
        return len(pages) > 0

    def _apply(self, low: int, high: int) -> None:
        size = self.dtype.itemsize
        index = np.arange(low // size, -(-high // size), dtype=np.int64)
        assert self.rule is not None
        given = np.asarray(self.rule(index)).astype(self.dtype)
        values = np.ascontiguousarray(np.broadcast_to(given, index.shape)).view(np.uint8)
        first = low - int(index[0]) * size
        self.raw[low:high] = values[first : first + high - low]

    def touched(self) -> list[tuple[int, int]]:
        """Return the (start, stop) of the bytes in touched pages."""
        return [(part.start, part.stop) for part in touched(self.raw)]

    def clear(self, low: int, high: int) -> None:
        """Set bytes ``low`` to ``high`` to zero; whole pages are returned to the system."""
        first, last = -(-low // PAGE) * PAGE, high // PAGE * PAGE
        for edge in ((low, high),) if last <= first else ((low, first), (last, high)):
            self.fill(*edge)
            self.raw[slice(*edge)] = 0
        if last > first:
            self.mapping.forget(self.start + first, self.start + last)
            self._filled[first // PAGE : last // PAGE] = True

    def forget(self) -> None:
        """Return all pages to the system, so that they contain zeros when next touched."""
        self.mapping.forget(self.start, self.start + -(-len(self.raw) // PAGE) * PAGE)

    def keep(self) -> list[tuple[slice, np.ndarray]]:
        """Copy the contents of touched pages, for :meth:`put_back`."""
        return [(part, self.raw[part].copy()) for part in touched(self.raw)]

    def put_back(self, kept: list[tuple[slice, np.ndarray]]) -> None:
        """Restore the contents that :meth:`keep` returned."""
        self.forget()
        for part, data in kept:
            self.raw[part] = data
