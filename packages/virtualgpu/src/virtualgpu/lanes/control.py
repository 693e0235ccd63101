"""Decoding of what is neither data nor plain memory: addresses, barriers, votes, calls.

:func:`emit` adds the lines for such an instruction to a block, or answers False where the
instruction is data for the table of operations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction
from virtualgpu.lanes import clusters, stack, warp
from virtualgpu.lanes.families import asynchronous, tensor, texture_decode
from virtualgpu.lanes.group import ALL, Group
from virtualgpu.lanes.intrinsics import INTRINSICS
from virtualgpu.lanes.memory_access import SPACES
from virtualgpu.lanes.warp_sync import exchange
from virtualgpu.lanes.wave import LOCAL_BASE, SHARED_BASE, WINDOW
from virtualgpu.memory.mapping import BASE
from virtualgpu.operations.types import DTYPES
from virtualgpu.program.provided import PROVIDED
from virtualgpu.ptx import Instruction, Register, Symbol

Emitter: TypeAlias = Any  # lanes.emit's, whose module is made of this one

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")
_BASES = {"shared": SHARED_BASE, "local": LOCAL_BASE}
_CLUSTER_BARRIER = {"cluster", "arrive", "wait", "release", "acquire", "relaxed", "aligned"}


def emit(emitter: Emitter, instruction: Instruction) -> bool:
    """Add the instruction's lines; False where it is not of this kind."""
    handler = _HANDLERS.get(instruction.opcode)
    if handler is None:
        return False
    handler(emitter, instruction)
    return True


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
    if space in _BASES:
        sign = "-" if "to" in modifiers else "+"
        value = f"({value} {sign} {emitter.constant(np.array([_BASES[space]], U64))})"
    emitter.set(target, emitter.cast(value, U64, width), width)


def _isspacep(emitter: Emitter, instruction: Instruction) -> None:
    target, source = instruction.operands
    space = instruction.modifiers[0].split(":")[0]
    value = emitter.get(source, U64)
    if space == "shared":
        function = partial(clusters.is_shared, instruction.modifiers[0] == "shared:cluster")
        test = f"{emitter.put(function, 'f')}(group, {value})"
    elif space in _BASES:
        low = emitter.constant(np.array([_BASES[space]], U64))
        high = emitter.constant(np.array([_BASES[space] + WINDOW], U64))
        test = f"(({value} >= {low}) & ({value} < {high}))"
    elif space == "global":
        test = f"({value} >= {emitter.constant(np.array([BASE], U64))})"
    else:
        test = "np.zeros(1, bool)"
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
    """``bar`` and ``barrier``: the operands; the SIMT loop does the waiting."""
    modifiers, operands = instruction.modifiers, list(instruction.operands)
    if "warp" in modifiers:
        emitter.block.warp_mask = _mask(emitter, operands[0])
        return
    if "cluster" in modifiers:
        if (not {"arrive", "wait"} & set(modifiers) or operands
                or not set(modifiers) <= _CLUSTER_BARRIER):
            raise UnsupportedInstruction(instruction.name)
        return  # no operands: lanes.clusters
    predicate = "None"
    if "red" in modifiers:
        target = operands.pop(0)
        emitter.block.receives = (emitter.program.register(emitter.code, target),)
        predicate = emitter.get(operands.pop(), BOOL)
    number = emitter.get(operands[0], U32) if operands else emitter.constant(np.zeros(1, U32))
    threads = emitter.get(operands[1], U32) if len(operands) > 1 else "None"
    emitter.result = f"({number}, {threads}, {predicate})"


def _mask(emitter: Emitter, operand: Any) -> int | np.ndarray:
    """How to read a member mask before the block runs: a slot, or its value."""
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

    def met(group: Group) -> None:
        if group.met is not None:
            return  # told before, with those that stand elsewhere
        value = mask
        if not isinstance(mask, np.ndarray):
            value = group.registers.get(mask, np.zeros(1, np.uint32))
        for observer in group.wave.launch.observers:
            observer.warp_synchronised(group, instruction, value.view(U32))

    emitter.lines.append(f" {emitter.put(met, 'f')}(group)")


def _synchronised(emitter: Emitter, instruction: Instruction, operands: list[Any]) -> str:
    """Bring the lanes together; an expression for their member masks."""
    if "sync" not in instruction.modifiers:
        raise UnsupportedInstruction(
            f"{instruction.name}: without .sync it is gone since sm_70")
    mask = operands.pop()
    emitter.block.warp_mask = _mask(emitter, mask)
    _announce(emitter, instruction)
    named: str = emitter.get(mask, U32)
    return named


def _vote(emitter: Emitter, instruction: Instruction) -> None:
    target, source, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    mode = next(m for m in instruction.modifiers if m in ("all", "any", "uni", "ballot"))
    function = emitter.put(partial(exchange, partial(warp.vote, mode)), "f")
    have = U32 if mode == "ballot" else BOOL
    emitter.set(target, f"{function}(group, {mask}, {emitter.get(source, BOOL)})", have)


def _shuffle(emitter: Emitter, instruction: Instruction) -> None:
    target, a, b, c, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    mode = next(m for m in instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    function = emitter.put(partial(exchange, partial(warp.shuffle, mode)), "f")
    emitter.lines.append(
        f" shuffled, inside, given = {function}(group, {mask}, {emitter.get(a, U32)}, "
        f"{emitter.get(b, U32)}, {emitter.get(c, U32)})")
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
        function = emitter.put(partial(exchange, warp.match_any), "f")
        emitter.set(target, f"{function}(group, {mask}, {emitter.get(a, dtype)})", U32)
        return
    function = emitter.put(partial(exchange, warp.match_all), "f")
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
    function = emitter.put(partial(exchange, partial(warp.reduce, mode)), "f")
    emitter.set(target, f"{function}(group, {mask}, {emitter.get(a, dtype)})", dtype)


def _elect(emitter: Emitter, instruction: Instruction) -> None:
    target, *rest = instruction.operands
    mask = _synchronised(emitter, instruction, rest)
    function = emitter.put(partial(exchange, warp.elect), "f")
    emitter.lines.append(f" leader, chosen = {function}(group, {mask})")
    emitter.set(target, "leader", U32)
    if instruction.second is not None:
        emitter.set(instruction.second, "chosen", BOOL)


def _activemask(emitter: Emitter, instruction: Instruction) -> None:
    emitter.set(instruction.operands[0], f"{emitter.put(warp.activemask, 'f')}(group)", U32)


def _nanosleep(emitter: Emitter, instruction: Instruction) -> None:
    emitter.lines.append(f" group.waited = {ALL}")


def _breakpoint(emitter: Emitter, instruction: Instruction) -> None:
    """``brkpt`` stops in a debugger; without one a device goes on."""


def _call(emitter: Emitter, instruction: Instruction) -> None:
    _program, code, block = emitter.program, emitter.code, emitter.block
    if block.kind == "barrier":  # cudaCGSynchronize
        emitter.result = "('grid', None, None)"
        handle: Any = instruction.operands[0]
        slot = code.slots.get(handle.items[0].name)
        if slot is not None:
            emitter.write_slot(slot, "np.zeros(1, np.uint32)", U32)
        return
    if block.kind == "call":
        call = block.call
        for name in (*call.arguments, *call.returns):
            if name in code.function.registers:
                emitter.program.register(code, Register(name))
            if name not in code.slots and name not in code.frame:
                raise PTXSyntaxError(f"call with an undeclared parameter {name}")
        block.passes = tuple(code.slots[a] for a in call.arguments if a in code.slots)
        block.receives = tuple(code.slots[r] for r in call.returns if r in code.slots)
        for slot in block.passes:
            emitter.read(slot)
        if call.target is None:
            target = next(o for o in instruction.operands if isinstance(o, Register))
            emitter.result = emitter.get(target, U64)
        return
    operands: list[Any] = list(instruction.operands)
    returns = operands.pop(0).items if not isinstance(operands[0], Symbol) else ()
    name = operands.pop(0).name
    given = operands[0].items if operands else ()
    for item in (*given, *returns):
        if item.name not in code.slots or emitter.program.dtypes[code.slots[item.name]].kind == "f":
            raise PTXSyntaxError(f"call of {name} with a parameter {item.name} that does not fit")
    count, results = PROVIDED[name]
    if len(given) != count or len(returns) > results:
        raise PTXSyntaxError(
            f"call of {name} with {len(given)} argument{'' if len(given) == 1 else 's'} and "
            f"{len(returns)} results; it takes {count}")
    arguments = [emitter.read(code.slots[item.name])[0] for item in given]
    call = f"{emitter.put(INTRINSICS[name], 'f')}({', '.join(['group', *arguments])})"
    if returns:
        slot = code.slots[returns[0].name]
        declared = emitter.program.dtypes[slot]
        emitter.write_slot(slot, f"{call}.astype({emitter.dtype(declared)})", declared)
    else:
        emitter.lines.append(f" {call}")


_HANDLERS: dict[str, Callable[[Emitter, Instruction], None]] = {
    "bra": _branch, "brx": _indexed, "ret": _nothing, "exit": _nothing, "trap": _nothing,
    "brkpt": _breakpoint, "call": _call, "cvta": _cvta, "isspacep": _isspacep,
    "membar": _fence, "fence": _fence, "bar": _barrier, "barrier": _barrier,
    "vote": _vote, "shfl": _shuffle, "match": _match, "redux": _redux, "elect": _elect,
    "activemask": _activemask, "nanosleep": _nanosleep, "pmevent": _nothing,
    "mapa": clusters.emit, "getctarank": clusters.emit,
    "cp": asynchronous.copy, "mbarrier": asynchronous.barrier,
    "mma": tensor.multiply, "wmma": tensor.fragments, "ldmatrix": tensor.rows,
    "stmatrix": tensor.rows,
    "tex": texture_decode.texture, "suld": texture_decode.surface,
    "sust": texture_decode.surface,
    "setmaxnreg": asynchronous.registers, "griddepcontrol": asynchronous.dependents,
    **dict.fromkeys(sorted(stack.OPCODES), stack.emit),
}

