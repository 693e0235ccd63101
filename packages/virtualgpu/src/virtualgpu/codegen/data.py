"""Data instructions and what lanes of a warp tell each other, as LLVM values.

The meaning of a data instruction is the expression of :mod:`virtualgpu.operations`, the same
that the interpreting machine runs; here it is built once more, for 32 lanes or for one number.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from virtualgpu.codegen.context import LANES, VALUES
from virtualgpu.codegen.decode import Step
from virtualgpu.codegen.lanes import (
    I32,
    IOTA,
    bits_of_mask,
    constant_vector,
    splat,
    spread,
    together,
)
from virtualgpu.codegen.operands import Registers
from virtualgpu.codegen.refusal import Refused
from virtualgpu.machine.fuse import kind
from virtualgpu.machine.wave import LOCAL_BASE, SHARED_BASE, WINDOW
from virtualgpu.operations.expression import Value, select
from virtualgpu.operations.types import DTYPES, REGISTER_DTYPES, UNSIGNED
from virtualgpu.ptx import Vector

U32, U64, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype("?")
_BASES = {"shared": SHARED_BASE, "local": LOCAL_BASE}
_SPACES = {"global", "shared", "local", "const", "param"}


def emit(registers: Registers, step: Step, mask: ir.Value) -> None:
    """Write one step that touches no memory; ``mask`` is the word of the lanes that run it."""
    _EMIT[step.kind](registers, step, mask)


def _data(registers: Registers, step: Step, mask: ir.Value) -> None:
    operation = step.operation
    if len(step.sources) != len(operation.sources):
        raise Refused(f"{step.instruction.name} with {len(step.sources)} operands")
    arguments = [registers.get(source, want)
                 for source, want in zip(step.sources, operation.sources, strict=True)]
    if operation.carry_in:
        arguments.append(registers.read(step.carry)[0])
    results = step.body(*together(arguments))
    results = results if isinstance(results, tuple) else (results,)
    for slot, value, dtype in zip(step.targets, results, operation.destinations, strict=False):
        registers.write(slot, value, dtype)
    if operation.carry_out:
        registers.write(step.carry, results[-1], BOOL)


def _move(registers: Registers, step: Step, mask: ir.Value) -> None:
    """``mov``: a copy, or packing and unpacking of a vector, as :meth:`Emitter.move` does."""
    instruction = step.instruction
    want = REGISTER_DTYPES.get(instruction.modifiers[-1])
    if want is None:
        raise Refused(instruction.name)
    target, source = instruction.operands
    whole, parts = UNSIGNED[want.itemsize], len(step.sources)
    if isinstance(source, Vector):
        part = UNSIGNED[want.itemsize // parts]
        values = together([registers.get(item, part) for item in step.sources])
        name = f"u{8 * whole.itemsize}"
        total = values[0].to(name)
        for i, value in enumerate(values[1:], 1):
            total = total | (value.to(name) << 8 * part.itemsize * i)
        registers.write(step.targets[0], total, whole)
    elif isinstance(target, Vector):
        part = UNSIGNED[want.itemsize // len(step.targets)]
        value = registers.get(source, whole)
        for i, slot in enumerate(step.targets):
            piece = value >> 8 * part.itemsize * i if i else value
            registers.write(slot, piece.to(f"u{8 * part.itemsize}"), part)
    else:
        registers.write(step.targets[0], registers.get(source, want), want)


def _parameter(registers: Registers, step: Step, mask: ir.Value) -> None:
    build, site = registers.build, step.site
    for i, slot in enumerate(step.targets):
        at = build.add(registers.context.load("parameters"),
                       ir.IntType(64)(step.place + i * site.dtype.itemsize))
        bits = 8 * site.dtype.itemsize
        node = build.load(build.inttoptr(at, ir.PointerType()), typ=ir.IntType(bits), align=1)
        plain = site.dtype if site.dtype.kind == "i" else UNSIGNED[site.dtype.itemsize]
        registers.write(slot, Value(build, node, kind(plain)), plain)


def _cvta(registers: Registers, step: Step, mask: ir.Value) -> None:
    modifiers = step.instruction.modifiers
    space = next((m.split(":")[0] for m in modifiers if m.split(":")[0] in _SPACES), None)
    if space is None:
        raise Refused(step.instruction.name)
    value = registers.get(step.sources[0], U64)
    if space in _BASES:
        value = value - _BASES[space] if "to" in modifiers else value + _BASES[space]
    width = DTYPES[modifiers[-1]]
    if width != U64:
        raise Refused(step.instruction.name)
    registers.write(step.targets[0], value, U64)


def _isspacep(registers: Registers, step: Step, mask: ir.Value) -> None:
    space = step.instruction.modifiers[0].split(":")[0]
    value = registers.get(step.sources[0], U64)
    if space in _BASES:
        test = (value >= _BASES[space]) & (value < _BASES[space] + WINDOW)
    elif space == "global":
        test = value >= 1 << 34
    else:
        test = value.number(0, "pred")
    registers.write(step.targets[0], test, BOOL)


def _activemask(registers: Registers, step: Step, mask: ir.Value) -> None:
    registers.write(step.targets[0], Value(registers.build, mask, "u32"), U32)


def _vote(registers: Registers, step: Step, mask: ir.Value) -> None:
    """``vote.sync`` by all lanes that are here: the kernel is refused where some may be missing
    or name other companions."""
    build = registers.build
    predicate = spread(registers.get(step.sources[0], BOOL))
    here = build.and_(bits_of_mask(build, predicate.node), mask)
    mode = next(m for m in step.instruction.modifiers if m in ("all", "any", "uni", "ballot"))
    if mode == "ballot":
        registers.write(step.targets[0], Value(build, here, "u32"), U32)
        return
    every = build.icmp_unsigned("==", here, mask)
    some = build.icmp_unsigned("!=", here, I32(0))
    result = {"all": every, "any": some}.get(mode)
    if result is None:
        result = build.or_(every, build.not_(some))
    registers.write(step.targets[0], Value(build, result, "pred"), BOOL)


def _shuffle(registers: Registers, step: Step, mask: ir.Value) -> None:
    """``shfl.sync``, as :func:`virtualgpu.machine.warp.shuffle`: a lane that is not here has the
    poison pattern to give."""
    build = registers.build
    a = spread(registers.get(step.sources[0], U32))
    b = spread(registers.get(step.sources[1], U32)).view("s32") & 31
    c = spread(registers.get(step.sources[2], U32)).view("s32")
    lane = Value(build, constant_vector(IOTA, 32), "s32")
    clamp, segment = c & 31, (c >> 8) & 31
    most = (lane & segment) | (clamp & ~segment)
    mode = next(m for m in step.instruction.modifiers if m in ("up", "down", "bfly", "idx"))
    if mode == "up":
        source = lane - b
        inside = source >= most
    else:
        source = {"down": lambda: lane + b, "bfly": lambda: lane ^ b,
                  "idx": lambda: (lane & segment) | (b & ~segment)}[mode]()
        inside = source <= most
    source = select(inside, source, lane) & 31
    poison = Value(build, splat(build, I32(0xFEFEFEFE)), "u32")
    present = Value(build, build.bitcast(mask, ir.VectorType(ir.IntType(1), LANES)), "pred")
    table = select(present, a, poison)
    # Through memory: LLVM has no shuffle by a vector that is not constant.
    context = registers.context
    build.store(table.node, context.at(VALUES), align=8)
    result = ir.Constant(ir.VectorType(I32, LANES), ir.Undefined)
    for i in IOTA:
        index = build.zext(build.extract_element(source.node, I32(int(i))), ir.IntType(64))
        place = build.gep(context.at(VALUES), [index], source_etype=I32)
        result = build.insert_element(result, build.load(place, typ=I32), I32(int(i)))
    registers.write(step.targets[0], Value(build, result, "u32"), U32)
    if len(step.targets) > 1:
        registers.write(step.targets[1], inside, BOOL)


_EMIT = {
    "data": _data, "mov": _move, "param": _parameter, "cvta": _cvta, "isspacep": _isspacep,
    "activemask": _activemask, "vote": _vote, "shfl": _shuffle,
    "nothing": lambda registers, step, mask: None,
}
