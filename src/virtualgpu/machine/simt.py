"""The SIMT loop: groups of lanes run block after block, part, meet again, wait and end.

One step takes a group, runs the basic block at which it stands, and puts the lanes where they
go next. What the lanes of a wave do together is one NumPy call, so a step costs little more for
thirty thousand lanes than for one.
"""

from __future__ import annotations

import numpy as np

from virtualgpu.errors import MemoryAccessError, TrapError, VirtualGPUError
from virtualgpu.machine import barriers, fuse
from virtualgpu.machine.group import Group, merge
from virtualgpu.machine.program import CODE_BASE, WARP_SYNC, Block
from virtualgpu.machine.registers import Registers
from virtualgpu.machine.wave import Wave

SPIN_LIMIT = 4  # idle rounds of a waiting loop before other lanes get their turn
STARVATION = 20_000  # blocks that one group may run while others wait


def start(wave: Wave) -> None:
    """Place every lane of the wave at the kernel's first block."""
    program = wave.launch.program
    registers = Registers.of({}, wave.all_lanes, wave.lanes)
    push(wave, Group(wave, wave.all_lanes, program.entry_code.entry, registers))


def push(wave: Wave, group: Group) -> None:
    wave.pending.setdefault(group.key, []).append(group)


def run(wave: Wave) -> bool:
    """Run until the wave has ended (True) or all its lanes only wait for others (False)."""
    launch = wave.launch
    program, schedule, observers = launch.program, launch.schedule, launch.observers
    blocks = program.blocks
    while True:
        if not wave.pending:
            if wave.yielded:
                for group in wave.yielded:
                    group.spins = 0
                    push(wave, group)
                wave.yielded = []
                return False
            if wave.finished == wave.lanes:
                return True
            raise barriers.deadlock(wave)
        group = schedule.take(wave, program)
        streak = 0
        while group is not None:
            block = blocks[group.block]
            if block.guard is not None:
                group = _guard(wave, group, block)
                if group is None:
                    break
            if block.warp_mask is not None:
                group = _meet(wave, group, block)
                if group is None:
                    break
            if observers:
                for observer in observers:
                    observer.executed(group, block.instructions)
            wave.steps += len(block.instructions)
            launch.spend(len(block.instructions) * group.count, wave, group)
            if block.heat >= 0:
                _warm(program, block, group)
            result = block.run(group)
            kind = block.kind
            if kind == "next":
                group.block += 1
            elif kind == "branch":
                group = _branch(wave, group, block, result)
                if group is None:
                    break
            elif kind == "goto":
                if block.target <= group.block and _spins(group):
                    group.block = block.target
                    wave.yielded.append(group)
                    break
                group.block = block.target
            else:
                for onward in _LEAVE[kind](wave, group, block, result):
                    push(wave, onward)
                break
            if not schedule.goes_on(wave, group):
                streak = 0
                push(wave, group)
                break
            streak += 1
            if streak > STARVATION and wave.pending:
                wave.yielded.append(group)
                break


def _warm(program, block: Block, group: Group) -> None:
    """Compile a block once it has run enough to repay it."""
    block.heat += group.count + fuse.PER_CALL
    if block.heat > fuse.HOT:
        block.run, block.heat = fuse.fuse(program, block), -1


def _spins(group: Group) -> bool:
    """At a backward branch: whether the group only waits, and long enough to yield.

    A round that looked at memory (volatile, atomic) and changed nothing waits for another
    lane: without a turn for that lane it would wait for ever.
    """
    if group.waited and not group.changed:
        group.spins += 1
    else:
        group.spins = 0
    group.waited = group.changed = False
    return group.spins > SPIN_LIMIT


def _branch(wave: Wave, group: Group, block: Block, predicate: np.ndarray) -> Group | None:
    """Where the lanes go; the group itself where they stay together, else None."""
    observers = wave.launch.observers
    if observers:
        taken = group.spread(~predicate if block.negated else predicate)
        for observer in observers:
            observer.branched(group, block.last, taken)
    true = (group.count if predicate[0] else 0) if len(predicate) == 1 else int(
        np.count_nonzero(predicate))
    if true == 0 or true == group.count:
        went = (true == 0) == block.negated
        target = block.target if went else group.block + 1
        spins = went and block.target <= group.block and _spins(group)
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
        if target <= group.block and _spins(part):
            wave.yielded.append(part)
        else:
            push(wave, part)
    return None


def _guard(wave: Wave, group: Group, block: Block) -> Group | None:
    """An instruction under ``@p``: lanes whose predicate is false skip it."""
    slot, negated = block.guard
    value = group.registers.get(slot)
    predicate = group.spread(np.zeros(1, bool) if value is None else value)
    if negated:
        predicate = ~predicate
    if predicate.all():
        return group
    after = group.block + 1
    live = wave.launch.program.blocks[after].live_in
    push(wave, group.subset(np.flatnonzero(~predicate), after, live))
    chosen = np.flatnonzero(predicate)
    return group.subset(chosen, group.block) if len(chosen) else None


def _meet(wave: Wave, group: Group, block: Block) -> Group | None:
    """Wait until all lanes that a warp-synchronous instruction names stand at it.

    Lanes that have ended are not waited for. Returns the lanes that may go on.
    """
    if block.instructions[0].opcode not in WARP_SYNC:
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
            push(wave, passed)
    if left:
        wave.parked["bar.warp.sync"] = left
    return onward


def _member_mask(group: Group, block: Block) -> np.ndarray:
    mask = block.warp_mask
    if not isinstance(mask, np.ndarray):
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
    return ((wanted & alive[of_team] & ~here) == 0)[team]


# -- endings of a block that put the group back ------------------------------------------------


def _exit(wave: Wave, group: Group, block: Block, result) -> list[Group]:
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
    for groups in wave.parked.values():
        onward += groups
    wave.parked = {}
    return onward


def _barrier(wave: Wave, group: Group, block: Block, operands) -> list[Group]:
    return barriers.arrive(wave, group, operands)


def _indexed(wave: Wave, group: Group, block: Block, index: np.ndarray) -> list[Group]:
    if (index >= len(block.targets)).any():
        raise VirtualGPUError(
            f"brx.idx: index {int(index.max())} in a table of {len(block.targets)} labels",
            barriers.location(wave, group))
    if len(index) == 1:
        group.block = block.targets[int(index[0])]
        return [group]
    return [
        group.subset(np.flatnonzero(index == value), block.targets[int(value)])
        for value in np.unique(index)
    ]


def _call(wave: Wave, group: Group, block: Block, address) -> list[Group]:
    """Enter a function: lanes keep the caller's registers and frame on their stack."""
    program, call = wave.launch.program, block.call
    if call.target is None:
        if len(address) > 1 and (address != address[0]).any():
            parts = []
            for value in np.unique(address):
                part = group.subset(np.flatnonzero(address == value), group.block)
                parts += _call(wave, part, block, np.array([value], np.uint64))
            return parts
        name = program.module.function_at(int(address[0]) - CODE_BASE)
        if name not in program.functions:
            raise MemoryAccessError("call of an address where no function is",
                                    barriers.location(wave, group), address=int(address[0]))
    else:
        name = call.target
    callee, caller = program.functions[name], block.function
    formal = [v.name for v in callee.function.parameters]
    # A result that only one side declares is lost or undefined, as on hardware.
    if len(formal) != len(call.arguments):
        raise VirtualGPUError(
            f"call of {name} with {len(call.arguments)} arguments; it takes {len(formal)}",
            barriers.location(wave, group))
    if len(group.stack) >= wave.launch.call_depth:
        raise VirtualGPUError(
            f"stack overflow: calls nested {len(group.stack)} deep; recursion must end earlier",
            barriers.location(wave, group))
    frame = group.frame + caller.frame_size
    registers, copies = {}, []
    for given, wanted in zip(call.arguments, formal, strict=True):
        if wanted in callee.slots and given in caller.slots:
            slot = callee.slots[wanted]
            value = group.registers.get(caller.slots[given], np.zeros(1, program.dtypes[slot]))
            registers[slot] = _as(value, program.dtypes[slot])
        elif wanted in callee.frame and given in caller.frame:
            size = callee.function.variables[wanted].size
            copies.append((group.frame + caller.frame[given], frame + callee.frame[wanted], size))
        else:
            raise VirtualGPUError(f"call of {name}: parameter {wanted} does not fit",
                                  barriers.location(wave, group))
    wave.grow_local(frame + callee.frame_size)
    _copy_local(wave, group, copies)
    group.stack = (*group.stack, (block.index, group.frame, group.registers))
    group.registers = Registers.of(registers, group.lanes, wave.lanes)
    group.frame, group.block = frame, callee.entry
    return [group]


def _return(wave: Wave, group: Group, block: Block, result) -> list[Group]:
    program = wave.launch.program
    index, frame, saved = group.stack[-1]
    site = program.blocks[index]
    callee, caller = block.function, site.function
    registers, copies = {}, []
    for given, wanted in zip(callee.function.returns, site.call.returns, strict=False):
        if wanted in caller.slots and given.name in callee.slots:
            slot = caller.slots[wanted]
            value = group.registers.get(callee.slots[given.name],
                                        np.zeros(1, program.dtypes[slot]))
            registers[slot] = _as(value, program.dtypes[slot])
        elif wanted in caller.frame and given.name in callee.frame:
            copies.append((group.frame + callee.frame[given.name], frame + caller.frame[wanted],
                           given.size))
    _copy_local(wave, group, copies)
    group.stack, group.frame = group.stack[:-1], frame
    group.registers = saved.updated(registers)
    group.block = index + 1
    return [group]


def _as(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if value.dtype.itemsize == dtype.itemsize:
        return value.view(dtype)
    unsigned = value.view(f"u{value.dtype.itemsize}").astype(f"u{dtype.itemsize}")
    return unsigned.view(dtype)


def _copy_local(wave: Wave, group: Group, copies: list[tuple[int, int, int]]) -> None:
    table = wave.local.reshape(wave.lanes, wave.local_stride) if wave.local_stride else None
    for origin, target, size in copies:
        table[group.lanes, target : target + size] = table[group.lanes, origin : origin + size]


def _trap(wave: Wave, group: Group, block: Block, result) -> list[Group]:
    raise TrapError(
        "the kernel executed `trap`: an assertion in it failed, or code was reached that its "
        "author meant never to be", barriers.location(wave, group))


_LEAVE = {
    "exit": _exit, "barrier": _barrier, "indexed": _indexed, "call": _call,
    "return": _return, "trap": _trap,
}  # fmt: skip
