"""Instructions by which the lanes of a warp speak with each other (PTX ISA, "Parallel
Synchronization and Communication Instructions").

A group's lanes are sorted, so the lanes of one warp stand next to each other and reductions
over warps are reductions over segments.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.machine.group import Group
from virtualgpu.machine.wave import WARP

ONE = np.uint32(1)


def segments(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Where each warp starts among the group's lanes, and how many of its lanes are here."""
    warps = group.take(group.wave.warp_of)
    starts = np.flatnonzero(np.concatenate(([True], warps[1:] != warps[:-1])))
    counts = np.diff(np.append(starts, group.count))
    return starts, counts


def lane_ids(group: Group) -> np.ndarray:
    """``%laneid``: uint32, shape (n,)."""
    return (group.take(group.wave.thread_of) % WARP).astype(np.uint32)


def _per_warp(group: Group, values: np.ndarray, reduce) -> np.ndarray:
    starts, counts = segments(group)
    return np.repeat(reduce.reduceat(group.spread(values), starts), counts)


def activemask(group: Group) -> np.ndarray:
    """The lanes of each warp that run this instruction together: uint32, shape (n,)."""
    return _per_warp(group, ONE << lane_ids(group), np.bitwise_or)


def ballot(group: Group, predicate: np.ndarray) -> np.ndarray:
    bits = np.where(group.spread(predicate), ONE << lane_ids(group), np.uint32(0))
    return _per_warp(group, bits, np.bitwise_or)


def vote(mode: str, group: Group, predicate: np.ndarray) -> np.ndarray:
    """``vote.sync`` all, any, uni (bool) or ballot (uint32); shape (n,)."""
    if mode == "ballot":
        return ballot(group, predicate)
    predicate = group.spread(predicate)
    every = _per_warp(group, predicate, np.logical_and)
    if mode == "all":
        return every
    some = _per_warp(group, predicate, np.logical_or)
    return some if mode == "any" else every | ~some


def reduce(mode: str, group: Group, values: np.ndarray) -> np.ndarray:
    """``redux.sync``: add (wraps), min, max, and, or, xor over each warp."""
    ufunc = {
        "add": np.add, "min": np.minimum, "max": np.maximum,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    }[mode]  # fmt: skip
    return _per_warp(group, values, ufunc).astype(values.dtype, copy=False)


def elect(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """``elect.sync``: the leader's lane id and who is the leader (the lowest lane here)."""
    starts, counts = segments(group)
    leader = np.zeros(group.count, bool)
    leader[starts] = True
    return np.repeat(lane_ids(group)[starts], counts), leader


def _square(group: Group, values: np.ndarray, fill) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values as (warps, 32), which places hold a lane of the group, and each lane's row."""
    starts, counts = segments(group)
    row = np.repeat(np.arange(len(starts)), counts)
    column = lane_ids(group).astype(np.int64)
    table = np.full((len(starts), WARP), fill, values.dtype)
    table[row, column] = group.spread(values)
    present = np.zeros(table.shape, bool)
    present[row, column] = True
    return table, present, row


def shuffle(mode: str, group: Group, values: np.ndarray, b: np.ndarray, c: np.ndarray
            ) -> tuple[np.ndarray, np.ndarray]:
    """``shfl.sync``: each lane's value from another lane, and whether that lane was in range.

    ``b`` is the lane or offset, ``c`` packs the clamp (bits 0-4) and segment mask (bits 8-12).
    A source lane that does not take part has no value to give: the result is poison, as the
    ISA leaves it undefined.
    """
    lane = lane_ids(group).astype(np.int64)
    b, c = b.astype(np.int64), c.astype(np.int64)
    offset, clamp, mask = b & 31, c & 31, (c >> 8) & 31
    most = (lane & mask) | (clamp & ~mask)
    if mode == "up":
        source = lane - offset
        inside = source >= most
    elif mode == "down":
        source = lane + offset
        inside = source <= most
    elif mode == "bfly":
        source = lane ^ offset
        inside = source <= most
    else:
        source = (lane & mask) | (offset & ~mask)
        inside = source <= most
    source = np.where(inside, source, lane)
    table, _, row = _square(group, values, 0xFEFEFEFE)
    return table[row, source], inside


def match_any(group: Group, values: np.ndarray) -> np.ndarray:
    """``match.any.sync``: which lanes of the warp hold this lane's value: uint32, (n,)."""
    table, present, row = _square(group, values, 0)
    column = lane_ids(group).astype(np.int64)
    same = (table[row] == table[row, column][:, None]) & present[row]
    return (same * (ONE << np.arange(WARP, dtype=np.uint32))).sum(1, dtype=np.uint32)


def match_all(group: Group, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``match.all.sync``: the mask of the warp's lanes where all values agree, else 0."""
    values = group.spread(values)
    low = _per_warp(group, values, np.minimum)
    agree = low == _per_warp(group, values, np.maximum)
    return np.where(agree, activemask(group), np.uint32(0)).astype(np.uint32), agree
