"""What a warp keeps while it waits at a barrier: where it stands, its lanes, its registers."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from virtualgpu.codegen.context import LANES
from virtualgpu.codegen.lanes import I1, I32, I64
from virtualgpu.codegen.operands import Registers
from virtualgpu.machine.fuse import kind
from virtualgpu.operations.expression import bits_of

ALIGN = 64  # of each register
# The number of the barrier, the mask, and whether the warp may run, before the registers.
_PHASE, LANES_AT, READY = 0, 4, 8


class State:
    """Where each register of ``live`` lies, after ``header`` bytes of other words.

    ``size`` is in bytes.
    """

    HEADER = 16  # bytes that every state begins with

    def __init__(self, registers: Registers, pointer: ir.Value, live: Iterable[int],
                 header: int = HEADER):
        self.registers, self.build, self.pointer = registers, registers.build, pointer
        self.offsets: dict[int, int] = {}
        offset = -(-header // ALIGN) * ALIGN
        for slot in sorted(live):
            self.offsets[slot] = offset
            lanes = LANES if slot in registers.varying else 1
            bits = bits_of(kind(registers.program.dtypes[slot]))
            offset += -(-lanes * max(bits // 8, 1) // ALIGN) * ALIGN
        self.size = offset

    def phase(self) -> ir.Value:
        return self.build.load(self.at(_PHASE), typ=I32)

    def lanes(self) -> ir.Value:
        return self.build.load(self.at(LANES_AT), typ=I32)

    def save(self, phase: int, lanes: ir.Value, live: Iterable[int]) -> None:
        build = self.build
        build.store(I32(phase), self.at(_PHASE))
        build.store(lanes, self.at(LANES_AT))
        for slot in sorted(live):
            value = build.load(self.registers.homes[slot])
            stored = _stored(value.type)
            if stored is not value.type:
                value = (build.zext if value.type == I1 else build.bitcast)(value, stored)
            build.store(value, self.at(self.offsets[slot]), align=ALIGN)

    def restore(self, live: Iterable[int]) -> None:
        build = self.build
        for slot in sorted(live):
            home = self.registers.homes[slot]
            kept = home.allocated_type
            stored = _stored(kept)
            value = build.load(self.at(self.offsets[slot]), typ=stored, align=ALIGN)
            if stored is not kept:
                value = (build.trunc if kept == I1 else build.bitcast)(value, kept)
            build.store(value, home)

    def at(self, offset: int) -> ir.Value:
        """A place in the state, by its first byte."""
        return self.build.gep(self.pointer, [I64(offset)], source_etype=ir.IntType(8))


def _stored(kept: ir.Type) -> ir.Type:
    """Predicates lie in a word, or in a byte where one serves all lanes."""
    if kept == I1:
        return ir.IntType(8)
    return I32 if kept == ir.VectorType(I1, LANES) else kept
