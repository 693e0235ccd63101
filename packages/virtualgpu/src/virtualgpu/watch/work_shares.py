"""Shares of a launch's work: the busiest thread, and the critical path (span).

A launch cannot end before its *span*. Between two barriers, a block waits for its busiest warp, so
the work of the busiest warps adds up. (Work and span: R. P. Brent, "The parallel evaluation of
general arithmetic expressions", J. ACM 21, 1974.) Lanes of a warp that make the same access
together count as one request, and lanes that take turns count one each.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.lanes.wave import WARP
from virtualgpu.watch import memory_traffic
from virtualgpu.watch.counters import Counters


class Shares:
    """Instructions and accesses to global and shared memory of each thread and warp of one launch.

    8 bytes a thread. Waves may run in turns, so each has its own counts, by its first block.
    """

    def __init__(self) -> None:
        self._instructions: dict[int, _Counts] = {}
        self._accesses: dict[int, _Counts] = {}

    def executed(self, group, instructions: int) -> None:
        """Count ``instructions`` for the lanes of ``group``."""
        _counts(self._instructions, group.wave).add(group.wave, group.lanes, instructions)

    def accessed(self, wave, lanes: np.ndarray, accesses: int) -> None:
        """Count the loads, stores and updates of the lanes of ``wave``."""
        _counts(self._accesses, wave).add(wave, lanes, accesses)

    def passed(self, wave, blocks: np.ndarray) -> None:
        """Record that these blocks of ``wave`` (bool, one each) pass a barrier."""
        for counts in (self._instructions, self._accesses):
            _counts(counts, wave).end_stretch(blocks)

    def counted(self, counts) -> None:
        """Add the counts from native code, for threads of blocks that no wave ran."""
        for number, (mine, threads, warps) in enumerate(
            (
                (self._instructions, counts.instructions, counts.warp_instructions),
                (self._accesses, counts.accesses, counts.warp_accesses),
            )
        ):
            begun, longest = counts.span[number::2]
            mine[-1 - counts.first] = _Counted(threads, max(longest, begun + warps.max()))

    def tell(self, counters: Counters) -> None:
        """Write ``busiest_…``, ``span_…`` and ``threads_at_work`` of the launch."""
        for name, counts in (("instructions", self._instructions), ("accesses", self._accesses)):
            each = list(counts.values())
            setattr(
                counters,
                f"busiest_{name}",
                max((int(one.threads.max()) for one in each), default=0),
            )
            setattr(counters, f"span_{name}", max((one.longest() for one in each), default=0))
        counters.threads_at_work = sum(
            int(np.count_nonzero(one.threads)) for one in self._accesses.values()
        )


class _Counts:
    """One count of a wave's threads and warps: uint32, a row for each block."""

    def __init__(self, wave) -> None:
        self.threads = np.zeros((wave.blocks, wave.threads), np.uint32)
        self.warps = np.zeros((wave.blocks, -(-wave.threads // WARP)), np.uint32)
        self.before = self.warps.copy()  # at each block's last barrier
        self.span = np.zeros(wave.blocks, np.int64)  # up to that barrier
        self._warp_of = wave.warp_of
        self._places = pointer(self._warp_of), pointer(self.threads), pointer(self.warps)

    def add(self, wave, lanes: np.ndarray, amount: int) -> None:
        if len(lanes) == wave.lanes:
            self.threads += np.uint32(amount)
            self.warps += np.uint32(amount)
        else:
            lanes = np.ascontiguousarray(lanes)
            memory_traffic.raise_by(amount, pointer(lanes), len(lanes), *self._places)

    def end_stretch(self, blocks: np.ndarray) -> None:
        # Even a barrier interval without work counts one.
        self.span[blocks] += np.maximum((self.warps - self.before).max(axis=1)[blocks], 1)
        self.before[blocks] = self.warps[blocks]

    def longest(self) -> int:
        return int((self.span + (self.warps - self.before).max(axis=1)).max())


class _Counted(_Counts):
    """A count from native code, which computes the span itself."""

    def __init__(self, threads: np.ndarray, longest: int):
        self.threads, self._longest = threads, int(longest)

    def longest(self) -> int:
        return self._longest


def _counts(counts: dict[int, _Counts], wave) -> _Counts:
    found = counts.get(wave.first)
    if found is None:
        found = counts[wave.first] = _Counts(wave)
    return found
