"""Decoding of each place into the steps that native code supports.

Any other step refuses the whole kernel.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from virtualgpu.native import intrinsics
from virtualgpu.native.flow.control_flow import Passing, Place, chosen
from virtualgpu.native.refusal import Refused
from virtualgpu.program.program import Program
from virtualgpu.program.steps import (
    WIDE,
    Barrier,
    Call,
    Data,
    Exact,
    MemoryAccess,
    Move,
    Parameter,
    Step,
)
from virtualgpu.ptx import Immediate, Register, Symbol
from virtualgpu.ptx.opcodes import traits

# Without observers these have no visible effect, because lanes of a warp run together and stores
# are visible at once.
SILENT = ("control", "fence", "idle", "hint", "barrier")


@dataclass(slots=True, kw_only=True)
class PassedValues(Step):
    """Values that a call or a return passes."""

    passing: Passing


@dataclass(slots=True, kw_only=True)
class Stop(Step):
    """A failed assertion; the interpreter produces its message."""


@dataclass(slots=True, kw_only=True)
class IntrinsicCall(Step):
    """A call of a function that the device provides, or a clock read (:mod:`.intrinsics`)."""

    function: str


def decode(program: Program, place: Place) -> list[Step]:
    """Return copies of the steps of a place's block.

    Raises Refused for instructions that native code does not support.
    """
    if any(dtype == WIDE for dtype in program.dtypes):
        raise Refused("registers of 128 bits")
    steps = [_taken(program, place, step) for step in place.block.steps]
    if place.passing is not None:
        call = place.block if place.block.kind == "call" else program.blocks[place.stack[-1]]
        assert call.last is not None
        handed = place.passing.registers
        steps.append(
            PassedValues(
                instruction=call.last,
                targets=tuple(handed),
                passing=place.passing,
                reads=frozenset(slot for slot in handed.values() if slot is not None),
            )
        )
    return steps


def _taken(program: Program, place: Place, step: Step) -> Step:
    instruction, code = step.instruction, place.block.function
    if isinstance(step, Move | Parameter) and step.dtype == WIDE:
        raise Refused(instruction.name)
    if isinstance(step, MemoryAccess):
        if step.site.whole:
            raise Refused(instruction.name)
        base = step.sources[0]
        if (
            code is program.entry_code
            and isinstance(base, Symbol)
            and (base.name in program.parameter_offsets)
            and step.site.kind != "load"
        ):
            raise Refused("a store to a kernel's parameter")
        return replace(step, site=copy(step.site))
    if isinstance(step, Move):
        (source, *_) = step.sources
        if isinstance(source, Register) and source.name in intrinsics.NAMES:
            return IntrinsicCall(
                instruction=instruction, targets=step.targets, function=source.name
            )
        return replace(step)
    if isinstance(step, Data):
        if step.operation.body is None:
            raise Refused(instruction.name)
        return replace(step)
    if isinstance(step, Barrier):
        # No compiled code reads the result of the grid barrier.
        return replace(step, targets=() if step.grid else step.targets)
    if isinstance(step, Call):
        return _called(program, step)
    if isinstance(step, Parameter | Exact):
        return replace(step)
    family = traits(instruction).family
    if "cluster" in instruction.modifiers and family == "barrier":
        raise Refused("a cluster barrier")
    if family in SILENT:
        way = chosen(place) if instruction.opcode in ("brx", "call") else None
        reads = (
            step.reads
            if instruction.opcode in ("bra", "brx")
            else frozenset(code.slots[way.name] for way in [way] if isinstance(way, Register))
        )
        return replace(step, reads=reads, sources=step.sources if reads else ())
    if family == "address" or (
        family == "warp" and (instruction.opcode == "activemask" or "sync" in instruction.modifiers)
    ):
        return replace(step)
    raise Refused(instruction.name)


def _called(program: Program, step: Call) -> Step:
    if step.function == "__assertfail":
        return Stop(instruction=step.instruction)
    if step.function == "cudaCGGetIntrinsicHandle":  # always the same
        (target,) = step.targets
        assert target is not None
        return Move(
            instruction=step.instruction,
            targets=step.targets,
            sources=(Immediate(1),),
            dtype=program.dtypes[target],
        )
    if step.function in intrinsics.NAMES:
        return IntrinsicCall(
            instruction=step.instruction,
            targets=step.targets,
            sources=step.sources,
            reads=step.reads,
            function=step.function,
        )
    raise Refused(f"{step.instruction.name} {step.function}")
