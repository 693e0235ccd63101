"""Order that cluster barriers create.

A thread that has waited knows what all threads of the cluster did before they arrived (PTX ISA,
"barrier.cluster": the arrival releases, the wait acquires).

A phase stores the time of each thread's arrival. It ends only after all threads have waited for
the phase before, so two phases are enough: the latest, and the one before it for threads that have
not waited yet. A record of several threads has the time of the latest arrival among them. So some
races between arrival and wait are missed, but no false one is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.lanes.wave import WARP
from virtualgpu.watch import race_loop


class ClusterOrder:
    """Order between the lanes of one wave and their clusters.

    ``state`` is the state of the race detector.
    """

    def __init__(self, state: Any):
        self.state = state
        wave = state.wave
        self.size = wave.launch.cluster_size * wave.threads  # threads per cluster
        # Times up to which all threads that have waited know a lane: in the latest phase, and in
        # the one before.
        self.now, self.before = np.zeros((2, wave.lanes), np.int64)
        self.came = np.zeros(wave.lanes, np.int64)  # in the phase that has not ended
        self.behind = np.zeros(wave.lanes, bool)  # has not waited for the latest phase

    def arrived(self, lanes: np.ndarray, time: int, orders: bool) -> None:
        self.came[lanes] = time if orders else self.now[lanes]  # .relaxed guarantees no order

    def completed(self, lanes: np.ndarray) -> None:
        self.before[lanes] = self.now[lanes]
        self.now[lanes] = self.came[lanes]
        self.behind[lanes] = True

    def passed(self, lanes: np.ndarray) -> None:
        """Order the threads of blocks that have all waited, as after a block barrier."""
        self.behind[lanes] = False
        wave, knowledge = self.state.wave, self.state.knowledge
        blocks = np.unique(wave.block_of[lanes])
        whole = blocks[~self.behind.reshape(wave.blocks, -1)[blocks].any(1)]
        times = self.now.reshape(wave.blocks, -1)[whole].min(1)
        knowledge.block_time[whole] = np.maximum(knowledge.block_time[whole], times)
        knowledge.all_blocks = int(knowledge.block_time.min())

    def explains(self, lanes: np.ndarray, records: np.ndarray) -> np.ndarray:
        """Return True for accesses that precede the next access of their lanes, shape (n,)."""
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
