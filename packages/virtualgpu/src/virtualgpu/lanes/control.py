"""Decoding of what is neither data nor plain memory: addresses, barriers, votes, calls.

:func:`emit` adds the lines for such an instruction to a block, or answers False where the
instruction is data for the table of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from virtualgpu import operations
from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes import clusters, stack, warp_exchange
from virtualgpu.lanes.emitter import Emitter
from virtualgpu.lanes.families import asynchronous, tensor, texture_decode
from virtualgpu.lanes.group import ALL, Group
from virtualgpu.lanes.intrinsics import INTRINSICS, vprintf, watched_vprintf
from virtualgpu.lanes.warp_sync import exchange
from virtualgpu.memory import windows
from virtualgpu.operations.types import DTYPES
from virtualgpu.program.site import SPACES
from virtualgpu.program.steps import Barrier, Call, Step
from virtualgpu.ptx import Instruction, Register
from virtualgpu.ptx.opcodes import traits

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")
_CLUSTER_BARRIER = {"cluster", "arrive", "wait", "release", "acquire", "relaxed", "aligned"}


def emit(emitter: Emitter, step: Step) -> None:
    """Add the lines of a step that is neither data nor plain memory."""
    instruction = step.instruction
    handler = _HANDLERS.get(instruction.opcode)
    if handler is not None:
        handler(emitter, instruction)
    elif traits(instruction).family != "hint":  # a hint does nothing that a program can see
        operations.lookup(instruction.opcode, instruction.modifiers, 1, 1)  # refuses it


def _nothing(emitter: Emitter, instruction: Instruction) -> None:
    """No effect that a program can see."""


def _branch(emitter: Emitter, instruction: Instruction) -> None:
    if instruction.guard is not None:
        emitter.result = emitter.get(instruction.guard[0], BOOL)


def _indexed(emitter: Emitter, instruction: Instruction) -> None:
    emitter.result = emitter.get(instruction.operands[0], U32)


def _cvta(emitter: Emitter, instruction: Instruction) -> None:
    """``cvta``: to and from generic addresses (PTX ISA, "cvta")."""
    modifiers = instruction.modifiers
    target, source = instruction.operands
    space = next((m.split(":")[0] for m in modifiers if m.split(":")[0] in SPACES), None)
    if space is None:
        raise UnsupportedInstruction(instruction.name)
    width = DTYPES[modifiers[-1]]
    value = emitter.get(source, U64)
    function = windows.within if "to" in modifiers else windows.generic
    value = f"{emitter.put(partial(function, space=space), 'f')}({value})"
    emitter.set(target, emitter.cast(value, U64, width), width)


def _isspacep(emitter: Emitter, instruction: Instruction) -> None:
    target, source = instruction.operands
    space = instruction.modifiers[0].split(":")[0]
    value = emitter.get(source, U64)
    if space == "shared":
        function = partial(clusters.is_shared, instruction.modifiers[0] == "shared:cluster")
        test = f"{emitter.put(function, 'f')}(group, {value})"
    else:
        test = f"{emitter.put(partial(windows.reaches, space=space), 'f')}({value})"
    emitter.set(target, test, BOOL)


def _fence(emitter: Emitter, instruction: Instruction) -> None:
    scopes = {"cta": "cta", "gl": "gpu", "gpu": "gpu", "cluster": "gpu", "sys": "sys"}
    scope = next((scopes[m] for m in instruction.modifiers if m in scopes), "sys")
    if "proxy" in instruction.modifiers:
        return  # all accesses, those of copies too, see one memory here

    def fence(group: Group) -> None:
        for observer in group.wave.launch.observers:
            observer.fenced(group, instruction, scope)

    emitter.lines.append(f" {emitter.put(fence, 'f')}(group)")


def _barrier(emitter: Emitter, instruction: Instruction) -> None:
    """``bar.warp.sync`` and ``barrier.cluster``."""
    modifiers, operands = instruction.modifiers, list(instruction.operands)
    if "warp" in modifiers:
        emitter.block.warp_mask = _mask(emitter, operands[0])
        return
    if "cluster" in modifiers:
        if (
            not {"arrive", "wait"} & set(modifiers)
            or operands
            or not set(modifiers) <= _CLUSTER_BARRIER
        ):
            raise UnsupportedInstruction(instruction.name)
        return  # no operands: lanes.clusters


def barrier(emitter: Emitter, step: Barrier) -> None:
    """Emit the operands of a barrier of the block or the grid; the SIMT loop waits."""
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


def _mask(emitter: Emitter, operand: Any) -> int | np.ndarray:
    """Return a member mask's slot or value, so that it can be read before the block runs."""
    if isinstance(operand, Register):
        slot = emitter.program.register(emitter.code, operand)
        if emitter.program.dtypes[slot].itemsize != 4:
            raise PTXSyntaxError(f"a member mask has 32 bits: {operand.name} has not")
        emitter.read(slot)
        return int(slot)
    return np.array([operand.value & 0xFFFF_FFFF], U32)


def _announce(emitter: Emitter, instruction: Instruction) -> None:
    """Tell observers that the lanes of the mask have met."""
    mask = emitter.block.warp_mask
    assert mask is not None

    def met(group: Group) -> None:
        if group.met is not None:
            return  # told before, with those that stand elsewhere
        if isinstance(mask, np.ndarray):
            value = mask
        else:
            value = group.registers.get(mask, np.zeros(1, np.uint32))
        for observer in group.wave.launch.observers:
            observer.warp_synchronised(group, instruction, value.view(U32))

    emitter.lines.append(f" {emitter.put(met, 'f')}(group)")


def _synchronised(emitter: Emitter, instruction: Instruction, operands: list[Any]) -> str:
    """Bring the lanes together; an expression for their member masks."""
    if "sync" not in instruction.modifiers:
        raise UnsupportedInstruction(f"{instruction.name}: without .sync it is gone since sm_70")
    mask = operands.pop()
    emitter.block.warp_mask = _mask(emitter, mask)
    _announce(emitter, instruction)
    named: str = emitter.get(mask, U32)
    return named


def _vote(emitter: Emitter, instruction: Instruction) -> None:
    target, source, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    mode = next(m for m in instruction.modifiers if m in ("all", "any", "uni", "ballot"))
    function = emitter.put(partial(exchange, partial(warp_exchange.vote, mode)), "f")
    have = U32 if mode == "ballot" else BOOL
    emitter.set(target, f"{function}(group, {mask}, {emitter.get(source, BOOL)})", have)


def _shuffle(emitter: Emitter, instruction: Instruction) -> None:
    target, a, b, c, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    function = emitter.put(partial(exchange, partial(warp_exchange.shuffle, mode)), "f")
    emitter.lines.append(
        f" shuffled, inside, given = {function}(group, {mask}, {emitter.get(a, U32)}, "
        f"{emitter.get(b, U32)}, {emitter.get(c, U32)})"
    )
    if mode in ("idx", "bfly"):
        # A sum by `down`, or a scan by `up`, reads past the lanes that take part as a rule, and
        # drops what it read.
        tell = emitter.put(partial(_tell_ungiven, instruction), "f")
        emitter.lines.append(f" {tell}(group, given)")
    emitter.set(target, "shuffled", U32)
    if instruction.second is not None:
        emitter.set(instruction.second, "inside", BOOL)


def _tell_ungiven(instruction: Instruction, group: Group, given: np.ndarray) -> None:
    if not given.all():
        for observer in group.wave.launch.observers:
            observer.shuffled_nothing(group, instruction, np.flatnonzero(~given))


def _match(emitter: Emitter, instruction: Instruction) -> None:
    target, a, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    dtype = DTYPES[instruction.modifiers[-1]]
    if "any" in instruction.modifiers:
        function = emitter.put(partial(exchange, warp_exchange.match_any), "f")
        emitter.set(target, f"{function}(group, {mask}, {emitter.get(a, dtype)})", U32)
        return
    function = emitter.put(partial(exchange, warp_exchange.match_all), "f")
    emitter.lines.append(f" matched, agree = {function}(group, {mask}, {emitter.get(a, dtype)})")
    emitter.set(target, "matched", U32)
    if instruction.second is not None:
        emitter.set(instruction.second, "agree", BOOL)


def _redux(emitter: Emitter, instruction: Instruction) -> None:
    target, a, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    dtype = DTYPES[instruction.modifiers[-1]]
    if dtype.kind == "f":
        raise UnsupportedInstruction(instruction.name)
    mode = next(m for m in instruction.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    function = emitter.put(partial(exchange, partial(warp_exchange.reduce, mode)), "f")
    emitter.set(target, f"{function}(group, {mask}, {emitter.get(a, dtype)})", dtype)


def _elect(emitter: Emitter, instruction: Instruction) -> None:
    target, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    function = emitter.put(partial(exchange, warp_exchange.elect), "f")
    emitter.lines.append(f" leader, chosen = {function}(group, {mask})")
    emitter.set(target, "leader", U32)
    if instruction.second is not None:
        emitter.set(instruction.second, "chosen", BOOL)


def _activemask(emitter: Emitter, instruction: Instruction) -> None:
    function = emitter.put(warp_exchange.activemask, "f")
    emitter.set(instruction.operands[0], f"{function}(group)", U32)


def _nanosleep(emitter: Emitter, instruction: Instruction) -> None:
    emitter.lines.append(f" group.waited = {ALL}")


def _breakpoint(emitter: Emitter, instruction: Instruction) -> None:
    """``brkpt`` stops in a debugger; without one a device goes on."""


def _call(emitter: Emitter, instruction: Instruction) -> None:
    """Emit a call of another function, to which the SIMT loop passes the parameters."""
    call = emitter.block.call
    if call is not None and call.target is None:
        target = next(o for o in instruction.operands if isinstance(o, Register))
        emitter.result = emitter.get(target, U64)


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


def _mapped(emitter: Emitter, instruction: Instruction) -> None:
    """Decode ``mapa`` and ``getctarank`` (PTX ISA, "mapa", "getctarank")."""
    *space, kind = instruction.modifiers
    if space not in ([], ["shared:cluster"]) or kind not in ("u32", "u64"):
        raise UnsupportedInstruction(instruction.name)
    target, source, *rest = instruction.operands
    dtype = DTYPES[kind]
    value = emitter.get(source, U64)
    if instruction.opcode == "mapa":
        function = partial(clusters.mapped, not space, instruction)
        call = f"{emitter.put(function, 'f')}(group, {value}, {emitter.get(rest[0], U32)})"
        emitter.set(target, emitter.cast(call, U64, dtype), dtype)
    else:
        function = partial(clusters.rank_of, not space, instruction)
        emitter.set(target, f"{emitter.put(function, 'f')}(group, {value})", U32)


_HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "bra": _branch,
    "brx": _indexed,
    "ret": _nothing,
    "exit": _nothing,
    "trap": _nothing,
    "brkpt": _breakpoint,
    "call": _call,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "membar": _fence,
    "fence": _fence,
    "bar": _barrier,
    "barrier": _barrier,
    "vote": _vote,
    "shfl": _shuffle,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": _activemask,
    "nanosleep": _nanosleep,
    "pmevent": _nothing,
    "mapa": _mapped,
    "getctarank": _mapped,
    "cp": asynchronous.copy,
    "mbarrier": asynchronous.barrier,
    "mma": tensor.multiply,
    "wmma": tensor.fragments,
    "ldmatrix": tensor.rows,
    "stmatrix": tensor.rows,
    "tex": texture_decode.texture,
    "suld": texture_decode.surface,
    "sust": texture_decode.surface,
    "setmaxnreg": asynchronous.registers,
    "griddepcontrol": asynchronous.dependents,
    **dict.fromkeys(sorted(stack.OPCODES), stack.emit),
}
