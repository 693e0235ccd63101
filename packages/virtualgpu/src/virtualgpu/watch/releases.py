"""Releases through an address, and the releases that a wave's fences have seen.

This module holds the data; the rules are in :mod:`virtualgpu.watch.release_acquire`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from virtualgpu.lanes.wave import WARP

# What a thread has acquired: (log, first entry, True if also from other blocks) → end of entries
Known = dict[tuple["Log", int, bool], int]


@dataclass(slots=True, eq=False)
class Release:
    """Knowledge that a released value carries: threads, and the times up to which they are known.

    Each time is a pair: for readers in the releaser's block, and for readers in other blocks.
    """

    thread: int
    own: tuple[int, int]
    warp: tuple[int, int]
    block: tuple[int, int]
    fences: np.ndarray  # shape (2, threads): fences of the block's threads before its last barrier
    rows: tuple  # the lane and warp times of the releaser, if barriers were partial, or None

    def is_uneven(self) -> bool:
        near, far = zip(self.own, self.warp, self.block, strict=True)
        return (
            near != far
            or bool((self.fences[0] != self.fences[1]).any())
            or (self.rows[0] is not self.rows[1])
        )

    def covers(self, thread: int, threads: int, time: int, far: bool) -> bool:
        if time <= self.block[far] or (thread == self.thread and time <= self.own[far]):
            return True
        if time <= self.fences[int(far), thread % threads]:
            return True
        other, mine = thread % threads, self.thread % threads
        same_warp = other // WARP == mine // WARP
        if same_warp and time <= self.warp[far]:
            return True
        rows = self.rows[int(far)]
        if rows is None:
            return False
        return bool(time <= (rows[0][other % WARP] if same_warp else rows[1][other // WARP]))


@dataclass(slots=True, eq=False)
class Log:
    """All releases through one address, in order."""

    entries: int = 0
    start: int = 0  # the current value carries the entries from here on
    by_block: dict[int, list[tuple[int, Release]]] = field(default_factory=dict)
    # Entries whose releaser knew something that the earlier entries do not include: the position,
    # its block, and what it knew, for readers in its block and in others.
    links: list[tuple[int, int, tuple[Known, Known]]] = field(default_factory=list)
    uneven: bool = False  # an entry may tell its own block more than other blocks

    def add(self, release: Release, block: int, known: tuple[Known, Known]) -> None:
        self.by_block.setdefault(block, []).append((self.entries, release))
        # A reader of this entry also reads those before it from `start` on. They may have told the
        # releaser, in their own block, something that they do not tell the reader.
        if self.uneven or any(
            log is not self or first != self.start for part in known for log, first, _ in part
        ):
            self.links.append((self.entries, block, known))
        self.uneven |= known[0] != known[1] or release.is_uneven()
        self.entries += 1


@dataclass(slots=True, eq=False)
class Fences:
    """Fences of one wave's lanes, and the releases that they have seen and acquired."""

    # Time of the last fence of any scope, and of the last beyond the block: shape (2, lanes).
    last: np.ndarray
    met: np.ndarray  # the same at the last barrier of the lane's whole block
    # Times up to which the lane knew its block and its warp at those fences.
    block: np.ndarray
    warp: np.ndarray
    # (beyond the block or not, lane) → what else it knew at the fence
    rows: dict[tuple[int, int], tuple] = field(default_factory=dict)
    carried: dict[tuple[int, int], Known] = field(default_factory=dict)
    # lane → (log, first entry) → (end, True if seen by an atomic): waits for a fence
    seen: dict[int, dict[tuple[Log, int], tuple[int, bool]]] = field(default_factory=dict)
    lanes: dict[int, Known] = field(default_factory=dict)
    blocks: dict[int, Known] = field(default_factory=dict)
