"""Code generation for address, barrier, vote, shuffle and call instructions.

:func:`emit` adds the lines for such an instruction to a block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from virtualgpu import operations
from virtualgpu.lanes import clusters, stack, warp_exchange
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import asynchronous, tensor, textures
from virtualgpu.lanes.group import ALL, Group
from virtualgpu.lanes.intrinsics import INTRINSICS, vprintf, watched_vprintf
from virtualgpu.lanes.warp_sync import exchange
from virtualgpu.memory import windows
from virtualgpu.program.steps import Barrier, Call, Exact, Formed, Step
from virtualgpu.ptx import Immediate, Instruction, Register
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import traits

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")


def emit(emitter: Emitter, step: Step) -> None:
    """Add the lines of a step that is neither a data nor a plain memory instruction."""
    instruction = step.instruction
    if isinstance(step, Formed):
        handler = _HANDLERS.get(instruction.opcode)
        if handler is not None:
            handler(emitter, step)
    elif instruction.opcode in ("bra", "brx"):
        for one in step.sources:
            emitter.result = emitter.get(one, BOOL if instruction.opcode == "bra" else U32)
    elif instruction.opcode == "call":
        for one in step.sources:  # address of a function
            emitter.result = emitter.get(one, U64)
    elif traits(instruction).family == "fence":
        _fence(emitter, instruction)
    elif traits(instruction).family not in ("hint", "control"):
        operations.lookup(instruction.opcode, instruction.modifiers, 1, 1)  # raises the error


def _cvta(emitter: Emitter, step: Formed) -> None:
    """Emit ``cvta``: convert to or from a generic address (PTX ISA, "cvta")."""
    to, space, _ = step.words
    function = windows.within if to else windows.generic
    call = emitter.put(partial(function, space=space.split(":")[0]), "f")
    value = emitter.get(step.sources[0], U64)
    emitter.give(
        step.targets[0], emitter.cast(f"{call}({value})", U64, step.results[0]), step.results[0]
    )


def _isspacep(emitter: Emitter, step: Formed) -> None:
    (space,) = step.words
    value = emitter.get(step.sources[0], U64)
    if space.startswith("shared"):
        function = partial(clusters.is_shared, space == "shared:cluster")
        test = f"{emitter.put(function, 'f')}(group, {value})"
    else:
        test = f"{emitter.put(partial(windows.reaches, space=space.split(':')[0]), 'f')}({value})"
    emitter.give(step.targets[0], test, BOOL)


def _mapa(emitter: Emitter, step: Formed) -> None:
    function = partial(clusters.mapped, not step.words[0], step.instruction)
    address, rank = step.sources
    values = f"group, {emitter.get(address, U64)}, {emitter.get(rank, U32)}"
    _give_address(emitter, step, f"{emitter.put(function, 'f')}({values})")


def _give_address(emitter: Emitter, step: Formed, value: str) -> None:
    (dtype,) = step.results
    emitter.give(step.targets[0], emitter.cast(value, U64, dtype), dtype)


def _getctarank(emitter: Emitter, step: Formed) -> None:
    function = emitter.put(partial(clusters.rank_of, not step.words[0], step.instruction), "f")
    emitter.give(step.targets[0], f"{function}(group, {emitter.get(step.sources[0], U64)})", U32)


def _fence(emitter: Emitter, instruction: Instruction) -> None:
    scopes = {"cta": "cta", "gl": "gpu", "gpu": "gpu", "cluster": "gpu", "sys": "sys"}
    scope = next((scopes[m] for m in instruction.modifiers if m in scopes), "sys")
    if "proxy" in instruction.modifiers:
        return  # all accesses, also those of copies, use one memory here

    def fence(group: Group) -> None:
        for observer in group.wave.launch.observers:
            observer.fenced(group, instruction, scope)

    emitter.lines.append(f" {emitter.put(fence, 'f')}(group)")


def exact(emitter: Emitter, step: Exact) -> None:
    """Report to observers the lanes whose index, or a value from it, has wrapped."""
    comparison = step.comparison
    dtype = U64 if comparison.is_address else BOOL
    wrapped, true = (emitter.get(one, dtype) for one in (comparison.wrapped, comparison.exact))
    differ = f"({wrapped} != {true})"
    if comparison.where is not None:
        register, negated = comparison.where
        differ += f" & {'~' * negated}{emitter.get(register, BOOL)}"
    values = ", ".join(emitter.get(one, np.dtype("i8")) for one in comparison.values)

    def tell(group: Group, differ: np.ndarray, *values: np.ndarray) -> None:
        for observer in group.wave.launch.observers:
            observer.wrapped(group, comparison, differ, values)

    emitter.lines += [
        f" differ = {differ}",
        f" if differ.any(): {emitter.put(tell, 'f')}(group, differ, {values})",
    ]


def _barrier(emitter: Emitter, step: Formed) -> None:
    """Set the mask of ``bar.warp.sync``; ``barrier.cluster`` has no operands."""
    if "warp" in step.instruction.modifiers:
        emitter.block.warp_mask = _mask(emitter, step.sources[0])


def barrier(emitter: Emitter, step: Barrier) -> None:
    """Emit the operands of a barrier of the block or the grid; the SIMT loop does the waiting."""
    if step.grid:
        emitter.result = "('grid', None, None)"
        for slot in step.targets:
            emitter.give(slot, "np.zeros(1, np.uint32)", U32)
        return
    emitter.block.receives = tuple(step.writes)
    predicate, number, threads = (
        "None" if operand is None else emitter.get(operand, dtype)
        for operand, dtype in ((step.predicate, BOOL), (step.number, U32), (step.count, U32))
    )
    if step.number is None:
        number = emitter.constant(np.zeros(1, U32))
    emitter.result = f"({number}, {threads}, {predicate})"


def _mask(emitter: Emitter, operand: Operand) -> int | np.ndarray:
    """Return a member mask's slot or value, so that it can be read before the block runs."""
    if isinstance(operand, Register):
        slot = emitter.program.register(emitter.code, operand)
        emitter.read(slot)
        return int(slot)
    assert isinstance(operand, Immediate)
    return np.array([operand.value & 0xFFFF_FFFF], U32)


def _announce(emitter: Emitter, instruction: Instruction) -> None:
    """Notify observers that the lanes of the mask have met."""
    mask = emitter.block.warp_mask
    assert mask is not None

    def met(group: Group) -> None:
        if group.met is not None:
            return  # already reported, together with lanes at other instructions
        if isinstance(mask, np.ndarray):
            value = mask
        else:
            value = group.registers.get(mask, np.zeros(1, np.uint32))
        for observer in group.wave.launch.observers:
            observer.warp_synchronised(group, instruction, value.view(U32))

    emitter.lines.append(f" {emitter.put(met, 'f')}(group)")


def _exchanged(emitter: Emitter, step: Formed, function: Callable[..., Any]) -> str:
    """Make the lanes of the mask meet, and return a call that exchanges their values."""
    *values, mask = step.sources
    emitter.block.warp_mask = _mask(emitter, mask)
    _announce(emitter, step.instruction)
    arguments = ["group", emitter.get(mask, U32)]
    arguments += [emitter.get(one, dtype) for one, dtype in zip(values, step.kinds, strict=False)]
    return f"{emitter.put(partial(exchange, function), 'f')}({', '.join(arguments)})"


def _vote(emitter: Emitter, step: Formed) -> None:
    call = _exchanged(emitter, step, partial(warp_exchange.vote, step.words[0]))
    emitter.give(step.targets[0], call, step.results[0])


def _shuffle(emitter: Emitter, step: Formed) -> None:
    (mode,) = step.words
    call = _exchanged(emitter, step, partial(warp_exchange.shuffle, mode))
    emitter.lines.append(f" shuffled, inside, given = {call}")
    if mode in ("idx", "bfly"):
        # An addition with `down`, or a scan with `up`, usually reads past the participating lanes
        # and ignores the result.
        tell = emitter.put(partial(_tell_ungiven, step.instruction), "f")
        emitter.lines.append(f" {tell}(group, given)")
    _give(emitter, step, "shuffled", "inside")


def _give(emitter: Emitter, step: Formed, *names: str) -> None:
    for slot, name, dtype in zip(step.targets, names, step.results, strict=False):
        emitter.give(slot, name, dtype)


def _tell_ungiven(instruction: Instruction, group: Group, given: np.ndarray) -> None:
    if not given.all():
        for observer in group.wave.launch.observers:
            observer.shuffled_nothing(group, instruction, np.flatnonzero(~given))


def _match(emitter: Emitter, step: Formed) -> None:
    if step.words[0] == "any":
        emitter.give(step.targets[0], _exchanged(emitter, step, warp_exchange.match_any), U32)
        return
    emitter.lines.append(f" matched, agree = {_exchanged(emitter, step, warp_exchange.match_all)}")
    _give(emitter, step, "matched", "agree")


def _redux(emitter: Emitter, step: Formed) -> None:
    call = _exchanged(emitter, step, partial(warp_exchange.reduce, step.words[0]))
    emitter.give(step.targets[0], call, step.results[0])


def _elect(emitter: Emitter, step: Formed) -> None:
    emitter.lines.append(f" leader, chosen = {_exchanged(emitter, step, warp_exchange.elect)}")
    _give(emitter, step, "leader", "chosen")


def _activemask(emitter: Emitter, step: Formed) -> None:
    emitter.give(step.targets[0], f"{emitter.put(warp_exchange.activemask, 'f')}(group)", U32)


def _nanosleep(emitter: Emitter, step: Formed) -> None:
    emitter.lines.append(f" group.waited = {ALL}")


def provided(emitter: Emitter, step: Call) -> None:
    """Emit a call of a function that the device provides."""
    arguments = [
        emitter.read(emitter.code.slots[one.name])[0]
        for one in step.sources
        if isinstance(one, Register)
    ]
    function = INTRINSICS[step.function]
    if function is vprintf:
        function = partial(watched_vprintf, step.instruction)
    call = f"{emitter.put(function, 'f')}({', '.join(['group', *arguments])})"
    if not step.targets:
        emitter.lines.append(f" {call}")
    for slot in step.writes:
        declared = emitter.program.dtypes[slot]
        emitter.write_slot(slot, f"{call}.astype({emitter.dtype(declared)})", declared)


# Other instructions (pmevent, setmaxnreg, griddepcontrol) have no visible effect.
_HANDLERS: dict[str, Callable[[Emitter, Formed], None]] = {
    "cvta": _cvta,
    "isspacep": _isspacep,
    "mapa": _mapa,
    "getctarank": _getctarank,
    "bar": _barrier,
    "barrier": _barrier,
    "vote": _vote,
    "shfl": _shuffle,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": _activemask,
    "nanosleep": _nanosleep,
    "cp": asynchronous.copy,
    "mbarrier": asynchronous.barrier,
    "mma": tensor.multiply,
    "wmma": tensor.fragments,
    "ldmatrix": tensor.rows,
    "stmatrix": tensor.rows,
    "tex": textures.emit,
    "suld": textures.emit,
    "sust": textures.emit,
    "alloca": stack.emit,
    "stacksave": stack.emit,
    "stackrestore": stack.emit,
}
