"""Synchronisation within a warp: ``bar.warp.sync``, ``shfl.sync`` and similar.

PTX ISA, "Parallel Synchronization and Communication Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from virtualgpu.lanes.group import Group, merge
from virtualgpu.lanes.registers import Registers
from virtualgpu.lanes.wave import Wave
from virtualgpu.program.program import BasicBlock
from virtualgpu.ptx.opcodes import BARRIERS, COLLECTIVES


class _Asked(Exception):
    """Signal that an exchange has passed on its operands and is still to be made."""


def exchange(function: Callable[..., Any], group: Group, *operands: np.ndarray) -> Any:
    """Exchange values between lanes with ``function(group, mask, ...)``.

    The function is from :mod:`virtualgpu.lanes.warp_exchange`. It returns an array of shape (n,)
    or a tuple of such arrays.

    Lanes that met others at another instruction get the result of :func:`_exchange_apart`.
    """
    met, group.met = group.met, None
    if met is None:
        return function(group, *operands)
    if isinstance(met, _Asked):
        met.args = function, operands
        raise met
    return met[0] if len(met) == 1 else met


def meet(wave: Wave, group: Group, block: BasicBlock) -> Group | None:
    """Wait until all lanes that a warp-synchronous instruction names have arrived.

    They may arrive at another instruction with the same qualifiers and mask, because compilers
    copy the bodies of loops. PTX requires no more ("shfl.sync", "vote.sync": "... have executed
    shfl.sync with the same qualifiers and same membermask value").

    Exited lanes are not waited for. Returns the lanes that may continue.
    """
    if group.met is not None:
        group.met = group.met or None  # a barrier has no result
        return group
    opcode = block.instructions[0].opcode
    named = opcode not in BARRIERS
    if named:
        key = group.key
        parked = wave.parked.pop(key, None)
        if parked:
            group = merge([*parked, group], block.live_in, wave.launch.program.dtypes)
        elif group.full:
            return group
        # Matrix products are `.aligned`: all lanes must be at one instruction.
        others = _elsewhere(wave, block) if opcode in COLLECTIVES else []
    else:
        others = wave.parked.pop("bar.warp.sync", [])
    waiting = [*others, group]
    complete = _all_complete(wave, waiting)
    onward, going = None, []
    for one, goes in zip(waiting, complete, strict=True):
        chosen = np.flatnonzero(goes)
        if len(chosen) < one.count:
            wave.parked.setdefault(one.key if named else "bar.warp.sync", []).append(
                one.subset(np.flatnonzero(~goes), one.block)
            )
        if len(chosen):
            going.append(one.subset(chosen, one.block))
            if one is group:
                onward = going[-1]
    if not named or len(going) > 1:
        _tell(wave, going, block)
    if named and len(going) > 1:
        _exchange_apart(going)
    for passed in going:
        if passed is not onward:
            passed.met = passed.met or ()
            wave.met.append(passed)
    return onward


def _elsewhere(wave: Wave, block: BasicBlock) -> list[Group]:
    """Unpark and return the groups that wait at other instructions with the same qualifiers."""
    blocks, this = wave.launch.program.blocks, block.instructions[0]
    found = []
    for key, groups in list(wave.parked.items()):
        other = blocks[groups[0].block].instructions[0]
        if (other.opcode, other.modifiers) == (this.opcode, this.modifiers):
            found += wave.parked.pop(key)
    return found


def _all_complete(wave: Wave, waiting: list[Group]) -> list[np.ndarray]:
    """Return the lanes of each group whose whole mask is in one of the groups."""
    group, blocks = waiting[-1], wave.launch.program.blocks
    if len(waiting) == 1:
        if group.full:
            return [np.ones(group.count, bool)]
        return [_complete(wave, group.lanes, _member_mask(group, blocks[group.block]))]
    masks = [g.spread(_member_mask(g, blocks[g.block])) for g in waiting]
    return np.split(
        _complete(wave, np.concatenate([g.lanes for g in waiting]), np.concatenate(masks)),
        np.cumsum([g.count for g in waiting])[:-1],
    )


def _tell(wave: Wave, going: list[Group], block: BasicBlock) -> None:
    """Notify observers once of all the lanes that met, before any of them continues."""
    if not wave.launch.observers or not going:
        return
    blocks = wave.launch.program.blocks
    lanes = np.concatenate([g.lanes for g in going])
    named = np.concatenate([g.spread(_member_mask(g, blocks[g.block])) for g in going])
    order = np.argsort(lanes)
    met = Group(wave, lanes[order], block.index, Registers.of({}, lanes, wave.lanes))
    for observer in wave.launch.observers:
        observer.warp_synchronised(met, block.instructions[0], named[order])


def _exchange_apart(going: list[Group]) -> None:
    """Exchange values of lanes at several instructions, for :func:`exchange` to find.

    Each group keeps its part of the result. In a block, nothing comes before its exchange.
    """
    wave = going[0].wave
    given: list[tuple[np.ndarray, ...]] = []
    function: Callable[..., Any] | None = None
    for group in going:
        group.met = _Asked()
        try:
            wave.launch.program.blocks[group.block].run(group)
        except _Asked as asked:
            function, operands = asked.args
            given.append(tuple(group.spread(value) for value in operands))
    lanes = np.concatenate([g.lanes for g in going])
    order = np.argsort(lanes)
    assert function is not None
    joint = Group(wave, lanes[order], going[0].block, Registers.of({}, lanes, wave.lanes))
    results = function(joint, *(np.concatenate(parts)[order] for parts in zip(*given, strict=True)))
    back = np.split(np.argsort(order), np.cumsum([g.count for g in going])[:-1])
    for group, own in zip(going, back, strict=True):
        group.met = tuple(
            part[own] for part in (results if isinstance(results, tuple) else (results,))
        )


def _member_mask(group: Group, block: BasicBlock) -> np.ndarray:
    mask = block.warp_mask
    if not isinstance(mask, np.ndarray):
        assert mask is not None
        mask = group.registers.get(mask, np.zeros(1, np.uint32)).view(np.uint32)
    return mask


def _complete(wave: Wave, lanes: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return True for each of ``lanes`` whose whole mask has arrived: bool, shape (n,).

    ``mask`` is uint32, shape (1,) or (n,). Lanes of a warp with different masks wait only for the
    lanes of their own mask.
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
    np.bitwise_or.at(
        alive, wave.warp_of[left], np.uint32(1) << (wave.thread_of[left] % 32).astype(np.uint32)
    )
    complete: np.ndarray = ((wanted & alive[of_team] & ~here) == 0)[team]
    return complete
