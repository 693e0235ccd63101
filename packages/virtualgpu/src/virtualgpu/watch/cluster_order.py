"""Order that the barriers of clusters make.

A thread that has waited knows what all threads of the cluster did before they arrived (PTX ISA,
"barrier.cluster": the arrival releases, the wait acquires).

A phase keeps the time of each thread's arrival. Since a phase ends only after all have waited for
the one before, two are enough: the latest, and the one before for those who have not waited yet. A
record of several threads counts as old as the latest arrival among them, so some races of accesses
between arrival and wait are passed over; none is made up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.lanes.wave import WARP
from virtualgpu.watch import race_loop


class ClusterOrder:
    """Knowledge that the lanes of one wave have of their clusters.

    ``state`` is the race check's.
    """

    def __init__(self, state: Any):
        self.state = state
        wave = state.wave
        self.size = wave.launch.cluster_size * wave.threads  # threads of a cluster
        # Times up to which all who have waited know a lane: of the latest phase, of the one before.
        self.now, self.before = np.zeros((2, wave.lanes), np.int64)
        self.came = np.zeros(wave.lanes, np.int64)  # at the phase that is not over
        self.behind = np.zeros(wave.lanes, bool)  # has not waited for the latest

    def arrived(self, lanes: np.ndarray, time: int, orders: bool) -> None:
        self.came[lanes] = time if orders else self.now[lanes]  # .relaxed promises no order

    def completed(self, lanes: np.ndarray) -> None:
        self.before[lanes] = self.now[lanes]
        self.now[lanes] = self.came[lanes]
        self.behind[lanes] = True

    def passed(self, lanes: np.ndarray) -> None:
        """Order the threads of blocks that have all waited, as after a barrier of the block."""
        self.behind[lanes] = False
        wave, knowledge = self.state.wave, self.state.knowledge
        blocks = np.unique(wave.block_of[lanes])
        whole = blocks[~self.behind.reshape(wave.blocks, -1)[blocks].any(1)]
        times = self.now.reshape(wave.blocks, -1)[whole].min(1)
        knowledge.block_time[whole] = np.maximum(knowledge.block_time[whole], times)
        knowledge.all_blocks = int(knowledge.block_time.min())

    def explains(self, lanes: np.ndarray, records: np.ndarray) -> np.ndarray:
        """Return True for accesses that come before the next one of their lanes, shape (n,)."""
        wave = self.state.wave
        other = (records & race_loop.MAXIMUM_THREAD) - self.state.first
        here = (other >= 0) & (other < wave.lanes)
        other = np.where(here, other, 0)
        here &= other // self.size == lanes // self.size
        several = records >> race_loop.SCOPE & 3
        behind = self.behind[lanes]
        known = np.zeros(len(lanes), np.int64)
        for late, table in ((False, self.now), (True, self.before)):
            of_block = table.reshape(wave.blocks, wave.threads)
            room = -(-wave.threads // WARP) * WARP
            of_warp = np.zeros((wave.blocks, room), np.int64)
            of_warp[:, : wave.threads] = of_block
            of_warp = of_warp.reshape(wave.blocks, -1, WARP).max(2)
            of_cluster = table.reshape(-1, self.size).max(1)
            times = np.choose(
                several,
                (
                    table[other],
                    of_warp[wave.block_of[other], wave.thread_of[other] // WARP],
                    of_block.max(1)[wave.block_of[other]],
                    of_cluster[other // self.size],
                ),
            )
            known = np.where(behind == late, times, known)
        result: np.ndarray = here & (records >> race_loop.TIME <= known)
        return result
