"""Sampled grids: run the first block, the last block and some random ones instead of all.

A grid of 2**33 threads takes minutes to run. Its typical fault, an index that overflows, occurs in
the last blocks.
"""

from __future__ import annotations

import operator
import random
from dataclasses import dataclass, field

import numpy as np

from virtualgpu.errors import LaunchError
from virtualgpu.wording import many


@dataclass(frozen=True, slots=True)
class SampledLaunch:
    """Record of a launch that ran only some of its blocks.

    Attributes
    ----------
    kernel : str
    ran : list of int
        Numbers of the blocks that ran, x fastest.
    blocks : int
        Blocks of the whole grid.
    """

    kernel: str
    ran: list[int]
    blocks: int

    def __str__(self) -> str:
        if len(self.ran) == self.blocks:
            return f"{self.kernel} ran all of its {many(self.blocks, 'block')}"
        return (
            f"{self.kernel} ran {len(self.ran)} of its {self.blocks:,} blocks: the first, the last "
            "and some at random"
        )


@dataclass
class Sample:
    """Choice of blocks for launches, and a record of the blocks that ran.

    Attributes
    ----------
    blocks : int
        Number of blocks chosen at random, in addition to the first and the last.
    seed : int
        Seed of the choice. The same seed and grid give the same blocks, so a second kernel reads
        what the first wrote.
    huge_only : bool
        Run all blocks of a launch unless one of its arguments is a huge array.
    launches : list of SampledLaunch
    """

    blocks: int = 8
    seed: int = 0
    huge_only: bool = False
    launches: list[SampledLaunch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blocks, self.seed = operator.index(self.blocks), operator.index(self.seed)
        if self.blocks < 0:
            raise ValueError(f"sample(blocks={self.blocks}): blocks must be an integer from 0 up")

    def choose(
        self, kernel: str, blocks: int, huge: bool, cooperative: bool = False, unit: int = 1
    ) -> np.ndarray | None:
        """Return the numbers of the blocks to run, in order: int64; None for all.

        ``huge`` is True if an argument of the launch is a huge array. ``unit`` consecutive blocks
        are chosen together (a cluster). Raises LaunchError for a cooperative launch that would run
        in part.
        """
        if self.huge_only and not huge:
            return None
        units, chosen = blocks // unit, None
        if units > self.blocks + 2:
            if cooperative:
                raise LaunchError(
                    f"a cooperative launch of {many(blocks, 'block')}, of which sample() would "
                    f"run {self.blocks + 2}: at grid.sync() every block waits for all others. "
                    "Launch it outside sample(), or with a smaller grid"
                )
            some = random.Random(self.seed).sample(range(1, units - 1), self.blocks)
            firsts = unit * np.array([0, *sorted(some), units - 1], np.int64)
            chosen = (firsts[:, None] + np.arange(unit)).reshape(-1)
        ran = list(range(blocks)) if chosen is None else chosen.tolist()
        self.launches.append(SampledLaunch(kernel, ran, blocks))
        return chosen

    def __str__(self) -> str:
        return "\n".join(map(str, self.launches)) or "no kernel was launched inside sample()"


def consecutive(chosen: np.ndarray | None, first: int, count: int) -> int:
    """Count the consecutive blocks among the next ``count`` chosen ones, from number ``first``."""
    if chosen is None:
        return count
    part = chosen[first : first + count]
    apart = np.flatnonzero(np.diff(part) != 1)
    return int(apart[0]) + 1 if len(apart) else len(part)
