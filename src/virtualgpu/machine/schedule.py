"""Which lanes run next.

A schedule takes groups from a wave's ``pending`` table, whose keys sort deeper calls first and
then the lowest program counter. Any order that a schedule picks is one that independent thread
scheduling allows (CUDA C++ Programming Guide, "Independent Thread Scheduling"), so a kernel
that is right under one schedule and wrong under another is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from virtualgpu.machine.group import Group, merge
from virtualgpu.machine.wave import Wave


class Lockstep:
    """The default: all lanes that stand at the lowest program counter run together.

    Lanes that branch apart meet again at the first common instruction after the branch.
    """

    def waves(self, count: int) -> Iterable[int]:
        """The order in which waves of blocks start."""
        return range(count)

    def take(self, wave: Wave, program) -> Group:
        """Remove the group to run next from ``wave.pending``, which is not empty."""
        groups = wave.pending.pop(min(wave.pending))
        return _merged(groups, program)

    def goes_on(self, wave: Wave, group: Group) -> bool:
        """Whether ``group`` may run its next block before anything else is looked at."""
        return not wave.pending or group.key < min(wave.pending)


class Adversarial:
    """Warps in random order, and lanes of a warp apart wherever they may part.

    Repeatable: the same seed and launch give the same order.
    """

    def __init__(self, seed: int):
        self.seed = seed
        self.random = np.random.Generator(np.random.Philox(seed))

    def waves(self, count: int) -> Iterable[int]:
        if count <= 1 << 16:
            return map(int, self.random.permutation(count))
        # Too many to shuffle: a stride that shares no factor with the count meets each once.
        first, stride = (int(n) for n in self.random.integers(1 << 16, count, 2))
        while math.gcd(stride, count) > 1:
            stride += 1
        return ((first + stride * n) % count for n in range(count))

    def take(self, wave: Wave, program) -> Group:
        keys = sorted(wave.pending)
        key = keys[self.random.integers(len(keys))]
        group = _merged(wave.pending.pop(key), program)
        if group.count == 1:
            return group
        # Two warps in three keep their lanes together: barriers that are missing between warps
        # and inside one are both found.
        if self.random.integers(3):
            label = group.take(wave.warp_of)
            label = label - label[0]
        else:
            label = np.arange(group.count)
        share = (0.5, 0.1, 0.9)[self.random.integers(3)]
        chosen = (self.random.random(int(label[-1]) + 1) < share)[label]
        if chosen.all() or not chosen.any():
            return group
        rest = group.subset(np.flatnonzero(~chosen), group.block)
        wave.push(rest)
        return group.subset(np.flatnonzero(chosen), group.block)

    def goes_on(self, wave: Wave, group: Group) -> bool:
        return False


def _merged(groups: list[Group], program) -> Group:
    if len(groups) == 1:
        return groups[0]
    return merge(groups, program.blocks[groups[0].block].live_in, program.dtypes)
