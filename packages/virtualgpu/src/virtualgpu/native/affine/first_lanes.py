"""Affine registers of which full warps store only the first lane of each row.

If a warp is full and its addresses are affine (:mod:`.affine_access`), the values on which the
addresses depend are computed once for each row, or once for the warp. All lanes of such a register
are written out only when an instruction needs them. Until then the register's home is stale, which
a bit of a mask records, and other code writes the lanes out before it begins
(:meth:`FirstLanes.settle`). This matters because two 64-bit registers that count a loop's
iterations would take 16 vectors of AVX2, which has only 16 vector registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from llvmlite import ir

from virtualgpu.compilers.building import function, intrinsic
from virtualgpu.compilers.llvm import linkable
from virtualgpu.native.affine.lines import AffineRegisters, Built, Term
from virtualgpu.native.context import LANES
from virtualgpu.native.operands import HOME_ALIGN
from virtualgpu.native.values import I64, IOTA, POINTER, constant_vector, splat, spread
from virtualgpu.operations.expression import Value, llvm_type
from virtualgpu.program.steps import Step

MOST = 64  # most registers, each with a bit of a word


class FirstLanes:
    """Registers that may be stale, and the code that records which of them are.

    Attributes
    ----------
    bits : dict
        Of each register that may be, its bit in the word.
    """

    def __init__(self, affine: AffineRegisters, memory: Callable[[int], ir.Value]):
        self.affine, self.registers, self.build = affine, affine.registers, affine.build
        dtypes = self.registers.program.dtypes
        slots = [slot for slot in affine.kept if dtypes[slot].kind != "b"][:MOST]
        self.bits = {slot: 1 << number for number, slot in enumerate(slots)}
        self.word = memory(8) if affine.waiting else self.build.alloca(I64)
        if not affine.waiting:
            self.reset()

    def reset(self) -> None:
        """Mark every register as not stale."""
        if self.bits:
            self.build.store(I64(0), self.word)

    def settle(self, slots: set[int], rarely: bool = False) -> None:
        """Write out those of the registers that are stale.

        If they are stale only ``rarely``, a function that all kernels share does it.
        """
        build, known = self.build, sorted(slots & self.bits.keys())
        if not known:
            return
        here, affine = sum(self.bits[slot] for slot in known), self.affine
        some = build.icmp_unsigned("!=", build.and_(self._load(), I64(here)), I64(0))
        with build.if_then(some, likely=False):
            for slot in known:
                if not rarely:
                    self.registers.put_home(slot, self._value(slot).node)
                    continue
                start, home = affine.load(slot).start, self.registers.homes[slot]
                stale = build.and_(self._load(), I64(self.bits[slot]))
                intrinsic(
                    build,
                    write_out(start.kind, affine.rows),
                    I64,
                    [build.bitcast(home, POINTER), start.node, I64(affine.strides[slot]), stale],
                )
            build.store(build.and_(self._load(), I64(~here)), self.word)

    def _load(self) -> ir.Value:
        return self.build.load(self.word, typ=I64)

    def _value(self, slot: int) -> Value:
        """Return all lanes of a register that may be stale."""
        build, affine = self.build, self.affine
        fresh = spread(affine.whole(affine.load(slot).start, affine.strides[slot]))
        stale = build.icmp_unsigned("!=", build.and_(self._load(), I64(self.bits[slot])), I64(0))
        return Value(
            build, build.select(stale, fresh.node, self.registers.at_home(slot)), fresh.kind
        )

    # -- the code of full warps ------------------------------------------------------------------

    def begin(self, slots: frozenset[int], known: dict[ir.Value, None]) -> None:
        """Begin a place in which the flags ``known`` are true.

        All lanes of a register that is affine because of them, or stale, are written out only
        where ``slots`` are read.
        """
        affine, self.known = self.affine, known
        for slot in sorted(slots & affine.homes.keys()):
            built = affine.entries.get(slot)
            if built is not None and self._follows(built):
                self._later(slot, built, affine.strides[slot])
            elif slot in self.bits:
                self.registers.later[slot] = partial(self._now, slot)

    def _now(self, slot: int) -> tuple[Value, np.dtype]:
        return self._value(slot), self.registers.program.dtypes[slot]

    def _follows(self, built: Built) -> bool:
        """Return True if a value is known to be affine here without a check of its lanes."""
        return all(flag in self.known for flag in built.flags)

    def result(self, step: Step, term: Term | None) -> bool:
        """Return True if a step's result is affine here.

        Its lanes are then written out only if they are read.
        """
        if term is None or not self._follows(term.built):
            return False
        (slot,) = step.writes
        if slot not in self.registers.varying:
            return False
        self._later(slot, term.built, term.stride)
        self.registers.written.add(slot)
        return True

    def _later(self, slot: int, built: Built, stride: int) -> None:
        self.registers.later[slot] = lambda: (self.affine.whole(built.start, stride), built.dtype)
        self.registers.current.pop(slot, None)

    def leave(self, after: dict[int, Built]) -> None:
        """End the place, and store the registers that are affine ``after`` it."""
        build, stale, written = self.build, 0, 0
        for slot in sorted(self.registers.written & self.bits.keys()):
            written |= self.bits[slot]
            if slot in after and self._follows(after[slot]):
                stale |= self.bits[slot]
                self.registers.written.discard(slot)
        if written:
            others = build.and_(self._load(), I64(~written))
            build.store(build.or_(others, I64(stale)), self.word)


@cache
def write_out(kind: str, rows: int | None) -> str:
    """Return the function that writes out all lanes of a register that is ``stale``.

    Its arguments are ``(home, start, stride, stale)``. It computes the lanes from the first lane
    of each row, and does nothing for a register that is not stale. Returns None if the warp is one
    row.
    """
    name = f"native_write_out_{kind}_{rows}"
    build, (home, start, stride, stale) = function(name, [POINTER, llvm_type(kind, rows), I64, I64])
    with build.if_then(build.icmp_unsigned("!=", stale, I64(0))):
        if rows is None:
            node = splat(build, start)
        else:
            node = build.shuffle_vector(
                start,
                ir.Constant(start.type, ir.Undefined),
                constant_vector(IOTA // (LANES // rows)),
            )
        if kind[0] != "f":  # the stride of a float is 0
            bits = int(kind[1:])
            step = stride if bits == 64 else build.trunc(stride, ir.IntType(bits))
            numbers = constant_vector(IOTA % (LANES // (rows or 1)), bits)
            node = build.add(node, build.mul(splat(build, step), numbers))
        build.store(node, home, align=HOME_ALIGN)
    build.ret(I64(0))
    return linkable(str(build.module), name, "few")
