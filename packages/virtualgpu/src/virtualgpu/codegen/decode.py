"""A kernel's instructions, sorted into the few kinds that native code has.

Each :class:`Step` says which registers an instruction writes and which operands it takes, as the
analyses and the lowering need it. What is not understood in full refuses the whole kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from virtualgpu import operations
from virtualgpu.codegen.refusal import Refused
from virtualgpu.machine import access, control
from virtualgpu.machine.fuse import UFUNCS
from virtualgpu.machine.program import Block, Program
from virtualgpu.operations import Operation
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol, Vector

MEMORY = {"ld": "load", "ldu": "load", "st": "store", "atom": "atomic", "red": "atomic"}
# Without observers these do nothing that a program can see: lanes of a warp run together, and
# stores are visible at once.
NOTHING = {
    "bra", "ret", "exit", "brkpt", "membar", "fence", "setmaxnreg", "griddepcontrol", "pmevent",
    "prefetch", "prefetchu", "discard", "applypriority", "bar", "barrier", "trap",
}  # fmt: skip
ATOMICS = {"add", "exch", "and", "or", "xor", "min", "max", "inc", "dec", "cas"}


@dataclass(slots=True)
class Step:
    """One instruction: its kind, the registers it writes (None: nobody wants the value), the
    operands it reads, and what is known of it."""

    instruction: Instruction
    kind: str
    targets: tuple[int | None, ...] = ()
    sources: tuple = ()
    operation: Operation | None = None
    body: object = None
    site: access.Site | None = None
    place: object = None  # the base of a memory instruction's address
    carry: int | None = None


class _Names:
    """What :func:`virtualgpu.machine.control.site` wants of an emitter."""

    def __init__(self, program: Program):
        self.program = program

    def put(self, value, prefix):
        return prefix


def decode(program: Program, block: Block) -> list[Step]:
    """The steps of a block; Refused for what native code does not do."""
    return [_step(program, block, instruction) for instruction in block.instructions]


def _slot(program: Program, operand) -> int | None:
    if not isinstance(operand, Register):
        raise Refused(f"a result that is {operand}")
    if operand.name == "_":
        return None
    return program.register(program.entry_code, operand)


def _step(program: Program, block: Block, instruction: Instruction) -> Step:
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in MEMORY:
        return _memory(program, instruction)
    if opcode == "mov":
        target = operands[0]
        targets = target.items if isinstance(target, Vector) else (target,)
        source = operands[1]
        sources = source.items if isinstance(source, Vector) else (source,)
        return Step(instruction, "mov", tuple(_slot(program, t) for t in targets), sources)
    if opcode in NOTHING:
        if opcode in ("bar", "barrier"):
            _plain_barrier(instruction)
        guard = instruction.guard if opcode == "bra" else None
        return Step(instruction, "nothing", sources=(guard[0],) if guard else ())
    if opcode in ("cvta", "isspacep", "activemask"):
        return Step(instruction, opcode, (_slot(program, operands[0]),), operands[1:])
    if opcode in ("shfl", "vote"):
        if "sync" not in instruction.modifiers:
            raise Refused(instruction.name)
        targets = [_slot(program, operands[0])]
        if instruction.second is not None:
            targets.append(_slot(program, instruction.second))
        return Step(instruction, opcode, tuple(targets), operands[1:])
    if opcode in operations.opcodes():
        return _data(program, instruction)
    raise Refused(instruction.name)


def _plain_barrier(instruction: Instruction) -> None:
    """Only barrier 0 for the whole block, and the warp's own."""
    if "warp" in instruction.modifiers:
        return
    if {"red", "arrive", "cluster"} & set(instruction.modifiers):
        raise Refused(instruction.name)
    operands = instruction.operands
    if len(operands) > 1 or (operands and operands[0] != Immediate(0)):
        raise Refused(f"{instruction.name} with a number or a count")


def _data(program: Program, instruction: Instruction) -> Step:
    targets = [instruction.operands[0]]
    if instruction.second is not None:
        targets.append(instruction.second)
    sources = instruction.operands[1:]
    operation = operations.lookup(
        instruction.opcode, instruction.modifiers, len(sources), len(targets))
    body = operation.body or UFUNCS.get(operation.function)
    if body is None:
        raise Refused(instruction.name)
    carry = None
    if operation.carry_in or operation.carry_out:
        carry = program.slot(program.entry_code, "%cc", np.dtype("?"))
    return Step(instruction, "data", tuple(_slot(program, t) for t in targets), sources,
                operation, body, carry=carry)


def _memory(program: Program, instruction: Instruction) -> Step:
    kind = MEMORY[instruction.opcode]
    site, _ = control.site(_Names(program), instruction)
    operands = list(instruction.operands)
    targets: tuple[int | None, ...] = ()
    if instruction.opcode in ("ld", "ldu", "atom"):
        target = operands.pop(0)
        items = target.items if isinstance(target, Vector) else (target,)
        targets = tuple(_slot(program, item) for item in items)
    where = operands.pop(0)
    values = tuple(
        item for operand in operands
        for item in (operand.items if isinstance(operand, Vector) else (operand,)))
    if not isinstance(where, Address):
        raise Refused("an address of an unknown form")
    if site.space == "param":
        if kind != "load" or not isinstance(where.base, Symbol) or (
                where.base.name not in program.parameter_offsets):
            raise Refused("parameters that lie in memory")
        offset = (program.parameter_offsets[where.base.name] + where.base.offset + where.offset)
        return Step(instruction, "param", targets, (), site=site, place=offset)
    if kind == "atomic" and (site.operation not in ATOMICS or site.dtype.itemsize < 4
                             or site.dtype == np.float16):
        raise Refused(instruction.name)
    base, site.offset = where.base, where.offset
    if isinstance(base, Immediate):
        base, site.offset = Immediate(base.value + where.offset), 0
    elif isinstance(base, Symbol):
        base, site.offset = Symbol(base.name, base.offset + where.offset), 0
    return Step(instruction, kind, targets, (base, *values), site=site, place=base)
