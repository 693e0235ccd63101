"""How the work of a launch is shared among its threads: what the busiest one did."""

from __future__ import annotations

import numpy as np

from virtualgpu.observers import warp_loops
from virtualgpu.observers.counters import Counters
from virtualgpu.observers.loops import pointer


class Shares:
    """Instructions and accesses to global and shared memory of each thread of one launch.

    8 bytes a thread. Waves may run in turns, so each has its own counts, by its first block.
    """

    def __init__(self) -> None:
        self._instructions: dict[int, np.ndarray] = {}
        self._accesses: dict[int, np.ndarray] = {}

    def executed(self, group, instructions: int) -> None:
        """The lanes of ``group`` run so many instructions."""
        self._add(self._instructions, group.wave, group.lanes, instructions)

    def accessed(self, wave, lanes: np.ndarray) -> None:
        """Lanes of ``wave`` (contiguous) load, store or update once each."""
        self._add(self._accesses, wave, lanes, 1)

    def _add(self, counts: dict[int, np.ndarray], wave, lanes: np.ndarray, amount: int) -> None:
        done = counts.get(wave.first)
        if done is None:
            done = counts[wave.first] = np.zeros(wave.lanes, np.uint32)
        if len(lanes) == wave.lanes:
            done += np.uint32(amount)
        else:
            lanes = np.ascontiguousarray(lanes)
            warp_loops.raise_by(amount, pointer(lanes), len(lanes), pointer(done))

    def tell(self, counters: Counters) -> None:
        """Write the launch's ``busiest_…`` and ``threads_at_work`` into ``counters``."""
        counters.busiest_instructions = _largest(self._instructions)
        counters.busiest_accesses = _largest(self._accesses)
        counters.threads_at_work = sum(
            int(np.count_nonzero(done)) for done in self._accesses.values())


def _largest(counts: dict[int, np.ndarray]) -> int:
    return max((int(done.max()) for done in counts.values()), default=0)
