"""Asynchronous copies from global to shared memory.

PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy".

A copy's data arrive at the latest moment that the ISA allows: when the thread that started the
copy waits for it, or when a thread waits for an ``mbarrier`` at which only copies have yet to
arrive. A thread that reads earlier sees the previous contents. Observers are notified when copies
begin and arrive. Source and target are checked when the copy begins. Copies that no thread waits
for never arrive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from virtualgpu.lanes import access, access_messages
from virtualgpu.lanes.events import Access
from virtualgpu.lanes.families import mbarrier
from virtualgpu.lanes.group import Group
from virtualgpu.lanes.wave import Wave
from virtualgpu.memory.mapping import BASE
from virtualgpu.program.site import Site
from virtualgpu.wording import many

_PIECES = {16: ("u4", 4), 8: ("u4", 2), 4: ("u4", 1), 2: ("u2", 1), 1: ("u1", 1)}


@dataclass(slots=True, eq=False)
class Copy:
    """Copy started by one instruction: one element per lane (for a bulk copy, per 16 bytes).

    ``targets`` are addresses in the block's shared memory. ``read`` is the number of bytes that
    come from ``sources``; zeros follow. ``number`` is the lane's copy group to which an element
    belongs. ``waiting`` is True for elements that have yet to arrive.
    """

    site: Site
    lanes: np.ndarray
    targets: np.ndarray
    sources: np.ndarray
    read: np.ndarray
    number: np.ndarray
    waiting: np.ndarray

    def write(self, wave: Wave, chosen: np.ndarray) -> Access:
        """Return the event of the copy's write at some positions, for observers."""
        lanes = self.lanes[chosen]
        return Access(
            "store",
            "shared",
            access.some_lanes(wave, lanes),
            self.site.instruction,
            lanes,
            self.targets[chosen],
            self.site.size,
        )


class Copies:
    """Copies in flight of a wave's lanes; ``groups`` counts the groups that a lane committed."""

    def __init__(self, wave: Wave):
        self.groups = np.zeros(wave.lanes, np.int64)
        self.pending: list[Copy] = []


def of(wave: Wave) -> Copies:
    if wave.copies is None:
        wave.copies = Copies(wave)
    found: Copies = wave.copies
    return found


# -- what instructions do --------------------------------------------------------------------------


def start(
    to: Site, source: Site, group: Group, target: np.ndarray, origin: np.ndarray, read: np.ndarray
) -> None:
    """Start ``cp.async``: copy ``read`` bytes from ``origin`` and fill the rest with zeros."""
    copies = of(group.wave)
    read = group.spread(read).astype(np.int64)
    if (read > to.size).any():
        at = int(np.argmax(read > to.size))
        mbarrier.fault(
            to,
            group,
            at,
            f"an asynchronous copy of {many(to.size, 'byte')} would read "
            f"{int(read[at])}: src-size must be at most cp-size",
        )
    target, origin = _places(to, source, group, target, origin)
    copies.pending.append(
        _begin(
            source,
            group,
            Copy(
                to,
                group.lanes,
                target,
                origin,
                read,
                copies.groups[group.lanes],
                np.ones(group.count, bool),
            ),
        )
    )


def commit(group: Group) -> None:
    """Execute ``cp.async.commit_group``: close the lanes' present group of copies."""
    of(group.wave).groups[group.lanes] += 1


def wait(most: int | None, group: Group) -> None:
    """Run ``cp.async.wait_group``.

    At most the ``most`` latest groups of a lane may still be in flight. With None (``wait_all``),
    none may be.
    """
    copies = of(group.wave)
    limit = np.full(group.wave.lanes, -1)
    limit[group.lanes] = (
        np.iinfo(np.int64).max if most is None else (copies.groups[group.lanes] - most)
    )
    for copy in copies.pending:
        _arrive(group, copy, copy.number < limit[copy.lanes])
    copies.pending = [copy for copy in copies.pending if copy.waiting.any()]


def arrive(more: bool, site: Site, group: Group, address: np.ndarray) -> None:
    """Run ``cp.async.mbarrier.arrive``.

    The arrival at an object happens when all copies that the lane has started so far have arrived.
    """
    copies, lanes = of(group.wave), group.lanes
    begun = [(copy, np.isin(copy.lanes, lanes)) for copy in copies.pending]

    def deliver(chosen: np.ndarray) -> None:
        for copy, mine in begun:
            _arrive(group, copy, mine & np.isin(copy.lanes, lanes[chosen]))
        copies.pending = [copy for copy in copies.pending if copy.waiting.any()]

    mbarrier.defer(site, group, address, 1, np.zeros(group.count, np.int64), deliver, more)


def bulk(
    to: Site,
    source: Site,
    target: np.ndarray,
    origin: np.ndarray,
    nbytes: np.ndarray,
    barrier: Site,
    group: Group,
    address: np.ndarray,
) -> None:
    """Start ``cp.async.bulk``: global to shared memory, counted by the phase of an mbarrier."""
    size = to.size
    nbytes = group.spread(nbytes).astype(np.int64)
    if (bad := (nbytes % size != 0) | (nbytes == 0)).any():
        at = int(np.argmax(bad))
        mbarrier.fault(
            to,
            group,
            at,
            f"a bulk copy of {many(int(nbytes[at]), 'byte')}: the size must be a multiple of "
            f"{size}",
        )
    pieces = nbytes // size
    of_lane = np.repeat(np.arange(group.count), pieces)
    count = len(of_lane)
    ahead = (np.arange(count) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * size
    target, origin = (
        one[of_lane] + ahead.astype(np.uint64) for one in _places(to, source, group, target, origin)
    )
    whole = np.full(count, size)
    copy = _begin(
        source,
        group,
        Copy(to, group.lanes[of_lane], target, origin, whole, whole, np.ones(count, bool)),
    )

    def deliver(chosen: np.ndarray) -> None:
        _arrive(group, copy, np.isin(of_lane, chosen))

    mbarrier.defer(barrier, group, address, 0, nbytes, deliver)


# -- their parts -----------------------------------------------------------------------------------


def _places(
    to: Site, source: Site, group: Group, target: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return both addresses of each lane, with the constant parts of the operands added."""
    offsets = (np.uint64(site.offset & 0xFFFF_FFFF_FFFF_FFFF) for site in (to, source))
    there, here = (
        group.spread(one + offset) for one, offset in zip((target, origin), offsets, strict=True)
    )
    return there, here


def _begin(source: Site, group: Group, copy: Copy) -> Copy:
    """Return the copy after its addresses are checked, and notify observers."""
    wave, to = group.wave, replace(copy.site, offset=0)
    group.changed = True
    for row in _rows(copy.lanes):
        some = access.some_lanes(wave, copy.lanes[row])
        access.checked(to, some, copy.targets[row], tell=False)
        origin = copy.sources[row]
        if (origin & np.uint64(to.size - 1)).any():
            access_messages.misaligned(source, some, "global", origin)
        read = copy.read[row]
        for nbytes in np.unique(read).tolist():
            chosen, ahead = np.flatnonzero(read == nbytes), 0
            part = access.some_lanes(wave, some.lanes[chosen])
            for piece, (dtype, width) in _PIECES.items():
                if nbytes & piece:
                    site = replace(source, dtype=np.dtype(dtype), width=width, offset=0)
                    access.checked(site, part, origin[chosen] + np.uint64(ahead))
                    ahead += piece
        for observer in wave.launch.observers:
            observer.copy_began(copy.write(wave, row))
    return copy


def _rows(lanes: np.ndarray) -> list[np.ndarray]:
    """Return positions in groups with each lane at most once; a bulk copy has many per lane."""
    if len(lanes) < 2 or (np.diff(lanes) > 0).all():
        return [np.arange(len(lanes))]
    rank = np.arange(len(lanes)) - np.searchsorted(lanes, lanes)
    order = np.argsort(rank, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(rank[order])) + 1)


def _arrive(group: Group, copy: Copy, now: np.ndarray) -> None:
    """Deliver those of a copy's lanes that are still in flight."""
    chosen = np.flatnonzero(now & copy.waiting)
    if not len(chosen):
        return
    wave, size = group.wave, copy.site.size
    byte = np.arange(size)
    inside = byte < copy.read[chosen, None]
    places = (copy.sources[chosen] - np.uint64(BASE)).view(np.int64)[:, None] + byte
    values = np.where(inside, wave.launch.memory.mapping.raw[np.where(inside, places, 0)], 0)
    targets = copy.targets[chosen].view(np.int64) + (
        wave.block_of[copy.lanes[chosen]] * wave.shared_stride
    )
    wave.shared[targets[:, None] + byte] = values
    copy.waiting[chosen] = False
    group.changed = True
    if (watch := wave.launch.standstill) is not None:
        watch.changed()
    for row in _rows(copy.lanes[chosen]) if wave.launch.observers else ():
        arrived = copy.write(wave, chosen[row])
        for observer in wave.launch.observers:
            observer.copy_arrived(arrived)
            observer.accessed(arrived)
