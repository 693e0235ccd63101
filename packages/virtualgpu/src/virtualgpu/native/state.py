"""Saved state of a warp that waits at a barrier: its place, its lanes and its registers."""

from __future__ import annotations

from collections.abc import Iterable

from llvmlite import ir

from virtualgpu.native.context import LANES, LANES_AT, PHASE
from virtualgpu.native.operands import HOME_ALIGN, LoweredRegisters, stored
from virtualgpu.native.values import I1, I32, I64
from virtualgpu.operations.expression import bits_of
from virtualgpu.operations.types import kind

ALIGN = HOME_ALIGN


class State:
    """Offsets of the ``live`` registers, after ``header`` bytes of other words.

    ``size`` is in bytes.
    """

    HEADER = 16  # bytes at the start of every state

    def __init__(
        self,
        registers: LoweredRegisters,
        pointer: ir.Value,
        live: Iterable[int],
        header: int = HEADER,
    ):
        self.registers, self.build, self.pointer = registers, registers.build, pointer
        self.offsets: dict[int, int] = {}
        offset = -(-header // ALIGN) * ALIGN
        for slot in sorted(live):
            self.offsets[slot] = offset
            lanes = LANES if slot in registers.varying else 1
            bits = bits_of(kind(registers.program.dtypes[slot]))
            offset += -(-lanes * max(bits // 8, 1) // ALIGN) * ALIGN
        self.size = offset

    def room(self, nbytes: int) -> ir.Value:
        """Reserve bytes for something other than registers."""
        self.size, offset = self.size + -(-nbytes // ALIGN) * ALIGN, self.size
        return self.at(offset)

    def phase(self) -> ir.Value:
        return self.build.load(self.at(PHASE), typ=I32)

    def lanes(self) -> ir.Value:
        return self.build.load(self.at(LANES_AT), typ=I32)

    def save(self, phase: int, lanes: ir.Value, live: Iterable[int]) -> None:
        build, registers = self.build, self.registers
        build.store(I32(phase), self.at(PHASE))
        build.store(lanes, self.at(LANES_AT))
        for slot in sorted(set(live) - registers.kept):
            value = build.load(registers.homes[slot])
            kept = stored(value.type)
            if kept is not value.type:
                value = (build.zext if value.type == I1 else build.bitcast)(value, kept)
            build.store(value, self.at(self.offsets[slot]), align=ALIGN)

    def restore(self, live: Iterable[int]) -> None:
        build, registers = self.build, self.registers
        for slot in sorted(set(live) - registers.kept):
            home = registers.homes[slot]
            own = home.allocated_type
            value = build.load(self.at(self.offsets[slot]), typ=stored(own), align=ALIGN)
            if stored(own) is not own:
                value = (build.trunc if own == I1 else build.bitcast)(value, own)
            build.store(value, home)

    def keep(self, slots: Iterable[int]) -> None:
        """Let registers live in the state all the time, so that barriers need not save them."""
        for slot in slots:
            self.registers.keep(slot, self.at(self.offsets[slot]))

    def at(self, offset: int) -> ir.Value:
        """Return the address of a byte offset in the state."""
        return self.build.gep(self.pointer, [I64(offset)], source_etype=ir.IntType(8))
