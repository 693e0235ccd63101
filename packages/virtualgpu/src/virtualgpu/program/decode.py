"""Decoder from PTX instructions to steps (:mod:`.steps`), with operands and targets.

This module also raises the errors of malformed instructions. The operation, the site or the form
(:mod:`.forms`) of an instruction defines the operands that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from virtualgpu import operations
from virtualgpu.errors import PTXSyntaxError, UnsupportedInstruction, VirtualGPUError
from virtualgpu.operations.types import DTYPES, REGISTER_DTYPES
from virtualgpu.program import forms, operand_types
from virtualgpu.program.forms import form_of
from virtualgpu.program.intrinsics import PROVIDED
from virtualgpu.program.operand_types import mismatch
from virtualgpu.program.program import BasicBlock, Program
from virtualgpu.program.site import Site, site_of
from virtualgpu.program.speculation import predicates
from virtualgpu.program.steps import (
    WIDE,
    Barrier,
    Call,
    Data,
    Exact,
    Formed,
    MemoryAccess,
    Move,
    Parameter,
    Step,
    registers_in,
)
from virtualgpu.ptx import Address, Immediate, Instruction, Register, Symbol, Vector
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import has_result, traits
from virtualgpu.signal_handlers import raised_by_handler
from virtualgpu.wording import many

S = TypeVar("S", bound=Step)

# Families in :mod:`.forms`; the barriers of a block have their own steps.
_FORMED = {
    *("address", "barrier", "cluster", "copy", "idle", "matrix", "mbarrier", "stack", "texture"),
    "warp",
}


def decode(program: Program, block: BasicBlock) -> None:
    """Set a block's ``steps``, the registers that it reads from earlier blocks, and its writes.

    Raises
    ------
    UnsupportedInstruction, PTXSyntaxError
        The error has the location of the instruction.
    """
    for instruction in block.instructions:
        with decoding(program, instruction):
            decoder = _Decoder(program, block, instruction)
            if instruction.guard is not None:
                decoder.check(instruction.guard[0], "pred")
            step = decoder.step()
            if condition := program.wanted.get(id(instruction)):
                step.reads |= decoder.registers([*map(Register, predicates(condition))])
        block.steps.append(step)
        block.reads |= step.reads - block.writes
        block.writes.update(step.writes)


@contextmanager
def decoding(program: Program, instruction: Instruction) -> Iterator[None]:
    """Add the instruction and its location to an error inside the ``with`` block."""
    try:
        yield
    except UnsupportedInstruction as error:
        raise UnsupportedInstruction(
            f"{error.message}, in `{instruction.text}`", program.location(instruction.source)
        ) from None
    except PTXSyntaxError as error:
        raise PTXSyntaxError(
            error.message, error.location or program.location(instruction.source)
        ) from None
    except VirtualGPUError:
        raise
    except Exception as error:
        if raised_by_handler(error):
            raise
        # Operands are used as their position requires, so one of another kind fails here.
        raise PTXSyntaxError(f"cannot decode `{instruction.text[:200]}`: {error!r}") from None


class _Decoder:
    def __init__(self, program: Program, block: BasicBlock, instruction: Instruction):
        self.program, self.block, self.code = program, block, block.function
        self.instruction = instruction

    def step(self) -> Step:
        instruction, opcode = self.instruction, traits(self.instruction)
        if opcode.family == "memory":
            return self.memory()
        if opcode.family == "move":
            return self.move()
        if opcode.family == "barrier" and not {"warp", "cluster"} & set(instruction.modifiers):
            return self.barrier()
        if opcode.family in _FORMED:
            return self.formed()
        if opcode.family == "data" or not opcode.name:
            return self.data()
        if opcode.family == "control":
            return self.control()
        if (comparison := self.program.comparisons.get(id(instruction))) is not None:
            return self.made(Exact, (), instruction.operands, comparison=comparison)
        return self.made(Step, (), instruction.operands)  # a fence or a hint

    def made(
        self, kind: type[S], targets: Sequence[Operand], sources: Sequence[Operand], **more: Any
    ) -> S:
        return kind(
            instruction=self.instruction,
            targets=tuple(map(self.slot, targets)),
            sources=tuple(sources),
            reads=self.registers(sources),
            **more,
        )

    def check(self, operand: Operand, *wanted: str, wider: bool = False) -> str:
        """Return an operand's type, which must be one of ``wanted``. Raises PTXSyntaxError."""
        registers = self.code.function.registers
        return operand_types.check(registers, self.instruction, operand, *wanted, wider=wider)

    def check_base(self, address: Address) -> None:
        if isinstance(address.base, Register):
            self.check(address.base, "u64", "u32", "u16")

    def slot(self, operand: Operand) -> int | None:
        if not isinstance(operand, Register):
            raise PTXSyntaxError(f"a result that is {operand}")
        return None if operand.name == "_" else self.program.register(self.code, operand)

    def registers(self, operands: Sequence[Operand]) -> frozenset[int]:
        """Return the registers among operands, including those in addresses and vectors."""
        found = set()
        for register in registers_in(operands):
            if register.name in self.code.function.registers:
                found.add(self.program.register(self.code, register))
            elif register.name in self.code.slots:  # a parameter
                found.add(self.code.slots[register.name])
        return frozenset(found)

    def held(self, kind: type[S], targets: Sequence[str], sources: Sequence[str], **more: Any) -> S:
        """Return a step between parameters that are kept in registers."""
        slots = self.code.slots
        return kind(
            instruction=self.instruction,
            targets=tuple(slots[name] for name in targets),
            sources=tuple(map(Register, sources)),
            reads=frozenset(slots[name] for name in sources),
            **more,
        )

    # -- data ----------------------------------------------------------------------------------

    def data(self) -> Data:
        instruction = self.instruction
        targets: list[Operand] = list(instruction.operands[:1])
        if instruction.second is not None:
            targets.append(instruction.second)
        sources = instruction.operands[1:]
        operation = operations.lookup(
            instruction.opcode, instruction.modifiers, len(sources), len(targets)
        )
        if len(sources) != len(operation.sources):
            raise PTXSyntaxError(
                f"{instruction.name} takes {many(len(operation.sources), 'operand')}"
            )
        types = (*operation.destination_types, *operation.source_types)
        for operand, type_ in zip((*targets, *sources), types, strict=True):
            if isinstance(operand, Symbol) and operand.name != "WARP_SZ":
                raise mismatch(instruction, f"{operand_types.shown(operand)} is no register")
            self.check(operand, type_, wider=instruction.opcode == "cvt")
        step = self.made(Data, targets, sources, operation=operation)
        if operation.carry_in or operation.carry_out:
            carry = self.program.slot(self.code, "%cc", np.dtype("?"))
            if operation.carry_in:
                step.reads |= {carry}
            if operation.carry_out:
                step.targets = (*step.targets, carry)
        return step

    def move(self) -> Move:
        """Decode ``mov`` (PTX ISA, "mov")."""
        instruction = self.instruction
        target, source = instruction.operands
        wide = instruction.modifiers == ("b128",)
        dtype = WIDE if wide else REGISTER_DTYPES.get(instruction.modifiers[-1])
        if dtype is None:
            raise UnsupportedInstruction(instruction.name)
        for operand in (source, target):
            if isinstance(operand, Vector) and len(operand.items) not in ((2,) if wide else (2, 4)):
                raise PTXSyntaxError(
                    f"mov.b128 of {many(len(operand.items), 'part')}: it needs two of .b64"
                    if wide
                    else f"mov of {many(len(operand.items), 'part')}: {instruction.text[:80]}"
                )
        if wide and isinstance(source, Immediate):
            raise PTXSyntaxError("mov.b128 of a literal: join two literals of .b64")
        for operand in (source, target):
            if isinstance(operand, Vector):
                size = dtype.itemsize // len(operand.items)
                for one in operand.items:
                    self.check(one, f"b{8 * size}")
            elif not wide:
                self.check(operand, instruction.modifiers[-1])
        return self.made(Move, items(target), items(source), dtype=dtype)

    # -- instructions by their form ------------------------------------------------------------

    def formed(self) -> Formed:
        instruction = self.instruction
        form = form_of(instruction.opcode, instruction.modifiers)
        given, pairs = list(instruction.operands), []
        if traits(instruction).family == "texture" and (instruction.second or len(given) != 2):
            operations.lookup(instruction.opcode, instruction.modifiers, 1, 1)  # raises the error
        if form.results:
            if not given:
                raise mismatch(instruction, "it has no operands")
            pairs.append((form.results[0], given.pop(0)))
        if instruction.second is not None:
            if len(form.results) < 2:
                raise mismatch(instruction, "it has no second result")
            pairs.append((form.results[1], instruction.second))
        made = [one for wanted, operand in pairs for one in self.typed(wanted, operand)]
        spare = len(given) - sum(not wanted.optional for wanted in form.sources)
        if not 0 <= spare <= sum(wanted.optional for wanted in form.sources):
            raise mismatch(instruction, f"it has {many(len(instruction.operands), 'operand')}")
        sources: list[tuple[Operand, np.dtype]] = []
        for wanted in form.sources:
            if wanted.optional and not spare:
                continue
            spare -= wanted.optional
            sources += self.typed(wanted, given.pop(0))
        return self.made(
            Formed,
            [operand for operand, _ in made],
            [operand for operand, _ in sources],
            words=form.words,
            results=tuple(dtype for _, dtype in made),
            kinds=tuple(dtype for _, dtype in sources),
            fragments=form.fragments,
        )

    def typed(self, wanted: forms.Operand, operand: Operand) -> list[tuple[Operand, np.dtype]]:
        """Return the registers, literals or addresses of one operand, each with its dtype."""
        instruction = self.instruction
        if wanted.numbers is not None:
            number = operand.value if isinstance(operand, Immediate) else -1
            if number < 0 or (wanted.numbers and number not in wanted.numbers):
                listed = ", ".join(map(str, sorted(wanted.numbers)[:8]))
                why = "this operand must be a literal number"
                raise mismatch(instruction, f"{why}: {listed}" if listed else why)
            return [(operand, np.dtype("i8"))]
        if wanted.parts:
            parts = items(operand) if isinstance(operand, Vector) else ()
            if len(parts) != len(wanted.parts):
                raise mismatch(
                    instruction,
                    f"[object, {{coordinates}}] with {many(len(wanted.parts) - 1, 'coordinate')}",
                )
            for one, type_ in zip(parts, wanted.parts, strict=True):
                # With several coordinates only the sizes are checked, as in ptxas.
                bits = f"b{8 * DTYPES[type_].itemsize}"
                self.check(one, type_ if len(parts) == 2 else bits)
            return [(one, DTYPES[type_]) for one, type_ in zip(parts, wanted.parts, strict=True)]
        if not wanted.types:
            if not isinstance(operand, Address):
                raise mismatch(
                    instruction, f"{operand_types.shown(operand)} where it takes an address"
                )
            self.check_base(operand)
            return [(operand, np.dtype("u8"))]
        if wanted.types == ("_",) and operand != Register("_"):
            raise mismatch(instruction, "it returns no state for another block's barrier")
        parts = items(operand) if wanted.count else (operand,)
        if wanted.count and len(parts) != wanted.count:
            raise mismatch(
                instruction, f"{many(len(parts), 'register')} where it takes {wanted.count}"
            )
        wider = traits(instruction).family == "texture"
        return [
            (one, DTYPES[self.check(one, *wanted.types, wider=wider)])
            if one != Register("_")
            else (one, DTYPES.get(wanted.types[0], np.dtype("u8")))
            for one in parts
        ]

    # -- memory --------------------------------------------------------------------------------

    def memory(self) -> Step:
        instruction = self.instruction
        site = site_of(self.program.display, instruction)
        operands = list(instruction.operands)
        targets: list[Operand] = [operands.pop(0)] if has_result(instruction) else []
        where, *given = operands
        self.check_values(site, targets, given)
        if not isinstance(where, Address):
            raise PTXSyntaxError(f"expected an address, found {where}")
        self.check_base(where)
        targets = [item for operand in targets for item in items(operand)]
        values = [item for operand in given for item in items(operand)]
        base = where.base
        if site.space == "param":
            if (
                isinstance(base, Symbol)
                and (
                    held := self.parameter(site, base, where.offset + base.offset, targets, values)
                )
                is not None
            ):
                return held
            own = isinstance(base, Immediate) or (
                isinstance(base, Symbol) and base.name in self.code.frame
            )
            site.space = "global" if self.code.function.is_entry and not own else "local"
        if isinstance(base, Immediate):
            base = Immediate(base.value + where.offset)
        elif isinstance(base, Symbol):
            base = Symbol(base.name, base.offset + where.offset)
        else:
            site.offset = where.offset
        return self.made(MemoryAccess, targets, (base, *values), site=site)

    def check_values(self, site: Site, targets: list[Operand], given: list[Operand]) -> None:
        """Check that there are as many values as the ``width`` for which memory is checked."""
        instruction = self.instruction
        wanted = {"load": 0, "store": 1}.get(site.kind, 1 + (site.operation == "cas"))
        if site.whole:
            if len(given) != wanted or not all(
                isinstance(one, Register) for one in (*given, *targets)
            ):
                raise PTXSyntaxError(
                    f"{instruction.name} takes {many(wanted, 'value')}, registers of "
                    f".b128: {instruction.text[:80]}"
                )
            return
        if len(given) != wanted:
            raise PTXSyntaxError(
                f"an atomic with {many(len(given), 'value')}: {instruction.text}"
                if site.kind == "atomic"
                else f"{many(len(given), 'value')} where {instruction.name} takes {wanted}: "
                f"{instruction.text[:80]}"
            )
        # For the elements of a vector only the sizes are checked, as in ptxas.
        type_ = f"b{8 * site.dtype.itemsize}" if site.width > 1 else instruction.modifiers[-1]
        for operand in (*targets, *given):
            for one in items(operand):
                self.check(one, type_, wider=site.kind != "atomic")
        moved = [*targets, *given] if site.kind != "atomic" or site.width > 1 else targets
        for operand in moved:
            parts = len(items(operand))
            if parts != site.width or isinstance(operand, Vector) != (site.width > 1):
                raise PTXSyntaxError(
                    f"{many(parts, 'value')} where {instruction.name} moves {site.width}"
                )

    def parameter(
        self,
        site: Site,
        base: Symbol,
        offset: int,
        targets: Sequence[Operand],
        values: Sequence[Operand],
    ) -> Step | None:
        """Decode an access to a parameter of the kernel, or to one that is kept in a register.

        Return None if the parameter is in memory.
        """
        program, code = self.program, self.code
        dtype = WIDE if site.whole else site.dtype
        if code is program.entry_code and base.name in program.parameter_offsets:
            at = offset + program.parameter_offsets[base.name]
            if site.whole and (values or at < 0 or at + 16 > program.parameter_bytes):
                raise PTXSyntaxError(f"no 16 bytes of a parameter of {program.name}: {base.name}")
            if values:
                return None
            if at < 0 or at + len(targets) * dtype.itemsize > program.parameter_bytes:
                raise PTXSyntaxError(f"ld.param beyond the parameters of {program.name}")
            return self.made(Parameter, targets, (), dtype=dtype, offset=at)
        slot = code.slots.get(base.name)
        if slot is None or base.name in code.frame or offset or (site.width > 1 and not site.whole):
            return None
        if site.kind == "load":
            return self.made(Move, targets, (Register(base.name),), dtype=dtype)
        step = self.made(Move, (), values, dtype=dtype)
        step.targets = (slot,)
        return step

    # -- control -------------------------------------------------------------------------------

    def barrier(self) -> Barrier:
        step, modifiers = self.formed(), self.instruction.modifiers
        sources = list(step.sources)
        predicate = sources.pop() if "red" in modifiers else None
        number, count = [*sources, None][:2]
        return Barrier(
            instruction=self.instruction,
            targets=step.targets,
            sources=step.sources,
            reads=step.reads,
            number=number,
            count=count,
            mode=next((m for m in ("popc", "and", "or") if m in modifiers), ""),
            predicate=predicate,
            onward="arrive" in modifiers,
        )

    def control(self) -> Step:
        instruction, block = self.instruction, self.block
        operands = instruction.operands
        if instruction.opcode == "bra":
            return self.made(Step, (), () if instruction.guard is None else instruction.guard[:1])
        if instruction.opcode == "brx":
            self.check(operands[0], "u32")
            return self.made(Step, (), operands[:1])
        if instruction.opcode != "call":
            return self.made(Step, (), ())
        code = self.code
        if block.kind == "barrier":  # a barrier of the grid
            results = items(operands[0]) if isinstance(operands[0], Vector) else ()
            status = [
                one.name
                for one in results
                if isinstance(one, Symbol | Register) and one.name in code.slots
            ]
            return self.held(Barrier, status, (), grid=True)
        if block.call is None:
            return self.provided()
        for name in (*block.call.arguments, *block.call.returns):
            if name in code.function.registers:
                self.program.register(code, Register(name))
            if name not in code.slots and name not in code.frame:
                raise PTXSyntaxError(f"call with an undeclared parameter {name}")
        block.passes = tuple(code.slots[a] for a in block.call.arguments if a in code.slots)
        block.receives = tuple(code.slots[r] for r in block.call.returns if r in code.slots)
        target = [] if block.call.target else [o for o in operands if isinstance(o, Register)][:1]
        step = self.made(Step, (), target)
        step.reads |= frozenset(block.passes)
        return step

    def provided(self) -> Call:
        operands: list[Any] = list(self.instruction.operands)
        returns = operands.pop(0).items if not isinstance(operands[0], Symbol) else ()
        name = operands.pop(0).name
        given = operands[0].items if operands else ()
        slots, dtypes = self.code.slots, self.program.dtypes
        for item in (*given, *returns):
            if item.name not in slots or dtypes[slots[item.name]].kind == "f":
                raise PTXSyntaxError(
                    f"call of {name} with a parameter {item.name} that does not fit"
                )
        count, results = PROVIDED[name]
        if len(given) != count or len(returns) > results:
            raise PTXSyntaxError(
                f"call of {name} with {many(len(given), 'argument')} and "
                f"{many(len(returns), 'result')}; it takes {count}"
            )
        return self.held(
            Call, [item.name for item in returns], [item.name for item in given], function=name
        )


def items(operand: Operand) -> tuple[Operand, ...]:
    """Return the parts of a vector, or a tuple with the operand itself."""
    return operand.items if isinstance(operand, Vector) else (operand,)
