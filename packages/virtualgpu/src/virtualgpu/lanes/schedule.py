"""Schedules: the order in which lanes run.

A schedule takes groups from a wave's ``pending`` table, whose keys sort deeper calls first and
then lower program counters. Every order that a schedule picks is allowed by independent thread
scheduling (CUDA C++ Programming Guide, "Independent Thread Scheduling"), so a kernel that is right
in one order and wrong in another has an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from virtualgpu.lanes.group import Group, merge
from virtualgpu.lanes.wave import Wave
from virtualgpu.program.program import Program

MEAN = (2, 5, 15)  # blocks that a lane runs on average before it is held back
# Groups of lanes that one launch runs in a random order, which takes up to 2.5 s of processor time.
# A kernel whose lanes meet in many shuffles would take a hundred times as long as in lockstep.
STEPS = 10_000


class Schedule(Protocol):
    """Protocol of a schedule."""

    fine: bool  # True if lanes may diverge between any two accesses to memory

    def waves(self, count: int) -> Iterable[int]:
        """Return the order in which waves of blocks start."""

    def take(self, wave: Wave, program: Program) -> Group:
        """Remove the group to run next from ``wave.pending``, which is not empty."""

    def goes_on(self, wave: Wave, group: Group) -> bool:
        """Return True if ``group`` may run its next block before any other group."""


class Lockstep:
    """Default schedule: all lanes at the lowest program counter run together.

    Lanes that diverge at a branch reconverge at the first common instruction after it.
    """

    fine = False

    def waves(self, count: int) -> Iterable[int]:
        """Return the order in which waves of blocks start."""
        return range(count)

    def take(self, wave: Wave, program: Program) -> Group:
        """Remove the group to run next from ``wave.pending``, which is not empty."""
        groups = wave.pending.pop(min(wave.pending))
        return _merged(groups, program)

    def goes_on(self, wave: Wave, group: Group) -> bool:
        """Return True if ``group`` may run its next block before any other group."""
        return not wave.pending or group.key < min(wave.pending)


class Adversarial:
    """Adversarial schedule: warps in random order, with diverging lanes.

    Lanes diverge wherever they may: at branches and between any two accesses to memory that others
    can access. Each lane or warp is held back after a random number of steps, until all others
    have ended, wait or are held back too. So anything that can happen between two of its
    instructions has time to happen. Lanes are held back most often just after an atomic, where the
    protocols of several threads go wrong.

    The order is repeatable: the same seed and launch give the same order. After ``STEPS`` groups
    the launch continues in lockstep, which is an allowed order too.
    """

    fine = True

    def __init__(self, seed: int):
        self.seed = seed
        self.random = np.random.Generator(np.random.Philox(seed))
        self.taken = 0  # groups taken in the present launch
        self.lockstep = Lockstep()

    def waves(self, count: int) -> Iterable[int]:
        self.taken = 0
        if count <= 1 << 16:
            return map(int, self.random.permutation(count))
        # There are too many to shuffle, but a stride coprime to the count visits each of them once.
        first, stride = (int(n) for n in self.random.integers(1 << 16, count, 2))
        while math.gcd(stride, count) > 1:
            stride += 1
        return ((first + stride * n) % count for n in range(count))

    def take(self, wave: Wave, program: Program) -> Group:
        self.taken += 1
        if self.taken > STEPS:
            return self.lockstep.take(wave, program)
        if wave.patience is None:
            wave.patience = self._patience(wave)
        keys = sorted(wave.pending)
        for number in self.random.permutation(len(keys)):
            key = keys[number]
            groups = wave.pending[key]
            if wave.held.get(key) == len(groups):
                continue
            if not any(np.count_nonzero(wave.patience[g.lanes] > 0) for g in groups):
                wave.held[key] = len(groups)
                continue
            del wave.pending[key]
            wave.held.pop(key, None)
            group = _merged(groups, program)
            if group.block in program.after_atomics and not self.random.integers(3):
                late = group.lanes[self._some(group.take(wave.warp_of))]
                wave.patience[late] = 0
                if len(late) == group.count:
                    wave.push(group)
                    continue
            free = wave.patience[group.lanes] > 0
            if not np.count_nonzero(free):
                wave.push(group)
                continue
            chosen = free & self._some(group.take(wave.warp_of))
            if not np.count_nonzero(chosen):
                chosen = free
            wave.patience[group.lanes[chosen]] -= 1
            if np.count_nonzero(chosen) == group.count:
                return group
            live = program.blocks[group.block].live_in
            wave.push(group.subset((~chosen).nonzero()[0], group.block, live))
            return group.subset(chosen.nonzero()[0], group.block, live)
        # All others have ended, wait or were held back too: start a new round.
        wave.patience, wave.held = self._patience(wave), {}
        return self.take(wave, program)

    def _patience(self, wave: Wave) -> np.ndarray:
        """Return the number of blocks that each lane may run: int64, shape (lanes,).

        Most lanes or warps are not held back in a round, because a lane that waits for a held-back
        lane cannot run far ahead of another.
        """
        whole_warps = self.random.integers(2)
        count = wave.warps if whole_warps else wave.lanes
        patience = self.random.geometric(1 / MEAN[self.random.integers(len(MEAN))], count)
        held = (0.5, 0.1, 0.02)[self.random.integers(3)]
        patience[self.random.random(count) > held] = 1 << 62
        return patience[wave.warp_of] if whole_warps else patience

    def _some(self, warps: np.ndarray) -> np.ndarray:
        """Return a random part of lanes, given their sorted warp numbers: bool, shape (n,).

        Two times in three, warps stay whole, so that both missing barriers between warps and
        missing barriers within a warp are found.
        """
        label = warps - warps[0] if self.random.integers(3) else np.arange(len(warps))
        share = (0.5, 0.1, 0.9)[self.random.integers(3)]
        return (self.random.random(int(label[-1]) + 1) < share)[label]

    def goes_on(self, wave: Wave, group: Group) -> bool:
        return self.taken > STEPS and self.lockstep.goes_on(wave, group)


def _merged(groups: list[Group], program: Program) -> Group:
    if len(groups) == 1:
        return groups[0]
    return merge(groups, program.blocks[groups[0].block].live_in, program.dtypes)
