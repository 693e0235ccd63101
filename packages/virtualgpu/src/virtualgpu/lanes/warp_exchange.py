"""Exchange of values between the lanes of a warp.

PTX ISA, "Parallel Synchronization and Communication Instructions".

A group's lanes are sorted, so the lanes of one warp are consecutive, and reductions over warps are
reductions over segments. Lanes of a warp with different member masks, such as tiles of cooperative
groups, run together but exchange nothing.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import WARP

ONE = np.uint32(1)
_EVERYONE = np.array([0xFFFF_FFFF], np.uint32)


def lane_ids(group: Group) -> np.ndarray:
    """Return ``%laneid``: uint32, shape (n,)."""
    return (group.take(group.wave.thread_of) % WARP).astype(np.uint32)


def teams(group: Group, mask: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Return the lanes that take part together, which share a warp and a member mask.

    The result is an order of the group's lanes that makes teams consecutive (None if they already
    are), the start of each team in it, and the number of lanes in each.
    """
    label, order = group.take(group.wave.warp_of), None
    if len(mask) > 1 and (mask != mask[0]).any():
        label = (label << 32) | mask
        order = np.argsort(label, kind="stable")
        label = label[order]
    starts = np.flatnonzero(np.concatenate(([True], label[1:] != label[:-1])))
    return order, starts, np.diff(np.append(starts, group.count))


def _per_team(group: Group, mask: np.ndarray, values: np.ndarray, reduce: np.ufunc) -> np.ndarray:
    order, starts, counts = teams(group, mask)
    values = group.spread(values)
    if order is None:
        return np.repeat(reduce.reduceat(values, starts), counts)
    reduced = np.repeat(reduce.reduceat(values[order], starts), counts)
    result = np.empty_like(reduced)
    result[order] = reduced
    return result


def activemask(group: Group) -> np.ndarray:
    """Return the lanes of each warp that run this instruction together: uint32, shape (n,)."""
    return _per_team(group, _EVERYONE, ONE << lane_ids(group), np.bitwise_or)


def vote(mode: str, group: Group, mask: np.ndarray, predicate: np.ndarray) -> np.ndarray:
    """Execute ``vote.sync``: bool for all, any, uni; uint32 for ballot; shape (n,)."""
    predicate = group.spread(predicate)
    if mode == "ballot":
        bits = np.where(predicate, ONE << lane_ids(group), np.uint32(0))
        return _per_team(group, mask, bits, np.bitwise_or)
    every = _per_team(group, mask, predicate, np.logical_and)
    if mode == "all":
        return every
    some = _per_team(group, mask, predicate, np.logical_or)
    return some if mode == "any" else every | ~some


def reduce(mode: str, group: Group, mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Execute ``redux.sync``: add (wrapping), min, max, and, or, xor over each team."""
    ufunc = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[mode]
    return _per_team(group, mask, values, ufunc).astype(values.dtype, copy=False)


def elect(group: Group, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Execute ``elect.sync``: return the lowest lane's id, and True for that lane."""
    lane = lane_ids(group)
    leader = _per_team(group, mask, lane, np.minimum)
    return leader, leader == lane


def _square(
    group: Group, mask: np.ndarray, values: np.ndarray, fill: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values as (teams, 32), a mask of the places with a lane, and each lane's row."""
    order, starts, counts = teams(group, mask)
    row = np.repeat(np.arange(len(starts)), counts)
    if order is not None:
        row[order] = row.copy()
    column = lane_ids(group).astype(np.int64)
    table = np.full((len(starts), WARP), fill, values.dtype)
    table[row, column] = group.spread(values)
    present = np.zeros(table.shape, bool)
    present[row, column] = True
    return table, present, row


def shuffle(
    mode: str, group: Group, mask: np.ndarray, values: np.ndarray, b: np.ndarray, c: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Execute ``shfl.sync``.

    Returns each lane's value from its source lane, whether that lane is in range, and whether it
    takes part.

    ``b`` is the lane or offset. ``c`` packs the clamp (bits 0-4) and the segment mask (bits 8-12).
    A source lane that does not take part has no value, so the result is poison; the ISA leaves it
    undefined.
    """
    lane = lane_ids(group).astype(np.int64)
    b, c = b.astype(np.int64), c.astype(np.int64)
    offset, clamp, segment = b & 31, c & 31, (c >> 8) & 31
    most = (lane & segment) | (clamp & ~segment)
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
        source = (lane & segment) | (offset & ~segment)
        inside = source <= most
    source = np.where(inside, source, lane)
    table, present, row = _square(group, mask, values, 0xFEFEFEFE)
    return table[row, source], inside, present[row, source]


def match_any(group: Group, mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Execute ``match.any.sync``: return the mask of lanes with this lane's value, uint32."""
    table, present, row = _square(group, mask, values, 0)
    column = lane_ids(group).astype(np.int64)
    same = (table[row] == table[row, column][:, None]) & present[row]
    found: np.ndarray = (same * (ONE << np.arange(WARP, dtype=np.uint32))).sum(1, dtype=np.uint32)
    return found


def match_all(group: Group, mask: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Execute ``match.all.sync``: return the team's mask if all values agree, else 0."""
    values = group.spread(values)
    low = _per_team(group, mask, values, np.minimum)
    agree = low == _per_team(group, mask, values, np.maximum)
    together = _per_team(group, mask, ONE << lane_ids(group), np.bitwise_or)
    return np.where(agree, together, np.uint32(0)).astype(np.uint32), agree
