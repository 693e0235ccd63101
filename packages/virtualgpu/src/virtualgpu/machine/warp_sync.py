"""Lanes of a warp that wait for each other: ``bar.warp.sync``, ``shfl.sync`` and the like (PTX
ISA, "Parallel Synchronization and Communication Instructions").
"""

from __future__ import annotations

import numpy as np

from virtualgpu.machine.group import Group, merge
from virtualgpu.machine.program import BARRIERS, Block
from virtualgpu.machine.registers import Registers
from virtualgpu.machine.wave import Wave


def meet(wave: Wave, group: Group, block: Block) -> Group | None:
    """Wait until all lanes that a warp-synchronous instruction names stand at it.

    Lanes that have ended are not waited for. Returns the lanes that may go on.
    """
    if block.instructions[0].opcode in BARRIERS:
        return _warp_barrier(wave, group)
    key = group.key
    parked = wave.parked.pop(key, None)
    if parked:
        group = merge([*parked, group], block.live_in, wave.launch.program.dtypes)
    elif group.full:
        return group
    complete = _complete(wave, group.lanes, _member_mask(group, block))
    if complete.all():
        return group
    wave.parked[key] = [group.subset(np.flatnonzero(~complete), group.block)]
    chosen = np.flatnonzero(complete)
    return group.subset(chosen, group.block) if len(chosen) else None


def _warp_barrier(wave: Wave, group: Group) -> Group | None:
    """``bar.warp.sync``: lanes meet that wait with the same mask, wherever in the code each is."""
    blocks = wave.launch.program.blocks
    waiting = [*wave.parked.pop("bar.warp.sync", ()), group]
    masks = [g.spread(_member_mask(g, blocks[g.block])) for g in waiting]
    complete = [np.ones(group.count, bool)]
    if len(waiting) > 1 or not group.full:
        complete = np.split(
            _complete(wave, np.concatenate([g.lanes for g in waiting]), np.concatenate(masks)),
            np.cumsum([g.count for g in waiting])[:-1])
    if wave.launch.observers:
        lanes = np.concatenate([g.lanes[c] for g, c in zip(waiting, complete, strict=True)])
        named = np.concatenate([m[c] for m, c in zip(masks, complete, strict=True)])
        order = np.argsort(lanes)
        if len(lanes):
            met = Group(wave, lanes[order], group.block, Registers.of({}, lanes, wave.lanes))
            for observer in wave.launch.observers:
                observer.warp_synchronised(
                    met, blocks[group.block].instructions[0], named[order])
    onward, left = None, []
    for one, goes in zip(waiting, complete, strict=True):
        chosen = np.flatnonzero(goes)
        if len(chosen) < one.count:
            left.append(one.subset(np.flatnonzero(~goes), one.block))
        if not len(chosen):
            continue
        passed = one.subset(chosen, one.block)
        if one is group:
            onward = passed
        else:  # its own barrier is all that its block holds
            blocks[passed.block].run(passed)
            passed.block += 1
            wave.push(passed)
    if left:
        wave.parked["bar.warp.sync"] = left
    return onward


def _member_mask(group: Group, block: Block) -> np.ndarray:
    mask = block.warp_mask
    if not isinstance(mask, np.ndarray):
        assert mask is not None
        mask = group.registers.get(mask, np.zeros(1, np.uint32)).view(np.uint32)
    return mask


def _complete(wave: Wave, lanes: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Which of ``lanes`` have all that their mask names beside them: bool, shape (n,).

    ``mask`` is uint32, shape (1,) or (n,). Lanes of a warp that name different masks wait for
    their own company only.
    """
    warp = wave.warp_of[lanes]
    bit = np.uint32(1) << (wave.thread_of[lanes] % 32).astype(np.uint32)
    if len(mask) == 1:
        team, of_team, wanted = warp, np.arange(wave.warps), mask
    else:
        teams, team = np.unique((warp << 32) | mask, return_inverse=True)
        of_team, wanted = teams >> 32, (teams & 0xFFFF_FFFF).astype(np.uint32)
    here = np.zeros(len(of_team), np.uint32)
    np.bitwise_or.at(here, team, bit)
    alive = np.zeros(wave.warps, np.uint32)
    left = np.flatnonzero(~wave.has_exited)
    np.bitwise_or.at(alive, wave.warp_of[left],
                     np.uint32(1) << (wave.thread_of[left] % 32).astype(np.uint32))
    complete: np.ndarray = ((wanted & alive[of_team] & ~here) == 0)[team]
    return complete
