"""Order that barriers in shared memory (mbarriers) create.

A thread that observes the end of a phase knows what all threads did before they arrived in it (PTX
ISA, "mbarrier.arrive": release; "mbarrier.test_wait, mbarrier.try_wait": acquire).

A phase has a row of times, one for each thread of the block, up to which that thread's accesses
are ordered before the phase's end. An arriving thread adds everything that it knows. A thread that
passes takes over the row. The times of a warp that the row covers completely are added to the
thread's own times (:class:`.clocks.Knowledge`), with which accesses are compared first. The row
itself is kept for the remaining ones, where one lane arrives for others.

A copy arrives with everything that its thread did until then, which is more than the ISA
guarantees, so a race with an access between the copy and the thread's own arrival is missed. So
are races between blocks of a cluster after one has arrived at another's barrier, because a row has
only the threads of one block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from virtualgpu.lanes.wave import WARP
from virtualgpu.watch import race_loop

ROOM = 256  # rows to keep before unused ones are dropped


class Phases:
    """The phases of one wave's barriers; ``state`` is the race detector's state of that wave."""

    def __init__(self, state: Any):
        self.state = state
        self.told: dict[int, np.ndarray] = {}  # word → row of its current phase
        self.over: dict[tuple[int, int], np.ndarray] = {}  # (word, phase) → row at its end
        # What lanes took over beyond their own times: the number of a row, or 0; and each union of
        # two rows, computed once.
        self.rows = [np.zeros(state.wave.threads, np.int64)]
        self.taken = np.zeros(state.wave.lanes, np.int64)
        self.unions: dict[tuple[int, int], int] = {}
        self.room = ROOM
        self.remote = False  # blocks of a cluster may arrive at each other's barriers

    def made(self, words: np.ndarray) -> None:
        for word in words.tolist():
            self.told.pop(word, None)

    def arrived(self, lanes: np.ndarray, word: int, time: int) -> None:
        wave = self.state.wave
        if wave.block_of[lanes[0]] != word * 8 // wave.shared_stride:
            self.remote = True
            return
        row = self._view(lanes, time)
        known = self.told.get(word)
        self.told[word] = row if known is None else np.maximum(known, row)

    def completed(self, word: int, phase: int) -> None:
        # Later phases also know it, because arrivals at one object are ordered.
        self.over[word, phase] = self.told.get(word, self.rows[0])

    def passed(self, lanes: np.ndarray, words: np.ndarray, phases: np.ndarray) -> None:
        which, inverse = np.unique(words << 3 | phases, return_inverse=True)
        for number, key in enumerate(which.tolist()):
            row = self.over.get((key >> 3, key & 7))
            if row is not None:
                self._take(lanes[inverse == number], row)

    def met(self, lanes: np.ndarray, whole: np.ndarray | None) -> None:
        """Join the knowledge of threads at a block barrier.

        In the blocks ``whole`` (None: all blocks) every thread has arrived, and each knows what
        all did. In other blocks, this holds for the threads that have arrived.
        """
        wave = self.state.wave
        if whole is None:
            self.taken[:] = 0
            return
        self.taken[np.isin(wave.block_of, whole)] = 0
        self._share(lanes, wave.block_of[lanes])

    def met_in_warps(self, lanes: np.ndarray, mask: np.ndarray) -> None:
        if self.taken[lanes].any():
            mask = np.broadcast_to(mask, lanes.shape).astype(np.int64)
            self._share(lanes, self.state.wave.warp_of[lanes] << 32 | mask)

    def explains(self, lanes: np.ndarray, records: np.ndarray) -> np.ndarray:
        """Return True for accesses that precede the next access of their lanes, shape (n,)."""
        result, wave = np.zeros(len(lanes), bool), self.state.wave
        if self.remote:
            other = (records & race_loop.MAXIMUM_THREAD) - self.state.first
            result = other // wave.threads != wave.block_of[lanes]
        if not self.taken[lanes].any():
            return result
        for at, (lane, record) in enumerate(zip(lanes.tolist(), records.tolist(), strict=True)):
            other = (record & race_loop.MAXIMUM_THREAD) - self.state.first
            if (
                not self.taken[lane]
                or not 0 <= other < wave.lanes
                or (wave.block_of[other] != wave.block_of[lane])
            ):
                continue
            thread, several = other % wave.threads, record >> race_loop.SCOPE & 3
            row = self.rows[int(self.taken[lane])]
            if several == 0:
                result[at] = record >> race_loop.TIME <= row[thread]
            elif several < 3:
                row = np.maximum(row, self._view(np.array([lane]), race_loop.MAXIMUM_TIME))
                first = thread // WARP * WARP if several == 1 else 0
                last = first + WARP if several == 1 else wave.threads
                result[at] = record >> race_loop.TIME <= row[first:last].min()
        return result

    # -- rows ----------------------------------------------------------------------------------

    def _view(self, lanes: np.ndarray, time: int) -> np.ndarray:
        """Return the joint knowledge of one block's lanes: int64, shape (threads,)."""
        knowledge, wave = self.state.knowledge, self.state.wave
        knowledge.refine()
        row = np.repeat(knowledge.warp_times[lanes].max(0).astype(np.int64), WARP)[: wave.threads]
        warps = wave.thread_of[lanes] // WARP
        for warp in np.unique(warps).tolist():
            own = knowledge.lane_times[lanes[warps == warp]].max(0)
            part = row[warp * WARP : (warp + 1) * WARP]
            np.maximum(part, own[: len(part)], out=part)
        for number in np.unique(self.taken[lanes]).tolist():
            row = np.maximum(row, self.rows[number])
        row[wave.thread_of[lanes]] = time
        return row

    def _take(self, lanes: np.ndarray, row: np.ndarray) -> None:
        knowledge, wave = self.state.knowledge, self.state.wave
        knowledge.refine()
        warps = -(-wave.threads // WARP)
        table = np.full(warps * WARP, np.iinfo(np.int32).max, np.int64)
        table[: wave.threads] = row
        table = table.reshape(warps, WARP)
        knowledge.lane_times[lanes] = np.maximum(
            knowledge.lane_times[lanes], table[wave.thread_of[lanes] // WARP]
        )
        least = table.min(1)
        knowledge.warp_times[lanes, :warps] = np.maximum(knowledge.warp_times[lanes, :warps], least)
        if (row == np.repeat(least, WARP)[: wave.threads]).all():
            return
        if len(self.rows) > self.room:
            self._tidy()
        self.rows.append(row)
        number = len(self.rows) - 1
        for old in np.unique(self.taken[lanes]).tolist():
            here = lanes[self.taken[lanes] == old]
            self.taken[here] = self._union(old, number)

    def _tidy(self) -> None:
        kept = np.unique(np.append(self.taken, 0))
        self.taken = np.searchsorted(kept, self.taken)
        self.rows = [self.rows[number] for number in kept.tolist()]
        self.unions, self.room = {}, 2 * len(self.rows) + ROOM

    def _union(self, one: int, other: int) -> int:
        if not one or one == other:
            return other
        key = (one, other)
        if key not in self.unions:
            self.rows.append(np.maximum(self.rows[one], self.rows[other]))
            self.unions[key] = len(self.rows) - 1
        return self.unions[key]

    def _share(self, lanes: np.ndarray, company: np.ndarray) -> None:
        for one in np.unique(company[self.taken[lanes] > 0]).tolist():
            here, together = lanes[company == one], 0
            for number in np.unique(self.taken[here]).tolist():
                together = self._union(together, number) if number else together
            self.taken[here] = together
