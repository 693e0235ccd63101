"""Code generator for native kernels under ``check()``: calls at each access and barrier.

The kernel looks for anything that the checkers might find. If it suspects something, it stops, its
stores are undone, and the interpreter runs the blocks and reports the threads and lines. So every
report comes from the interpreter, and a false suspicion costs only time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.native import warp_operations
from virtualgpu.native.context import site_at
from virtualgpu.native.divergence import barrier_of
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.operands import BOOL, U64, LoweredRegisters
from virtualgpu.native.refusal import Refused
from virtualgpu.native.values import (
    EVERYONE,
    I64,
    Context,
    bits_of_mask,
    splat,
    spread,
    together,
)
from virtualgpu.native.watched import accesses, clock, neighbours
from virtualgpu.native.watched.granules import Kind
from virtualgpu.native.watched.rules import LARGEST, Grain
from virtualgpu.operations.expression import Value
from virtualgpu.program.comparison import Comparison
from virtualgpu.program.mixed_atomics import mixes_sizes
from virtualgpu.program.program import Program
from virtualgpu.program.steps import Exact, MemoryAccess, Step
from virtualgpu.program.volatile_uses import volatile_uses
from virtualgpu.ptx import Immediate, Instruction
from virtualgpu.ptx.opcodes import FENCES, waits_for_warp

ORDERS = {"acquire", "release", "acq_rel", "sc"}
# Effects other than stores, which the second run after an undone one would repeat.
ALOUD = {"vprintf", "malloc", "free"}


def grain_of(program: Program, steps: list[list[Step]]) -> Grain:
    """Return the granularity at which a kernel's memory is watched.

    Raises Refused if anything other than barriers of whole blocks and warps orders accesses.
    """
    if mixes_sizes(program):
        raise Refused("atomics of several sizes, under check()")
    sizes: dict[str, int] = dict.fromkeys(("global", "shared", "local"), 1 << LARGEST)
    strong = warps = False
    for step in (step for some in steps for step in some):
        _demand(step.instruction)
        warps |= _is_warp_barrier(step.instruction)
        if not isinstance(step, MemoryAccess):
            continue
        site = step.site
        if site.order not in ("", "relaxed") or (site.scope == "cta" and site.space != "shared"):
            raise Refused("order by acquire and release, under check()")
        strong |= site.strong
        if site.kind == "load":
            continue  # granules of the smallest store's size are small enough for loads
        for space in sizes if site.space == "generic" else (site.space,):
            sizes[space] = min(sizes[space], site.size)
    shifts = {space: size.bit_length() - 1 for space, size in sizes.items()}
    return Grain(shifts["global"], shifts["shared"], shifts["local"], strong, warps)


def _demand(instruction: Instruction) -> None:
    if instruction.opcode in FENCES or ORDERS & set(instruction.modifiers):
        raise Refused("order by fences, under check()")
    names = {getattr(operand, "name", "") for operand in instruction.operands}
    if instruction.opcode == "call" and names & ALOUD:
        raise Refused("effects that cannot be undone, under check()")
    if waits_for_warp(instruction):
        mask = instruction.operands[-1]
        if not isinstance(mask, Immediate) or ~mask.value & 0xFFFF_FFFF:
            raise Refused("warp operations for only some lanes, under check()")


def _is_warp_barrier(instruction: Instruction) -> bool:
    return instruction.opcode in ("bar", "barrier") and "warp" in instruction.modifiers


class WatchEmitter:
    """Code generator for the watched accesses of one kernel.

    ``stop(number, mask)`` returns the block to jump to if something may be wrong.
    """

    def __init__(
        self,
        program: Program,
        context: Context,
        steps: list[list[Step]],
        barriers: list[Place],
        stop: Callable[[int, ir.Value], ir.Block],
    ):
        self.context, self.build, self.stop = context, context.build, stop
        self.grain = grain_of(program, steps)
        self.volatile = volatile_uses(program)
        self.debug = program.module.debug
        if not all(barrier_of(steps[place.index]).plain for place in barriers):
            raise Refused("barriers of some threads, under check()")

    def _ask(self, number: int, mask: ir.Value, name: str, more: list[ir.Value]) -> None:
        """Call a function, and leave the kernel if it suspects something."""
        answer = intrinsic(self.build, name, I64, [self.context.pointer, *more])
        self._leave_if(number, mask, answer)

    def _leave_if(self, number: int, mask: ir.Value, wrong: ir.Value) -> None:
        build = self.build
        onward = build.append_basic_block()
        build.cbranch(
            build.icmp_unsigned("!=", wrong, wrong.type(0)), self.stop(number, mask), onward
        )
        build.position_at_end(onward)

    def _kind(self, step: MemoryAccess) -> Kind | None:
        site = step.site
        if site.space == "local" and (site.quiet or self.debug):
            return None
        strong = site.strong and not self._is_volatile_data(step)
        return Kind(site.kind, strong, site.size, site.space, self.grain)

    def _is_volatile_data(self, step: MemoryAccess) -> bool:
        """Return True if the access counts as plain, so that the race detector examines it."""
        store = self.volatile.stores.get(id(step.instruction))
        if store is not None:
            return self.volatile.may_differ(store[0])
        return id(step.instruction) in self.volatile.data

    def line(self, step: MemoryAccess, number: int, first: ir.Value) -> None:
        """Check an access of a full warp to neighbouring elements of one variable.

        The elements begin at ``first``.
        """
        if (kind := self._kind(step)) is not None:
            self._ask(number, EVERYONE, neighbours.line(kind), [I64(number), first])

    def same(self, step: MemoryAccess, number: int, mask: ir.Value, address: ir.Value) -> None:
        """Check an access in which all lanes of ``mask`` use one address."""
        if (kind := self._kind(step)) is not None:
            self._ask(number, mask, accesses.same(kind), [I64(number), address, mask])

    def has_rows(self, step: MemoryAccess) -> bool:
        """Return True if rows of lanes are checked together."""
        space, kind = step.site.space, self._kind(step)
        return (
            space in ("global", "shared")
            and kind is not None
            and (kind.size == 1 << self.grain.of(space))
        )

    def rows(self, run: list[MemoryAccess], number: int, bases: list[ir.Value]) -> None:
        """Check rows of eight lanes that access neighbouring elements.

        They start at each of the addresses ``bases`` plus the offset of each access of ``run``.
        """
        kind, offsets = self._kind(run[0]), sorted({step.site.offset for step in run})
        assert kind is not None
        apart = {later - offset for offset, later in pairwise(offsets)}
        groups = [offsets] if len(apart) == 1 else [[offset] for offset in offsets]
        for group in groups:
            more = [I64(len(group)), I64(max(apart, default=0))]
            self._rows(neighbours.rows(kind), number, bases, group[0], more)

    def same_rows(self, run: list[MemoryAccess], number: int, bases: list[ir.Value]) -> None:
        """Check accesses in which each eight lanes use one address, at each offset of ``run``."""
        kind, left = self._kind(run[0]), sorted({step.site.offset for step in run})
        assert kind is not None
        while left:
            count = 1
            while left[2 * count - 1 : 2 * count] == [left[0] + (2 * count - 1) * kind.size]:
                count *= 2
            self._rows(neighbours.same_rows(kind, count), number, bases, left[0], [])
            left = left[count:]

    def _rows(
        self, name: str, number: int, bases: list[ir.Value], offset: int, more: list[ir.Value]
    ) -> None:
        addresses = [self.build.add(base, I64(offset)) for base in bases]
        self._ask(number, EVERYONE, name, [I64(number), *addresses, *more])

    def apart(self, step: MemoryAccess, number: int, mask: ir.Value) -> None:
        """Check an access of lanes to the addresses that are in the context."""
        if (kind := self._kind(step)) is not None:
            self._ask(
                number,
                mask,
                accesses.apart(kind),
                [I64(number), mask, self.context.at(site_at(number))],
            )

    def _exact(
        self, comparison: Comparison, number: int, mask: ir.Value, registers: LoweredRegisters
    ) -> None:
        """Compare an index with its exact value."""
        dtype = U64 if comparison.is_address else BOOL
        wrapped, exact = together(
            [registers.get(one, dtype) for one in (comparison.wrapped, comparison.exact)]
        )
        differ = self.build.and_(self._bits(wrapped != exact), mask)
        if comparison.where is not None:
            register, negated = comparison.where
            holds = self._bits(registers.get(register, BOOL))
            differ = self.build.and_(differ, self.build.not_(holds) if negated else holds)
        self._leave_if(number, mask, differ)

    def _bits(self, predicate: Value) -> ir.Value:
        """Return a word with a bit for each lane where a predicate holds."""
        return bits_of_mask(self.build, spread(predicate).node)

    def step(self, place: Place, step: Step, mask: ir.Value, registers: LoweredRegisters) -> None:
        """Check an instruction that is not an access."""
        instruction, number = step.instruction, -1 - place.index
        if _is_warp_barrier(instruction):
            self._ask(number, mask, clock.warp_meets.symbol, [])
        if isinstance(step, Exact):
            self._exact(step.comparison, number, mask, registers)
        if instruction.opcode == "shfl" and {"idx", "bfly"} & set(instruction.modifiers):
            source, _ = warp_operations.sources(registers, step)
            here = Value(self.build, splat(self.build, mask), "u32")
            nothing = bits_of_mask(self.build, ((here >> source.view("u32")) & 1 == 0).node)
            self._leave_if(number, mask, self.build.and_(nothing, mask))
