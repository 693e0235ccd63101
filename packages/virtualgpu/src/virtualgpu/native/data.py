"""Data instructions and exchanges between lanes, as LLVM values.

Each data instruction is an expression of :mod:`virtualgpu.operations`. The interpreter evaluates
the same expression; here LLVM code is generated from it, for 32 lanes or for one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import each_bit, intrinsic
from virtualgpu.memory import windows
from virtualgpu.native import warp_operations as warp
from virtualgpu.native.flow.decode import PassedValues
from virtualgpu.native.operands import BOOL, U64, LoweredRegisters
from virtualgpu.native.refusal import Refused
from virtualgpu.native.values import I1, I64, pointer_to, together, zero
from virtualgpu.operations.expression import Value, adapt, opaque
from virtualgpu.operations.types import DTYPES, UNSIGNED, kind
from virtualgpu.program.steps import Data, Move, Parameter, Step
from virtualgpu.ptx import Immediate

F64 = np.dtype("f8")
_SPACES = {"global", "shared", "local", "const", "param"}


def emit(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    """Emit a step that does not access memory; ``mask`` holds the lanes that run it."""
    if isinstance(step, Data):
        _data(registers, step)
    elif isinstance(step, Move):
        _move(registers, step)
    elif isinstance(step, Parameter):
        for slot, (value, dtype) in zip(step.targets, parameters(registers, step), strict=True):
            registers.write(slot, value, dtype)
    elif isinstance(step, PassedValues):
        _copy(registers, step, mask)
    elif step.instruction.opcode in _EMIT:
        _EMIT[step.instruction.opcode](registers, step, mask)


def _data(registers: LoweredRegisters, step: Data) -> None:
    operation = step.operation
    arguments = [
        registers.get(source, want)
        for source, want in zip(step.sources, operation.sources, strict=True)
    ]
    if operation.carry_in:
        carry = registers.place.block.function.slots["%cc"]
        arguments.append(registers.read(carry)[0])
    assert operation.body is not None  # else the kernel would have been refused
    results = operation.body(*together(arguments))
    results = results if isinstance(results, tuple) else (results,)
    # LLVM could fold the result if no operand is a float64 in a register, so it is hidden.
    known = all(
        want != F64 or isinstance(source, Immediate)
        for source, want in zip(step.sources, operation.sources, strict=True)
    )
    for slot, value, dtype in zip(step.targets, results, operation.destinations, strict=False):
        if known and value.kind == "f64":
            value = opaque(value)
        registers.write(slot, value, dtype)
    if operation.carry_out:
        registers.write(step.targets[-1], results[-1], BOOL)


def _move(registers: LoweredRegisters, step: Move) -> None:
    """Copy, pack or unpack a vector as :meth:`Emitter.move` does."""
    want, parts = step.dtype, len(step.sources)
    whole = UNSIGNED[want.itemsize]
    if parts > 1:
        part = UNSIGNED[want.itemsize // parts]
        values = together([registers.get(item, part) for item in step.sources])
        name = f"u{8 * whole.itemsize}"
        total = values[0].to(name)
        for i, value in enumerate(values[1:], 1):
            total = total | (value.to(name) << 8 * part.itemsize * i)
        registers.write(step.targets[0], total, whole)
    elif len(step.targets) > 1:
        part = UNSIGNED[want.itemsize // len(step.targets)]
        value = registers.get(step.sources[0], whole)
        for i, slot in enumerate(step.targets):
            piece = value >> 8 * part.itemsize * i if i else value
            registers.write(slot, piece.to(f"u{8 * part.itemsize}"), part)
    else:
        value = registers.get(step.sources[0], want)
        if value.kind == "f64" and isinstance(step.sources[0], Immediate):
            value = opaque(value)
        registers.write(step.targets[0], value, want)


def _copy(registers: LoweredRegisters, step: PassedValues, mask: ir.Value) -> None:
    """Copy the values that a call or a return passes, as :mod:`virtualgpu.lanes.calls` does."""
    build, context, dtypes = registers.build, registers.context, registers.program.dtypes
    if step.passing.memory:
        with each_bit(build, mask) as lane:
            thread = build.add(build.shl(context.load("warp"), I64(5)), lane)
            own = build.add(context.load("local"), build.mul(thread, context.load("local_stride")))
            for start, end, size in step.passing.memory:
                intrinsic(
                    build,
                    "llvm.memmove.p0.p0.i64",
                    ir.VoidType(),
                    [
                        *(pointer_to(build, build.add(own, I64(at))) for at in (end, start)),
                        I64(size),
                        I1(0),
                    ],
                )
    for target, origin in step.passing.registers.items():
        want = dtypes[target]
        if origin is None:
            value = Value(registers.build, zero(kind(want), None), kind(want))
        else:
            value = adapt(*registers.read(origin), want)
        registers.write(target, value, want)


def parameters(registers: LoweredRegisters, step: Parameter) -> Iterator[tuple[Value, np.dtype]]:
    """Yield the values that a step loads, and their types."""
    build, dtype = registers.build, step.dtype
    for i in range(len(step.targets)):
        at = build.add(registers.context.load("parameters"), I64(step.offset + i * dtype.itemsize))
        node = build.load(pointer_to(build, at), typ=ir.IntType(8 * dtype.itemsize), align=1)
        plain = dtype if dtype.kind == "i" else UNSIGNED[dtype.itemsize]
        yield Value(build, node, kind(plain)), plain


def _cvta(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    registers.write(step.targets[0], converted(step, registers.get(step.sources[0], U64)), U64)


def converted(step: Step, value: Value) -> Value:
    """Return the address that ``cvta`` computes."""
    modifiers = step.instruction.modifiers
    space = next((m.split(":")[0] for m in modifiers if m.split(":")[0] in _SPACES), None)
    if space is None:
        raise Refused(step.instruction.name)
    if DTYPES[modifiers[-1]] != U64:
        raise Refused(step.instruction.name)
    move = windows.within if "to" in modifiers else windows.generic
    moved: Value = move(value, space)
    return moved


def _isspacep(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    space = step.instruction.modifiers[0].split(":")[0]
    test = windows.reaches(registers.get(step.sources[0], U64), space)
    registers.write(step.targets[0], test, BOOL)


# Emitters of instructions other than data instructions; they take the mask of running lanes.
_EMIT: dict[str, Callable[[LoweredRegisters, Step, ir.Value], None]] = {
    "cvta": _cvta,
    "isspacep": _isspacep,
    **warp.EMIT,
}
