"""SIMT loop: groups of lanes run basic blocks, diverge, reconverge, wait and end.

One step takes a group, runs the basic block that it is at, and moves the lanes to their next
blocks. The lanes of a group execute an instruction in one NumPy call, so a step costs little more
for thirty thousand lanes than for one.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from virtualgpu.errors import Location, TrapError, VirtualGPUError
from virtualgpu.lanes import barriers, calls, clusters, warp_sync
from virtualgpu.lanes.group import ALL, NONE, Group
from virtualgpu.lanes.registers import NOTHING, Registers
from virtualgpu.lanes.wave import Wave
from virtualgpu.program.program import BEGAN, BLOCK_MARKS, FELL, RAN, TAKEN, BasicBlock
from virtualgpu.wording import many

SPIN_LIMIT = 4  # idle rounds of a waiting loop before other lanes run
STARVATION = 20_000  # blocks that one group may run while others wait


def start(wave: Wave) -> None:
    """Place every lane of the wave at the kernel's first block."""
    program = wave.launch.program
    registers = Registers(wave.all_lanes, wave.lanes, {}, NOTHING)
    wave.push(Group(wave, wave.all_lanes, program.first_block, registers))


def run(wave: Wave) -> bool:
    """Run until the wave has ended (True) or all its lanes only wait for others (False)."""
    launch = wave.launch
    program, schedule, executed = launch.program, launch.schedule, launch.listeners.executed
    blocks, ran = program.blocks, program.ran
    while True:
        if not wave.pending and not wave.met:
            if wave.yielded:
                for group in wave.yielded:
                    group.spins = 0
                    wave.push(group)
                wave.yielded = []
                return False
            if wave.finished == wave.lanes:
                return True
            raise barriers.deadlock(wave)
        group = wave.met.pop() if wave.met else schedule.take(wave, program)
        streak = 0
        while group is not None:
            block = blocks[group.block]
            if block.guard is not None:
                group = _guard(wave, group, block)
                if group is None:
                    break
            if block.warp_mask is not None:
                group = warp_sync.meet(wave, group, block)
                if group is None:
                    break
            for tell in executed:
                tell(group, block.instructions)
            wave.steps += len(block.instructions)
            launch.spend(len(block.instructions), wave, group)
            if ran is None:
                result = block.run(group)
            else:
                at = BLOCK_MARKS * group.block
                ran[at + BEGAN] = 1
                result = block.run(group)
                ran[at + RAN] = 1
            kind = block.kind
            if kind == "next":
                group.block += 1
            elif kind == "branch":
                group = _branch(wave, group, block, result)
                if group is None:
                    break
            elif kind == "goto":
                if block.target <= group.block and _spins(group, block.target):
                    group.block = block.target
                    wave.yielded.append(group)
                    break
                group.block = block.target
            else:
                for onward in _LEAVE[kind](wave, group, block, result):
                    wave.push(onward)
                break
            if not schedule.goes_on(wave, group):
                streak = 0
                wave.push(group)
                break
            streak += 1
            if streak > STARVATION and wave.pending:
                wave.yielded.append(group)
                break


def interrupted(stop: BaseException) -> Location | None:
    """Return the location of a thread when ``stop`` was raised, from the frame of :func:`run`."""
    place = None
    for frame, _ in traceback.walk_tb(stop.__traceback__):
        if frame.f_code is run.__code__ and (group := frame.f_locals.get("group")) is not None:
            place = barriers.location(frame.f_locals["wave"], group)
    return place


def _spins(group: Group, head: int) -> bool:
    """Return True if the group only waits, at a branch back to ``head``, and should yield.

    A round that read memory (volatile, atomic) and changed nothing waits for another lane. Unless
    that lane runs, the group would wait for ever.
    """
    watch = group.wave.launch.standstill
    if watch is not None and watch.visited(group, head):
        return True
    if group.waited == ALL and not group.changed:
        group.spins += 1
    else:
        group.spins = 0
    group.waited, group.changed = NONE, False
    return group.spins > SPIN_LIMIT


def _branch(wave: Wave, group: Group, block: BasicBlock, predicate: np.ndarray) -> Group | None:
    """Send the lanes to their targets; return the group if its lanes stay together, else None."""
    if told := wave.launch.listeners.branched:
        taken = group.spread(~predicate if block.negated else predicate)
        for tell in told:
            tell(group, block.last, taken)
    true = (
        (group.count if predicate[0] else 0)
        if len(predicate) == 1
        else int(np.count_nonzero(predicate))
    )
    if (ran := wave.launch.program.ran) is not None:
        went = group.count - true if block.negated else true
        if went:
            ran[BLOCK_MARKS * group.block + TAKEN] = 1
        if went < group.count:
            ran[BLOCK_MARKS * group.block + FELL] = 1
    if true == 0 or true == group.count:
        went = (true == 0) == block.negated
        target = block.target if went else group.block + 1
        spins = went and block.target <= group.block and _spins(group, block.target)
        group.block = target
        if spins:
            wave.yielded.append(group)
            return None
        return group
    if block.negated:
        predicate = ~predicate
    program = wave.launch.program
    for lanes, target in ((predicate, block.target), (~predicate, group.block + 1)):
        part = group.subset(np.flatnonzero(lanes), target, program.blocks[target].live_in)
        if target <= group.block and _spins(part, target):
            wave.yielded.append(part)
        else:
            wave.push(part)
    return None


def _guard(wave: Wave, group: Group, block: BasicBlock) -> Group | None:
    """Let lanes skip an instruction under ``@p`` if their predicate is false."""
    assert block.guard is not None
    slot, negated = block.guard
    value = group.registers.get(slot)
    predicate = group.spread(np.zeros(1, bool) if value is None else value)
    if negated:
        predicate = ~predicate
    if predicate.all():
        return group
    after = group.block + 1
    live = wave.launch.program.blocks[after].live_in
    wave.push(group.subset(np.flatnonzero(~predicate), after, live))
    chosen = np.flatnonzero(predicate)
    return group.subset(chosen, group.block) if len(chosen) else None


# -- endings of a block that put the group back ------------------------------------------------


def _exit(wave: Wave, group: Group, block: BasicBlock, result: object) -> list[Group]:
    if group.full:
        wave.exited[:] = wave.threads
        wave.has_exited[:] = True
    else:
        wave.exited += np.bincount(group.take(wave.block_of), minlength=wave.blocks)
        wave.has_exited[group.lanes] = True
    wave.finished += group.count
    for observer in wave.launch.observers:
        observer.exited(group)
    onward = []
    for barrier in list(wave.waiting):
        onward += barriers.release(wave, barrier)
    if wave.cluster_barrier is not None:
        onward += clusters.release(wave)
    for groups in wave.parked.values():
        onward += groups
    wave.parked = {}
    return onward


def _barrier(
    wave: Wave, group: Group, block: BasicBlock, operands: barriers.Operands | None
) -> list[Group]:
    return (
        clusters.at_barrier(wave, group)
        if operands is None
        else barriers.arrive(wave, group, operands)
    )


def _indexed(wave: Wave, group: Group, block: BasicBlock, index: np.ndarray) -> list[Group]:
    if (index >= len(block.targets)).any():
        raise VirtualGPUError(
            f"brx.idx: index {int(index.max())} in a table of {many(len(block.targets), 'label')}",
            barriers.location(wave, group),
        )
    if len(index) == 1:
        group.block = block.targets[int(index[0])]
        return [group]
    return [
        group.subset(np.flatnonzero(index == value), block.targets[int(value)])
        for value in np.unique(index)
    ]


def _trap(wave: Wave, group: Group, block: BasicBlock, result: object) -> list[Group]:
    raise TrapError(
        "the kernel executed `trap`: an assertion in it failed, or it reached code that its "
        "author considered unreachable",
        barriers.location(wave, group),
    )


_LEAVE: dict[str, Callable[[Wave, Group, BasicBlock, Any], list[Group]]] = {
    "exit": _exit,
    "barrier": _barrier,
    "indexed": _indexed,
    "call": calls.call,
    "return": calls.leave,
    "trap": _trap,
}
