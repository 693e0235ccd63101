"""Warp-level exchange as LLVM values (:mod:`virtualgpu.lanes.warp_exchange`).

All lanes of ``mask`` take part. A kernel is refused if some lanes may be missing, or if lanes name
different companions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.native.context import LANES, VALUES
from virtualgpu.native.operands import BOOL, U32, LoweredRegisters
from virtualgpu.native.refusal import Refused
from virtualgpu.native.values import (
    I1,
    I32,
    I64,
    IOTA,
    bits_of_mask,
    constant_vector,
    mask_of_bits,
    splat,
    spread,
)
from virtualgpu.operations.expression import Value, llvm_type, select
from virtualgpu.operations.types import DTYPES, kind
from virtualgpu.program.steps import Step


def _activemask(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    registers.write(step.targets[0], Value(registers.build, mask, "u32"), U32)


def _vote(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    """Emit ``vote.sync``."""
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


def sources(registers: LoweredRegisters, step: Step) -> tuple[Value, Value]:
    """Return the source lane of each lane of ``shfl.sync``, and True where it is in range."""
    build = registers.build
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
        source = {
            "down": lambda: lane + b,
            "bfly": lambda: lane ^ b,
            "idx": lambda: (lane & segment) | (b & ~segment),
        }[mode]()
        inside = source <= most
    return select(inside, source, lane) & 31, inside


def _shuffle(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    """Emit a shuffle; a lane that reads an absent lane gets the poison pattern."""
    build = registers.build
    a = spread(registers.get(step.sources[0], U32))
    source, inside = sources(registers, step)
    poison = Value(build, splat(build, I32(0xFEFEFEFE)), "u32")
    present = Value(build, mask_of_bits(build, mask), "pred")
    table = select(present, a, poison)
    # Through memory, because LLVM has no shuffle by a variable vector.
    context = registers.context
    build.store(table.node, context.at(VALUES), align=8)
    result = ir.Constant(ir.VectorType(I32, LANES), ir.Undefined)
    for i in IOTA:
        index = build.zext(build.extract_element(source.node, I32(int(i))), I64)
        place = build.gep(context.at(VALUES), [index], source_etype=I32)
        result = build.insert_element(result, build.load(place, typ=I32), I32(int(i)))
    registers.write(step.targets[0], Value(build, result, "u32"), U32)
    if len(step.targets) > 1:
        registers.write(step.targets[1], inside, BOOL)


def _reduce(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    """Emit ``redux.sync``."""
    build, modifiers = registers.build, step.instruction.modifiers
    dtype = DTYPES[modifiers[-1]]
    mode = next(m for m in modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    if dtype.kind not in "ui" or dtype.itemsize != 4:
        raise Refused(step.instruction.name)
    values = spread(registers.get(step.sources[0], dtype))
    limits = np.iinfo(dtype)
    nothing = {"and": -1, "min": limits.max, "max": limits.min}.get(mode, 0)
    present = Value(build, mask_of_bits(build, mask), "pred")
    name = f"{'s' if dtype.kind == 'i' else 'u'}{mode}" if mode in ("min", "max") else mode
    vector = select(present, values, nothing).node
    node = intrinsic(build, f"llvm.vector.reduce.{name}.v{LANES}i32", I32, [vector])
    registers.write(step.targets[0], Value(build, node, kind(dtype)), dtype)


def _elect(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    """Emit ``elect.sync``, which the lowest lane wins."""
    build = registers.build
    leader = Value(build, build.cttz(mask, I1(1)), "u32")
    registers.write(step.targets[0], leader, U32)
    if len(step.targets) > 1:
        lane = Value(build, constant_vector(IOTA, 32), "u32")
        registers.write(step.targets[1], lane == spread(leader), BOOL)


def _match(registers: LoweredRegisters, step: Step, mask: ir.Value) -> None:
    """Emit ``match.sync``: the lanes with the same value; ``all`` also tells if all have it."""
    build, modifiers = registers.build, step.instruction.modifiers
    dtype = DTYPES[modifiers[-1]]
    values = spread(registers.get(step.sources[0], dtype))

    def same(lane: ir.Value) -> ir.Value:
        one = Value(build, splat(build, build.extract_element(values.node, lane)), values.kind)
        return build.and_(bits_of_mask(build, (values == one).node), mask)

    if "any" in modifiers:
        result = ir.Constant(llvm_type("u32", LANES), ir.Undefined)
        for lane in IOTA:
            result = build.insert_element(result, same(I32(int(lane))), I32(int(lane)))
    else:
        agree = build.icmp_unsigned("==", same(build.cttz(mask, I1(1))), mask)
        result = build.select(agree, mask, I32(0))
        if len(step.targets) > 1:
            registers.write(step.targets[1], Value(build, agree, "pred"), BOOL)
    registers.write(step.targets[0], Value(build, result, "u32"), U32)


EMIT: dict[str, Callable[[LoweredRegisters, Step, ir.Value], None]] = {
    "activemask": _activemask,
    "vote": _vote,
    "shfl": _shuffle,
    "redux": _reduce,
    "elect": _elect,
    "match": _match,
}
