"""Values with a constant stride across the lanes, stored as the first lane of each row.

Addresses of such values need not be checked lane by lane. :mod:`.affine.analysis` finds the
registers that may be affine. A flag that is stored with a register's start says if it is affine
*now*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from llvmlite import ir

from virtualgpu.native.affine.analysis import THREAD, AffineAnalysis
from virtualgpu.native.context import LANES
from virtualgpu.native.data import converted, parameters
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.operands import U32, LoweredRegisters
from virtualgpu.native.values import I1, I32, IOTA, alike, constant_vector, pointer_to, splat, zero
from virtualgpu.operations.expression import Value, adapt, llvm_type
from virtualgpu.operations.types import UNSIGNED, kind
from virtualgpu.program.steps import Data, MemoryAccess, Move, Parameter, Step
from virtualgpu.ptx import Register
from virtualgpu.ptx.module import Operand

DEEPEST = 64  # deepest nesting of terms


@dataclass(slots=True)
class Built:
    """First lane of each row, its type, and the condition that the others follow from it."""

    start: Value
    dtype: np.dtype
    flags: tuple[ir.Value, ...] = ()


@dataclass(eq=False)
class Term:
    """Value with a constant stride, built once when it is needed.

    ``depth`` is the number of values that have to be built before it.
    """

    stride: int
    make: Callable[[], Built]
    depth: int = 0

    @cached_property
    def built(self) -> Built:
        return self.make()


@dataclass(slots=True)
class Terms:
    """Affine values of a place.

    They are the addresses of loads and stores and the results of steps, by the steps' ``id``, and
    the registers at the end of the place.
    """

    bases: dict[int, Term]
    results: dict[int, Term]
    registers: dict[int, Term]


class AffineRegisters(AffineAnalysis):
    """Starts and flags of affine registers, and the affine values that depend on them."""

    def __init__(self, registers: LoweredRegisters, places: list[Place], steps: list[list[Step]]):
        super().__init__(registers.program, registers.varying, places, steps)
        self.registers, self.build = registers, registers.build
        self.rows = None if self.row_length == LANES else LANES // self.row_length
        self.homes: dict[int, tuple[ir.Value, ir.Value]] = {}
        crossing = frozenset().union(*(place.live_in for place in places))
        self.kept = sorted(crossing & self.strides.keys())
        self.entries: dict[int, Built] = {}  # register values at the beginning of the place

    # -- homes ---------------------------------------------------------------------------------

    def begin(self, memory: Callable[[int], ir.Value], waiting: frozenset[int]) -> None:
        """Give each register that lives across places a home for its start and flag.

        The home is on the stack, or in ``memory`` that outlasts the function for registers that
        live across ``waiting``.
        """
        for slot in self.kept:
            start = llvm_type(kind(self.registers.program.dtypes[slot]), self.rows)
            if slot in waiting:
                self.homes[slot] = memory(32), memory(1)
            else:
                self.homes[slot] = self.build.alloca(start), self.build.alloca(ir.IntType(8))
                self.build.store(
                    zero(kind(self.registers.program.dtypes[slot]), self.rows), self.homes[slot][0]
                )
                self.forget([slot])
        self.waiting = [slot for slot in self.kept if slot in waiting]

    def forget(self, slots: list[int]) -> None:
        for slot in slots:
            self.build.store(ir.IntType(8)(0), self.homes[slot][1])

    def remember(self, slot: int, built: Built, full: ir.Value) -> None:
        """Mark a register as affine from here on if it was written by a ``full`` warp."""
        build, dtype = self.build, self.registers.program.dtypes[slot]
        build.store(adapt(built.start, built.dtype, dtype).node, self.homes[slot][0], align=8)
        for flag in built.flags:
            full = build.and_(full, flag)
        build.store(build.zext(full, ir.IntType(8)), self.homes[slot][1])

    def load(self, slot: int) -> Built:
        """Return the stored start and flag of a register."""
        build, (start, flag) = self.build, self.homes[slot]
        dtype = self.registers.program.dtypes[slot]
        node = build.load(start, typ=llvm_type(kind(dtype), self.rows), align=8)
        affine = build.trunc(build.load(flag, typ=ir.IntType(8)), I1)
        return Built(Value(build, node, kind(dtype)), dtype, (affine,))

    def look(self, slot: int, full: ir.Value) -> None:
        """Check at run time if the lanes of a written register are affine.

        It is called for registers about which the analysis knows nothing.
        """
        build, dtype = self.build, self.registers.program.dtypes[slot]
        value = adapt(*self.registers.read(slot), dtype)
        if value.lanes is None:
            value = Value(build, splat(build, value.node), value.kind)
        starts = self.starts(value)
        heads = constant_vector(IOTA // self.row_length * self.row_length)
        node = build.shuffle_vector(value.node, ir.Constant(value.node.type, ir.Undefined), heads)
        self.remember(slot, Built(starts, dtype, (alike(build, value.node, node),)), full)

    def starts(self, value: Value) -> Value:
        """Return the first lane of each row."""
        build, node = self.build, value.node
        if self.rows is None:
            return Value(build, build.extract_element(node, I32(0)), value.kind)
        order = constant_vector(range(0, LANES, self.row_length))
        undefined = ir.Constant(node.type, ir.Undefined)
        return Value(build, build.shuffle_vector(node, undefined, order), value.kind)

    def whole(self, start: Value, stride: int) -> Value:
        """Return all lanes, computed from the first lane of each row.

        The result is one number if all lanes have the same.
        """
        build = self.build
        if self.rows is None and not stride:
            return start
        if self.rows is None:
            node = splat(build, start.node)
        else:
            node = build.shuffle_vector(
                start.node,
                ir.Constant(start.node.type, ir.Undefined),
                constant_vector(IOTA // self.row_length),
            )
        if stride:
            steps = constant_vector(stride * (IOTA % self.row_length), int(start.kind[1:]))
            node = build.add(node, steps)
        return Value(build, node, start.kind)

    # -- a place -------------------------------------------------------------------------------

    def terms(self, place: Place, steps: list[Step]) -> Terms:
        """Return the affine values of a place, as far as they are known at compile time."""
        self.entries = {}
        known: dict[int | str, Term | None] = {}
        bases: dict[int, Term] = {}
        results: dict[int, Term] = {}
        for step in steps:
            if isinstance(step, MemoryAccess) and step.site.kind in ("load", "store"):
                term = self._term(place, step.sources[0], known)
                if term is not None and (
                    self.slot(place, step.sources[0]) in self.registers.varying
                ):
                    bases[id(step)] = term
            made = self._result(place, step, known)
            if made is not None and len(step.writes) == 1:
                results[id(step)] = made
            for slot in step.writes:
                known[slot] = made
        return Terms(
            bases,
            results,
            {
                slot: term
                for slot, term in known.items()
                if term is not None and isinstance(slot, int)
            },
        )

    def _result(self, place: Place, step: Step, known: dict[int | str, Term | None]) -> Term | None:
        if not step.writes:
            return None
        if isinstance(step, Parameter):
            if len(step.targets) != 1:
                return None
            return Term(0, lambda: self._parameter(step))
        terms = [self._term(place, source, known) for source in step.sources]
        given = [term for term in terms if term is not None]
        data = isinstance(step, Data | Move) or step.instruction.opcode == "cvta"
        if not data or len(given) < len(terms):
            return None
        found = self.rule(step, [term.stride for term in given])
        if found is None:
            return None
        depth = 1 + max((term.depth for term in given), default=0)
        term = Term(found[0], lambda: self._built(step, given, found[1]), depth % DEEPEST)
        if depth == DEEPEST:
            _ = term.built
        return term

    def _parameter(self, step: Parameter) -> Built:
        value, dtype = next(parameters(self.registers, step))
        return Built(self._spread(value), dtype)

    def _built(self, step: Step, terms: list[Term], check: str) -> Built:
        wants = (
            step.operation.sources
            if isinstance(step, Data)
            else [step.dtype if isinstance(step, Move) else UNSIGNED[8]]
        )
        starts = [
            adapt(term.built.start, term.built.dtype, want)
            for term, want in zip(terms, wants, strict=True)
        ]
        if isinstance(step, Data):
            operation = step.operation
            assert operation.body is not None  # else the kernel would have been refused
            result, dtype = operation.body(*starts), operation.destinations[0]
            assert isinstance(result, Value)
        elif isinstance(step, Move):
            result, dtype = starts[0], step.dtype
        else:
            result, dtype = converted(step, starts[0]), UNSIGNED[8]
        flags = dict.fromkeys(flag for term in terms for flag in term.built.flags)
        if check in ("extends", "sign"):
            last = starts[0] + terms[0].stride * (self.row_length - 1)
            if check == "extends" and starts[0].kind[0] == "u":
                good = last >= starts[0] if terms[0].stride > 0 else last <= starts[0]
            else:
                signed = f"s{wants[0].itemsize * 8}"
                good = (starts[0].view(signed) ^ last.view(signed)) >= 0
            flags[self.every(good)] = None
        elif check:
            flags[self.every(starts[2] if check == "yes" else ~starts[2])] = None
        return Built(result, dtype, tuple(flags))

    def every(self, good: Value) -> ir.Value:
        """Return the condition that ``good`` holds for all rows."""
        if good.lanes is None:
            return good.node
        bits = self.build.bitcast(good.node, ir.IntType(good.lanes))
        return self.build.icmp_unsigned("==", bits, bits.type((1 << good.lanes) - 1))

    def _term(
        self, place: Place, operand: Operand, known: dict[int | str, Term | None]
    ) -> Term | None:
        slot, stride = self.slot(place, operand), self.stride(place, operand)
        if isinstance(operand, Register) and operand.name.startswith("!"):
            return None
        name = slot if slot is not None else getattr(operand, "name", None)
        if name is not None and name in known:
            return known[name]
        if stride is None or (
            slot is not None and slot in self.registers.varying and slot not in self.homes
        ):
            return None
        term = Term(stride, lambda: self._entry(operand, slot))
        if name is not None:
            known[name] = term
        return term

    def _entry(self, operand: Operand, slot: int | None) -> Built:
        """Return a register or number as it is at the start of the place."""
        build, registers = self.build, self.registers
        if slot is not None and slot in self.homes:
            if slot not in self.entries:
                self.entries[slot] = self.load(slot)
            return self.entries[slot]
        if slot is not None:
            value, dtype = registers.read(slot)
            return Built(self._spread(value), dtype)
        if isinstance(operand, Register) and operand.name in THREAD:
            return Built(
                self._thread(operand.name),
                U32,
                (build.icmp_unsigned("!=", registers.context.load("in_rows"), ir.IntType(64)(0)),),
            )
        if isinstance(operand, Register):
            value = registers.get(operand, U32)
            value = value if value.lanes is None else self.starts(value)
            return Built(self._spread(value), U32)
        # A float literal has the size in which it is written; everything else fits 64 bits.
        wide = UNSIGNED[4 if getattr(operand, "type", None) == "f32" else 8]
        return Built(self._spread(registers.get(operand, wide)), wide)

    def _thread(self, name: str) -> Value:
        build, context = self.build, self.registers.context
        table = context.load(f"tid_{name[-1]}")
        at = build.add(table, build.shl(context.load("warp"), ir.IntType(64)(7)))
        if self.rows is None:
            return Value(build, build.load(pointer_to(build, at), typ=I32), "u32")
        node = ir.Constant(llvm_type("u32", self.rows), ir.Undefined)
        for row in range(self.rows):
            place = pointer_to(build, build.add(at, ir.IntType(64)(4 * row * self.row_length)))
            node = build.insert_element(node, build.load(place, typ=I32), I32(row))
        return Value(build, node, "u32")

    def _spread(self, value: Value) -> Value:
        if self.rows is None or value.lanes is not None:
            return value
        return Value(self.build, splat(self.build, value.node, self.rows), value.kind)
