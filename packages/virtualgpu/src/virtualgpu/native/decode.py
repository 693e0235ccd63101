"""A kernel's instructions, sorted into the few kinds that native code has.

Each :class:`Step` says which registers an instruction writes and which operands it takes, as the
analyses and the lowering need it. What is not understood in full refuses the whole kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from virtualgpu import operations
from virtualgpu.lanes import memory_access
from virtualgpu.native import intrinsics
from virtualgpu.native.control_flow import Passing, Place, chosen
from virtualgpu.native.refusal import Refused
from virtualgpu.operations import Operation
from virtualgpu.operations.expression import Results
from virtualgpu.operations.types import REGISTER_DTYPES
from virtualgpu.program.program import Program
from virtualgpu.program.site import Site
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import COLLECTIVES, has_result, of_family, traits

# Without observers these do nothing that a program can see: lanes of a warp run together, and
# stores are visible at once.
NOTHING = of_family("control", "fence", "idle", "hint", "barrier") - {"call"}


@dataclass(slots=True, kw_only=True)
class Step:
    """One instruction: the registers it writes (None: the value is not kept) and the operands it
    reads; ``reads`` has the registers among these, and the carry flag."""

    instruction: Instruction
    targets: tuple[int | None, ...] = ()
    sources: tuple[Operand, ...] = ()
    reads: frozenset[int] = frozenset()

    @property
    def writes(self) -> list[int]:
        """The registers that keep a result, the carry flag among them."""
        return [slot for slot in self.targets if slot is not None]


S = TypeVar("S", bound=Step)


@dataclass(slots=True, kw_only=True)
class Data(Step):
    """Arithmetic, logic, comparison, conversion: an operation's expression. The carry flag, where
    it is written, is the last of the targets."""

    operation: Operation
    body: Results


@dataclass(slots=True, kw_only=True)
class Move(Step):
    """``mov``: a copy, or packing and unpacking of a vector."""

    dtype: np.dtype


@dataclass(slots=True, kw_only=True)
class Parameter(Step):
    """A load of a kernel's parameters, from a byte of them on."""

    dtype: np.dtype
    offset: int


@dataclass(slots=True, kw_only=True)
class Access(Step):
    """A load, store or atomic; the address comes first among its sources."""

    site: Site


@dataclass(slots=True, kw_only=True)
class Copy(Step):
    """What a call or a return hands over."""

    passing: Passing


@dataclass(slots=True, kw_only=True)
class Barrier(Step):
    """A barrier of the block, or of the grid: which, of how many threads, and of ``bar.red`` the
    predicate and what it makes of them (``popc``, ``and``, ``or``)."""

    number: Operand | None = None
    count: Operand | None = None
    predicate: Operand | None = None
    mode: str = ""
    onward: bool = False  # ``arrive``: lanes go on at once
    grid: bool = False

    @property
    def plain(self) -> bool:
        """Barrier 0, for the whole block."""
        return not (self.grid or self.mode or self.onward or self.count) and (
            self.number in (None, Immediate(0)))


@dataclass(slots=True, kw_only=True)
class Stop(Step):
    """An assertion that failed: the interpreting machine finds the words for it."""


@dataclass(slots=True, kw_only=True)
class Provided(Step):
    """A call of a function that the device provides (:mod:`.intrinsics`)."""

    function: str


def decode(program: Program, place: Place) -> list[Step]:
    """The steps of a place's block; Refused for what native code does not do."""
    if any(dtype.kind == "V" for dtype in program.dtypes):
        raise Refused("registers of 128 bits")
    steps: list[Step] = [_Decoder(program, place, one).step() for one in place.block.instructions]
    if place.passing is not None:
        call = place.block if place.block.kind == "call" else program.blocks[place.stack[-1]]
        assert call.last is not None
        handed = place.passing.registers
        steps.append(Copy(instruction=call.last, targets=tuple(handed), passing=place.passing,
                          reads=frozenset(slot for slot in handed.values() if slot is not None)))
    return steps


class _Decoder:
    def __init__(self, program: Program, place: Place, instruction: Instruction):
        self.program, self.code, self.place = program, place.block.function, place
        self.instruction = instruction

    def step(self) -> Step:
        instruction = self.instruction
        opcode, operands = instruction.opcode, instruction.operands
        if traits(instruction).family == "memory":
            return self.memory()
        if opcode == "mov":
            want = REGISTER_DTYPES.get(instruction.modifiers[-1])
            if want is None:
                raise Refused(instruction.name)
            source = operands[1]
            if isinstance(source, Register) and source.name in intrinsics.NAMES:
                return self.made(Provided, operands[:1], (), function=source.name)
            return self.made(Move, _items(operands[0]), _items(operands[1]), dtype=want)
        if self.place.block.kind == "barrier" and instruction is self.place.block.last:
            return self.barrier()
        if opcode in NOTHING or (opcode == "call" and self.place.block.kind == "call"):
            guard = instruction.guard if opcode == "bra" else None
            way = chosen(self.place) if opcode in ("brx", "call") else None
            return self.made(Step, (), (guard[0],) if guard else () if way is None else (way,))
        if traits(instruction).family == "address" or opcode == "activemask":
            return self.made(Step, operands[:1], operands[1:])
        if opcode in COLLECTIVES:
            if "sync" not in instruction.modifiers:
                raise Refused(instruction.name)
            second = () if instruction.second is None else (instruction.second,)
            return self.made(Step, (operands[0], *second), operands[1:])
        if traits(instruction).family == "data":
            return self.data()
        if opcode == "call" and operands[0] == Symbol("__assertfail"):
            return self.made(Stop, (), ())
        if opcode == "call" and operands[1:2] == (Symbol("cudaCGGetIntrinsicHandle"),):
            return self.handed_back(1)
        names = [operand.name for operand in operands if isinstance(operand, Symbol)]
        if opcode == "call" and names[:1] and names[0] in intrinsics.NAMES:
            return self.provided(names[0])
        raise Refused(" ".join([instruction.name, *names]))

    def made(self, kind: type[S], targets: Sequence[Operand], sources: Sequence[Operand],
             **more: Any) -> S:
        return kind(instruction=self.instruction, targets=tuple(map(self.slot, targets)),
                    sources=tuple(sources), reads=self.registers(sources), **more)

    def slot(self, operand: Operand) -> int | None:
        if not isinstance(operand, Register):
            raise Refused(f"a result that is {operand}")
        return None if operand.name == "_" else self.program.register(self.code, operand)

    def registers(self, operands: Sequence[Operand]) -> frozenset[int]:
        slots = self.code.slots
        return frozenset(
            slots[name] for operand in operands if isinstance(operand, Register)
            and (name := operand.name.removeprefix("!")) in slots)

    def handed_back(self, number: int) -> Move:
        """What a function of the device gives back: always the same."""
        result = self.instruction.operands[0]
        slots = [self.code.slots[one.name] for one in _items(result) if isinstance(one, Symbol)]
        step = self.made(Move, (), (Immediate(number),), dtype=self.program.dtypes[slots[0]])
        step.targets = (slots[0],)
        return step

    def provided(self, name: str) -> Provided:
        """The interpreting machine says what is wrong with a call that does not fit."""
        slots = self.code.slots
        *results, _, given = [_items(operand) for operand in self.instruction.operands]
        held = [one.name for one in (*given, *(results[0] if results else ()))
                if isinstance(one, Register | Symbol)]
        if len(given) != intrinsics.takes(name) or not all(name in slots for name in held):
            raise Refused(f"a call of {name} that does not fit")
        step = self.made(Provided, (), [Register(name) for name in held[: len(given)]],
                         function=name)
        step.targets = tuple(slots[name] for name in held[len(given) :])
        return step

    def barrier(self) -> Barrier:
        instruction, modifiers = self.instruction, set(self.instruction.modifiers)
        if "cluster" in modifiers:
            raise Refused("a barrier of clusters")
        if instruction.opcode == "call":  # cudaCGSynchronize
            return self.made(Barrier, (), (), grid=True)
        operands = list(instruction.operands)
        target = [operands.pop(0)] if "red" in modifiers else []
        predicate = operands.pop() if target else None
        mode = next((m for m in ("popc", "and", "or") if m in modifiers), "") if target else ""
        number, count = [*operands, None, None][:2]
        sources = [one for one in (number, count, predicate) if one is not None]
        return self.made(Barrier, target, sources, number=number, count=count, mode=mode,
                         predicate=predicate, onward="arrive" in modifiers)

    def data(self) -> Data:
        instruction = self.instruction
        targets: list[Operand] = [instruction.operands[0]]
        if instruction.second is not None:
            targets.append(instruction.second)
        sources = instruction.operands[1:]
        operation = operations.lookup(
            instruction.opcode, instruction.modifiers, len(sources), len(targets))
        body = operation.body
        if body is None or len(sources) != len(operation.sources):
            raise Refused(instruction.name)
        step = self.made(Data, targets, sources, operation=operation, body=body)
        if operation.carry_in or operation.carry_out:
            carry = self.program.slot(self.code, "%cc", np.dtype("?"))
            if operation.carry_in:
                step.reads |= {carry}
            if operation.carry_out:
                step.targets = (*step.targets, carry)
        return step

    def memory(self) -> Step:
        instruction = self.instruction
        site = memory_access.site_of(self.program.display, instruction)
        if site.whole:
            raise Refused(instruction.name)
        operands = list(instruction.operands)
        targets: Sequence[Operand] = ()
        if has_result(instruction):
            targets = _items(operands.pop(0))
        where = operands.pop(0)
        values = [item for operand in operands for item in _items(operand)]
        if not isinstance(where, Address):
            raise Refused("an address of an unknown form")
        if site.space == "param":
            if isinstance(where.base, Symbol) and where.base.name not in self.code.frame:
                return self.parameter(site, where.base, where.offset, targets, values)
            entry = self.code.function.is_entry and isinstance(where.base, Register)
            site.space = "global" if entry else "local"
        base, site.offset = where.base, where.offset
        if isinstance(base, Immediate):
            base, site.offset = Immediate(base.value + where.offset), 0
        elif isinstance(base, Symbol):
            base, site.offset = Symbol(base.name, base.offset + where.offset), 0
        return self.made(Access, targets, (base, *values), site=site)

    def parameter(self, site: Site, base: Symbol, offset: int, targets: Sequence[Operand],
                  values: Sequence[Operand]) -> Step:
        """The kernel's own, or one of a function that a register holds."""
        program, code = self.program, self.code
        offset += base.offset
        if code is program.entry_code and base.name in program.parameter_offsets:
            if site.kind != "load":
                raise Refused("a store to a kernel's parameter")
            offset += program.parameter_offsets[base.name]
            return self.made(Parameter, targets, (), dtype=site.dtype, offset=offset)
        slot = code.slots.get(base.name)
        if slot is None or offset or site.width > 1:
            raise Refused("parameters that lie in memory")
        held = Register(base.name)
        if site.kind == "load":
            return self.made(Move, targets, (held,), dtype=site.dtype)
        step = self.made(Move, (), values, dtype=site.dtype)
        step.targets = (slot,)
        return step


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)
