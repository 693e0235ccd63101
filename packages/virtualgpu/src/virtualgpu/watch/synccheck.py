"""Checker for barriers that not all threads of a block reach, and for wrong warp masks.

``syncthreads`` must be reached by all threads of the block or by none, and by all on the same line
(CUDA C++ Programming Guide, "Synchronization Functions"). Hardware is more lenient, in ways that
differ between generations: since sm_70, a barrier does not wait for threads that have ended, and
threads that wait at different barriers release each other. Both cases are reported. A barrier with
a thread count (PTX ``bar.sync a, b``) needs exactly that many threads.

A lane that runs ``syncwarp``, a shuffle or a vote must be in the mask that it passes, and lanes
that name each other must pass the same mask. Each named lane must take part in a shuffle or a vote
(the same guide, "Warp Shuffle Functions"). Hardware does not wait for lanes that have ended, but it
then has no value from them, so a mask that names them is reported. ``syncwarp`` may name them
(Numba's ``cuda.reduce`` does). A mask may name lanes that a short warp never had. A shuffle that
reads a lane by its number or by ``xor`` must read a lane that takes part.

A barrier that can never be complete stops the launch with a DeadlockError.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.lanes.wave import WARP
from virtualgpu.watch.checking import Checker, at_line
from virtualgpu.watch.clocks import has_count
from virtualgpu.wording import many


class Synccheck(Checker):
    """Checker that adds such barriers to a report, one for each line or pair of lines."""

    # -- barriers of blocks --------------------------------------------------------------------

    def released(self, barrier, lanes, groups, missing) -> None:
        wave = groups[0].wave
        sites = [group.basic_block for group in groups]
        if has_count(groups):
            return  # it waits for a number of threads, whichever they are
        if missing is not None and len(missing):
            self._missing(barrier, wave, lanes, groups, sites, missing)
        if len({site.source for site in sites}) > 1 and barrier != "grid":
            self._apart(wave, groups, sites)

    def _missing(self, barrier, wave, lanes, groups, sites, missing) -> None:
        block = int(wave.block_of[missing[0]])
        if barrier == "grid":
            waiting, first = len(lanes), groups[0]
            few = len(missing)
            name, whom = "grid.sync()", "of the grid"
        else:
            waiting = int(np.count_nonzero(wave.block_of[lanes] == block))
            few = int(np.count_nonzero(wave.block_of[missing] == block))
            first = next((g for g in groups if (wave.block_of[g.lanes] == block).any()), groups[0])
            name, whom = "the barrier", f"of block {wave.where(int(missing[0]))[0]}"
        site = sites[groups.index(first)]
        at = self.location(wave, site.source, self._lane_of(wave, first, block))
        gone = self.location(wave, None, int(missing[0]))
        rest = "the other one waits" if waiting == 1 else f"the other {waiting} wait"
        message = (
            f"barrier: {many(few, 'thread')} {whom} ended before {name}{at_line(at)} (the "
            f"first is {gone.thread}), where {rest}. Every thread must reach it: guard the "
            "work and not the barrier, and do not return before it"
        )
        count = len(np.unique(wave.block_of[missing])) if barrier != "grid" else 1
        self.add(("missing", site.source), message, at, gone, count)

    def _apart(self, wave, groups, sites) -> None:
        """Report threads of one block that met at barriers of different lines."""
        here: dict = {}
        for group, site in zip(groups, sites, strict=True):
            for block in np.unique(wave.block_of[group.lanes]).tolist():
                here.setdefault(block, {}).setdefault(site.source, group)
        for block, by_source in here.items():
            if len(by_source) < 2:
                continue
            (one, first), (two, second) = list(by_source.items())[:2]
            at = self.location(wave, one, self._lane_of(wave, first, block))
            other = self.location(wave, two, self._lane_of(wave, second, block))
            message = (
                f"barrier: thread {at.thread} of block {at.block} waits at line {at.line} while "
                f"thread {other.thread} of the same block waits at another barrier, at line "
                f"{other.line}. All threads of a block must meet at one: move the barrier out of "
                "the branch or loop that only some threads take"
            )
            self.add(("apart", one, two), message, at, other, 1)

    @staticmethod
    def _lane_of(wave, group, block: int) -> int:
        lanes = group.lanes[wave.block_of[group.lanes] == block]
        return int(lanes[0] if len(lanes) else group.lanes[0])

    # -- barriers of warps ---------------------------------------------------------------------

    def warp_synchronised(self, group, instruction, mask) -> None:
        wave, lanes = group.wave, group.lanes
        if instruction.opcode != "bar" and wave.has_exited.any():
            self._ended(wave, lanes, instruction, mask)
        if len(mask) == 1 and mask[0] == 0xFFFF_FFFF:
            return
        mask = np.broadcast_to(mask, lanes.shape)
        own = (wave.thread_of[lanes] % WARP).astype(np.uint32)
        outside = np.flatnonzero(mask >> own & np.uint32(1) == 0)
        if len(outside):
            position = int(outside[0])
            at = self.location(wave, instruction.source, int(lanes[position]))
            self.add(
                ("mask", instruction.source),
                (
                    f"barrier: thread {at.thread} of block {at.block} runs {_name(instruction)} at "
                    f"line {at.line} with the mask {int(mask[position]):#x}, which does not name "
                    f"its own lane, number {int(own[position])} of its warp. A lane may only use "
                    "masks that name it"
                ),
                at,
                None,
                len(outside),
            )
            return
        warp = wave.warp_of[lanes]
        order = np.lexsort((mask, warp))
        a, b = order[:-1], order[1:]
        clash = np.flatnonzero(
            (warp[a] == warp[b]) & (mask[a] != mask[b]) & (mask[a] & mask[b] != 0)
        )
        if len(clash):
            one, two = int(a[clash[0]]), int(b[clash[0]])
            at = self.location(wave, instruction.source, int(lanes[one]))
            other = self.location(wave, instruction.source, int(lanes[two]))
            self.add(
                ("masks", instruction.source),
                (
                    f"barrier: threads {at.thread} and {other.thread} of block {at.block} run "
                    f"{_name(instruction)} at line {at.line} with the masks {int(mask[one]):#x} "
                    f"and {int(mask[two]):#x}. Lanes that name each other must give the same mask"
                ),
                at,
                other,
                len(clash),
            )

    def _ended(self, wave, lanes, instruction, mask) -> None:
        """Report lanes that a mask names although they ended without taking part."""
        ended = np.flatnonzero(wave.has_exited)
        named = np.zeros(wave.warps, np.uint32)
        np.bitwise_or.at(named, wave.warp_of[lanes], mask)
        own = (wave.thread_of[ended] % WARP).astype(np.uint32)
        absent = ended[named[wave.warp_of[ended]] >> own & np.uint32(1) != 0]
        if not len(absent):
            return
        position = int(np.flatnonzero(wave.warp_of[lanes] == wave.warp_of[absent[0]])[0])
        at = self.location(wave, instruction.source, int(lanes[position]))
        gone = self.location(wave, None, int(absent[0]))
        few = int(np.count_nonzero(wave.warp_of[absent] == wave.warp_of[absent[0]]))
        which = "a lane that" if few == 1 else f"{few} lanes that"
        given = int(np.broadcast_to(mask, lanes.shape)[position])
        self.add(
            ("ended", instruction.source),
            (
                f"barrier: thread {at.thread} of block {at.block} runs {_name(instruction)} at "
                f"line {at.line} with the mask {given:#x}, which names {which} ended without it "
                f"(the first is thread {gone.thread}). All lanes of a mask must take part: guard "
                "the value and not the call, or name only those that run it"
            ),
            at,
            gone,
            len(np.unique(wave.warp_of[absent])),
        )

    def shuffled_nothing(self, group, instruction, positions) -> None:
        at = self.location(group.wave, instruction.source, int(group.lanes[positions[0]]))
        self.add(
            ("nothing", instruction.source),
            (
                f"barrier: thread {at.thread} of block {at.block} reads at line {at.line} the "
                "value of a lane that takes no part in the shuffle, so the result is undefined. "
                "Choose a lane of the mask that also runs the shuffle"
            ),
            at,
            None,
            len(positions),
        )


def _name(instruction) -> str:
    return {
        "bar": "syncwarp",
        "shfl": "a shuffle",
        "vote": "a vote",
        "match": "a match",
        "redux": "a reduction",
    }.get(instruction.opcode, instruction.name)
