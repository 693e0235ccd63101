"""Vector clocks of threads: the order that barriers create.

Time counts synchronisations: it advances after one if anything was accessed since the one before.
An access of a thread at time *t* precedes whatever another thread does next if that thread's clock
has reached *t* for the first one. Barriers join clocks; lockstep does not.

The clocks are as coarse as possible. Barriers of a whole block need one number per block, and
``bar.warp.sync`` of a whole warp needs one number per warp. If a program has other barriers (of
some warps or some lanes), each thread has a row of times for 32 lanes and 32 warps.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.compilers.llvm import pointer
from virtualgpu.lanes.wave import WARP, Wave
from virtualgpu.ptx import Immediate
from virtualgpu.ptx.opcodes import BARRIERS

_NONE = np.zeros(1, np.int32)


def has_count(groups: list) -> bool:
    """Return True if the barrier of ``groups`` has a thread count.

    ``bar.sync a, b`` has one, instead of waiting for all threads of the block.
    """
    last = [group.basic_block.last for group in groups]
    return any(instruction.opcode != "call" and _has_count(instruction) for instruction in last)


def joins_some(instruction) -> bool:
    """Return True if a barrier may join only part of a warp or block."""
    if instruction.opcode not in BARRIERS:
        return False
    if "warp" in instruction.modifiers:
        mask = instruction.operands[0]
        return not isinstance(mask, Immediate) or mask.value & 0xFFFF_FFFF != 0xFFFF_FFFF
    return _has_count(instruction) or "arrive" in instruction.modifiers


def _has_count(instruction) -> bool:
    return len(instruction.operands) > (3 if "red" in instruction.modifiers else 1)


class Time:
    """Clock of the race detector, one per process, so that old records have earlier times."""

    def __init__(self):
        self.now = 1
        self.used = False  # something was accessed at `now`
        self.generation = 0  # number of restarts

    def restart(self) -> None:
        """Restart the clock at 1. Earlier records have to be dropped."""
        self.now, self.used = 1, False
        self.generation += 1

    def passes(self) -> int:
        """Advance and return the time, so that later accesses have a later time."""
        before = self.now if self.used else self.now - 1
        self.now, self.used = before + 1, False
        return before


TIME = Time()


class Knowledge:
    """Vector clocks of a wave's threads: the times up to which they know each other."""

    def __init__(self, wave: Wave, floor: int):
        self.wave = wave
        self.floor = floor  # all threads know everything up to here
        self.block_time = np.full(wave.blocks, floor, np.int64)
        self.warp_time = np.full(wave.warps, floor, np.int64)
        self.all_blocks = floor  # the smallest of the block times
        self.exact = False
        self.lane_times = self.warp_times = _NONE
        self.arrivals: dict[tuple, dict] = {}
        self._find()

    def _find(self) -> None:
        self.pointers = tuple(map(pointer, (self.block_time, self.warp_time)))
        self.exact_pointers = tuple(map(pointer, (self.lane_times, self.warp_times)))

    def refine(self) -> None:
        """Keep a separate row of times for each thread from now on."""
        if self.exact:
            return
        wave = self.wave
        rows = np.repeat(self.block_time, wave.threads).astype(np.int32)
        self.warp_times = np.repeat(rows[:, None], WARP, axis=1)
        of_warp = np.maximum(rows, self.warp_time[wave.warp_of]).astype(np.int32)
        self.lane_times = np.repeat(of_warp[:, None], WARP, axis=1)
        self.exact = True
        self._find()

    def forget(self) -> None:
        """Reset the clocks after a restart: no thread knows anything that will be recorded."""
        self.floor = self.all_blocks = 0
        for times in (self.block_time, self.warp_time, self.lane_times, self.warp_times):
            times[...] = 0

    # -- barriers ------------------------------------------------------------------------------

    def barrier(self, barrier, lanes: np.ndarray, time: int, counted: bool) -> np.ndarray | None:
        """Join the clocks of ``lanes`` that a barrier of blocks released.

        Returns the blocks that took part with all their threads, or None if all blocks of the wave
        did. Threads that have ended count as arrived, unless the barrier has a thread count.
        """
        wave = self.wave
        if len(lanes) == wave.lanes:
            self.block_time[:] = self.all_blocks = time
            if self.exact:
                self.lane_times[:], self.warp_times[:] = time, time
            return None
        blocks = wave.block_of[lanes]
        present = np.bincount(blocks, minlength=wave.blocks)
        ended = 0 if counted else wave.exited
        whole = (present > 0) & (present + ended == wave.threads)
        self.block_time[whole] = time
        self.all_blocks = int(self.block_time.min())
        if self.exact:
            rows = whole[wave.block_of]
            self.lane_times[rows], self.warp_times[rows] = time, time
        partly = (present > 0) & ~whole
        if partly.any():
            self.refine()
            for block in np.flatnonzero(partly):
                self._meet(
                    int(block),
                    lanes[blocks == block],
                    time,
                    self.arrivals.pop((barrier, int(block)), {}),
                )
        return np.flatnonzero(whole)

    def arrive(self, barrier, lanes: np.ndarray, time: int) -> None:
        """Handle ``bar.arrive``: lanes that wait later will know these lanes up to now."""
        self.refine()
        wave = self.wave
        for lane in lanes:
            block, warp = int(wave.block_of[lane]), int(wave.thread_of[lane]) // WARP
            known = self.arrivals.setdefault((barrier, block), {})
            count, _, row = known.get(warp, (0, 0, self.warp_times[lane]))
            # Lanes may arrive one by one; the time of the last one is used for all.
            known[warp] = (count + 1, time, np.maximum(row, self.warp_times[lane]))

    def _meet(self, block: int, lanes: np.ndarray, time: int, arrivals: dict) -> None:
        """Join the clocks of threads of one block; those in ``arrivals`` did not wait."""
        wave = self.wave
        row = self.warp_times[lanes].max(0)
        warps = wave.thread_of[lanes] // WARP
        for warp in np.unique(warps):
            here = lanes[warps == warp]
            own = self.lane_times[here].max(0)
            own[wave.thread_of[here] % WARP] = time
            self.lane_times[here] = own
            row[warp] = time if len(here) == self._size(warp) else row[warp]
        for warp, (count, before, known) in arrivals.items():
            row = np.maximum(row, known)
            if count == self._size(warp):
                row[warp] = max(row[warp], before)
        self.warp_times[lanes] = row

    def _size(self, warp: int) -> int:
        return min(WARP, self.wave.threads - int(warp) * WARP)

    def warp_barrier(self, lanes: np.ndarray, mask: np.ndarray, time: int) -> None:
        """Handle ``bar.warp.sync``: join the clocks of the lanes of each warp that share a mask."""
        wave = self.wave
        if len(mask) == 1 and len(lanes) == wave.lanes and mask[0] == 0xFFFF_FFFF:
            self.warp_time[:] = time
            if self.exact:
                self.lane_times[:] = time
            return
        warp = wave.warp_of[lanes]
        mask = np.broadcast_to(mask, lanes.shape).astype(np.int64)
        size = np.minimum(WARP, wave.threads - wave.thread_of[lanes] // WARP * WARP)
        everyone = (np.int64(1) << size) - 1
        whole = mask & everyone == everyone
        self.warp_time[warp[whole]] = time
        if whole.all() and not self.exact:
            return
        self.refine()
        order = np.lexsort((mask, warp))
        lanes, warp, mask = lanes[order], warp[order], mask[order]
        first = np.concatenate(([True], (warp[1:] != warp[:-1]) | (mask[1:] != mask[:-1])))
        starts, group = np.flatnonzero(first), np.cumsum(first) - 1
        own = np.maximum.reduceat(self.lane_times[lanes], starts, axis=0)
        own[group, wave.thread_of[lanes] % WARP] = time
        self.lane_times[lanes] = own[group]
        self.warp_times[lanes] = np.maximum.reduceat(self.warp_times[lanes], starts, axis=0)[group]

    # -- queries -------------------------------------------------------------------------------

    def knows(self, lane: int, other: int, time: int) -> bool:
        """Return True if ``lane`` knows lane ``other`` of its own block up to ``time``."""
        wave = self.wave
        block = int(wave.block_of[lane])
        if lane == other or time <= self.floor or time <= self.block_time[block]:
            return True
        warp = int(wave.thread_of[other]) // WARP
        same = int(wave.thread_of[lane]) // WARP == warp
        if not self.exact:
            return same and time <= self.warp_time[wave.warp_of[lane]]
        if same:
            return time <= self.lane_times[lane, wave.thread_of[other] % WARP]
        return time <= self.warp_times[lane, warp]
