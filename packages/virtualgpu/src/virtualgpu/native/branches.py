"""Branches of a warp: the targets of its lanes, and the lanes that run next.

When lanes diverge, the lanes at the higher place wait until the lower ones have arrived there or
have ended. The waiting lanes are the bits of a mask that belongs to that place. The masks that can
be non-zero at a place are known at compile time (:mod:`.control_flow`) or determined at run time
(:mod:`.divergence`).
"""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.compilers.building import intrinsic
from virtualgpu.native import intrinsics, privatisation
from virtualgpu.native.affine.first_lanes import FirstLanes
from virtualgpu.native.context import ADDRESSES, AT_BARRIER, LANES, STOPPED, TICK, VALUES
from virtualgpu.native.counting import Counting
from virtualgpu.native.divergence import ParkedLanes
from virtualgpu.native.flow import control_flow
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.flow.decode import IntrinsicCall
from virtualgpu.native.flow.livelock import Head
from virtualgpu.native.state import State
from virtualgpu.native.values import (
    I32,
    I64,
    POINTER,
    bits_of_mask,
    pointer_to,
    spread,
)
from virtualgpu.native.warp_function import WarpFunction
from virtualgpu.operations.expression import Value
from virtualgpu.operations.types import kind
from virtualgpu.ptx import Register


class Branches:
    """Code generator for the end of each place of a kernel.

    Attributes
    ----------
    loop_heads, loop_state_bytes
        Loops whose deciding registers are shown, and the largest size of these registers.
    counts_clock : bool
        True if an instruction reads the clock.
    keeps_sums : bool
        True if cores may keep private sums (:mod:`.privatisation`).
    """

    def __init__(
        self,
        warp: WarpFunction,
        parked: ParkedLanes | None,
        state: State,
        first_lanes: FirstLanes | None,
        loop_heads: dict[int, Head],
        counting: Counting | None,
        counts_clock: bool,
    ):
        self.warp, self.build, self.registers = warp, warp.build, warp.registers
        self.parked, self.state, self.first_lanes = parked, state, first_lanes
        self.loop_heads, self.loop_state_bytes = loop_heads, 0
        self.counting, self.counts_clock, self.keeps_sums = counting, counts_clock, False

    def stop(self, number: int, mask: ir.Value, why: Value | None = None) -> ir.Block:
        """Return a block that stops the kernel at site ``number``.

        A place has the number -1 - index. ``why`` is the index or address for which there is no
        target.
        """
        block = self.build.append_basic_block("stop")
        with self.build.goto_block(block):
            if why is not None:
                self.build.store(
                    spread(why.to("u64")).node, self.warp.context.at(ADDRESSES), align=8
                )
            self.warp.context.store("fault", I64(number))
            self.warp.context.store("fault_mask", self.build.zext(mask, I64))
            self.build.ret(I32(STOPPED))
        return block

    def guard(
        self, place: Place, guard: tuple[int, bool], mask: ir.Value, pending: int
    ) -> ir.Value:
        """Send lanes whose predicate is false past the block; return the mask of the others."""
        build, after = self.build, place.after
        slot, negated = guard
        predicate = self.registers.read(slot)[0]
        if negated:
            predicate = ~predicate
        onward = self.build.append_basic_block("guarded")
        skip = self.build.append_basic_block("skip")
        if predicate.lanes is None:
            build.cbranch(predicate.node, onward, skip)
            build.position_at_end(skip)
            self._go(place, after, mask, pending)
            build.position_at_end(onward)
            return mask
        here = build.and_(bits_of_mask(build, predicate.node), mask)
        others = build.and_(mask, build.not_(here))
        if after not in self.warp.ending:
            self._wait(after, others)
        elif self.warp.marks is not None:
            self.warp.marks.ended(after, others)
        build.cbranch(build.icmp_unsigned("!=", here, I32(0)), onward, skip)
        build.position_at_end(skip)
        self._rest(pending)
        build.position_at_end(onward)
        return here

    def executed(self, place: Place, lanes: ir.Value) -> None:
        """Count the execution of a basic block, if it is counted."""
        if self.counting is not None:
            self.counting.executed(place, lanes)
        if self.counts_clock:
            spent = I64(len(place.block.instructions))
            self.warp.context.store("clock", self.build.add(self.warp.context.load("clock"), spent))

    def leave(self, place: Place, mask: ir.Value, taken: Value | None, pending: int) -> None:
        build, kind = self.build, place.block.kind
        if kind == "exit":
            self._rest(pending)
        elif kind == "trap":
            build.branch(self.stop(-1 - place.index, mask))
        elif kind == "barrier" and self.parked is not None:
            self.parked.arrive(place, mask)
        elif kind == "barrier":
            self.state.save(
                self.warp.barriers.index(place) + 1, mask, self.warp.places[place.after].live_in
            )
            build.ret(I32(AT_BARRIER))
        elif kind == "branch" and taken is not None:
            self._branch(place, mask, taken, pending)
        elif taken is not None:
            self._choose(place, mask, taken, pending)
        else:
            self._go(place, place.after if kind == "next" else place.target, mask, pending)

    def _branch(self, place: Place, mask: ir.Value, taken: Value, pending: int) -> None:
        build = self.build
        yes, no = (self.build.append_basic_block(name) for name in ("yes", "no"))
        if taken.lanes is None or place.target == place.after:
            if taken.lanes is not None:
                build.branch(yes)
            else:
                build.cbranch(taken.node, yes, no)
        else:
            go = build.and_(bits_of_mask(build, taken.node), mask)
            stay = build.and_(mask, build.not_(go))
            some, parted = (self.build.append_basic_block(name) for name in ("some", "parted"))
            build.cbranch(build.icmp_unsigned("==", go, I32(0)), no, some)
            build.position_at_end(some)
            build.cbranch(build.icmp_unsigned("==", stay, I32(0)), yes, parted)
            build.position_at_end(parted)
            self._went(place, True)
            self._went(place, False)
            self._part(
                place,
                sorted([(place.target, go), (place.after, stay)], key=lambda way: way[0]),
                pending,
            )
        build.position_at_end(yes)
        self._went(place, True)
        self._go(place, place.target, mask, pending)
        build.position_at_end(no)
        self._went(place, False)
        self._go(place, place.after, mask, pending)

    def _went(self, place: Place, taken: bool) -> None:
        """Mark the direction of a branch that lanes took, in programs whose lines are measured."""
        if self.warp.marks is not None:
            self.warp.marks.went(place, taken)

    def _choose(self, place: Place, mask: ir.Value, taken: Value, pending: int) -> None:
        """Branch to the entry of a table, or to the function at an address."""
        build, program, block = self.build, self.warp.program, place.block
        if block.kind == "indexed":
            keys = list(range(len(block.targets)))
        else:
            keys = [
                program.module.address(code.function.name)
                for code in control_flow.callees(program, block)
            ]
        bits = int(taken.kind[1:])
        if taken.lanes is None:
            nowhere = self.stop(-1 - place.index, mask, taken)
            switch = build.switch(taken.node, nowhere)
            for key, target in zip(keys, place.targets, strict=True):
                way = self.build.append_basic_block("way")
                switch.add_case(ir.Constant(ir.IntType(bits), key), way)
                build.position_at_end(way)
                self._go(place, target, mask, pending)
            return
        ways: dict[int, ir.Value] = {}
        left = mask
        for key, target in zip(keys, place.targets, strict=True):
            same = build.and_(bits_of_mask(build, (taken == key).node), mask)
            ways[target] = build.or_(ways[target], same) if target in ways else same
            left = build.and_(left, build.not_(same))
        onward = self.build.append_basic_block("ways")
        build.cbranch(
            build.icmp_unsigned("==", left, I32(0)),
            onward,
            self.stop(-1 - place.index, mask, taken),
        )
        build.position_at_end(onward)
        if self.warp.marks is not None:
            for target in ways.keys() & self.warp.ending:
                self.warp.marks.ended(target, ways[target])
        ways = {target: lanes for target, lanes in ways.items() if target not in self.warp.ending}
        first, *others = sorted(ways) or [-1]
        if any(target <= place.index for target in place.targets):
            self._tick(place, mask)
        for target in others:
            self._wait(target, ways[target])
            pending |= 1 << target
        if ways:
            some, none = (self.build.append_basic_block(name) for name in ("some", "none"))
            build.cbranch(build.icmp_unsigned("!=", ways[first], I32(0)), some, none)
            build.position_at_end(some)
            self._go(place, first, ways[first], pending)
            build.position_at_end(none)
        self._rest(pending)

    def _part(self, place: Place, ways: list[tuple[int, ir.Value]], pending: int) -> None:
        """Send lanes to different targets: those with the lowest run at once, the others wait."""
        if self.warp.marks is not None:
            for target, _ in ways:
                if target in self.warp.ending:
                    self.warp.marks.ended(target)
        ways = [way for way in ways if way[0] not in self.warp.ending]
        for target, lanes in ways[1:]:
            self._wait(target, lanes)
            pending |= 1 << target
        if ways:
            self._go(place, *ways[0], pending)
        else:
            self._rest(pending)

    def _go(self, place: Place, target: int, mask: ir.Value, pending: int) -> None:
        """Send the lanes in ``mask`` to ``target``; others may wait at places in ``pending``."""
        build = self.build
        if target in self.warp.ending:
            if self.warp.marks is not None:
                self.warp.marks.ended(target)
            self._rest(pending)
            return
        if target <= place.index:
            self._tick(place, mask, target)
        if self.parked is not None:
            self._go_apart(place, target, mask)
            return
        lower = [other for other in control_flow.members(pending) if other < target]
        if lower:
            self._wait(target, mask)
            build.branch(self.warp.checks[lower[0]])
            return
        if pending >> target & 1:
            word = self.warp.waiting_lanes[target]
            mask = build.or_(mask, build.load(word))
            build.store(I32(0), word)
        build.store(mask, self.warp.mask)
        build.branch(self.warp.entries[target])

    def _go_apart(self, place: Place, target: int, mask: ir.Value) -> None:
        """Branch as :meth:`_go` does, where the waiting lanes are known only at run time."""
        build = self.build
        assert self.parked is not None
        self.parked.tire(place, target, mask)
        if self.warp.waiting[place.index]:
            alone, beside = (self.build.append_basic_block(n) for n in ("alone", "beside"))
            others = build.load(self.parked.others)
            build.cbranch(build.icmp_unsigned("==", others, I32(0)), alone, beside)
            build.position_at_end(beside)
            self._wait(target, mask)
            build.branch(self.warp.checks[self.warp.waiting_places[0]])
            build.position_at_end(alone)
        build.store(mask, self.warp.mask)
        build.branch(self.warp.entries[target])

    def _wait(self, target: int, lanes: ir.Value) -> None:
        """Let lanes wait at a place until no lane is left at a lower one."""
        if self.parked is not None:
            self.parked.move(target, lanes)
            return
        word = self.warp.waiting_lanes[target]
        self.build.store(self.build.or_(self.build.load(word), lanes), word)

    def _rest(self, pending: int) -> None:
        """Continue with the lowest waiting lanes after others have ended; without any, leave."""
        if self.parked is not None and pending:
            first: int | None = self.warp.waiting_places[0]
        else:
            first = next(iter(control_flow.members(pending)), None)
        self.build.branch(self.warp.finish if first is None else self.warp.checks[first])

    def _show(self, target: int, mask: ir.Value) -> None:
        """Store the registers that decide the loop's control flow where the core can read them."""
        head = self.loop_heads.get(target)
        slots = head.slots & set(self.registers.homes) if head else frozenset()
        if self.first_lanes is not None:
            self.first_lanes.settle(set(slots), rarely=True)
        state = State(self.registers, pointer_to(self.build, self.warp.context.load("seen")), slots)
        state.save(target if head else -1, mask, slots)
        self.loop_state_bytes = max(self.loop_state_bytes, state.size)
        if head and not head.registers:
            head.registers.extend(
                (offset, self.warp.program.dtypes[slot], slot in self.registers.varying)
                for slot, offset in state.offsets.items()
            )

    def _tick(self, place: Place, mask: ir.Value, target: int = -1) -> None:
        """Count an iteration of a loop, and after a set number of them ask if time is up."""
        build, context = self.build, self.warp.context
        fuel = build.sub(context.load("fuel"), I64(1))
        context.store("fuel", fuel)
        ask, onward = (self.build.append_basic_block(name) for name in ("ask", "onward"))
        build.cbranch(build.icmp_signed("<", fuel, I64(0)), ask, onward)
        build.position_at_end(ask)
        self._show(target, mask)
        if self.keeps_sums:  # other cores may be waiting for these sums
            intrinsic(build, privatisation.merge.symbol, I64, [context.pointer])
        self._call_back(place, mask, TICK)
        build.branch(onward)
        build.position_at_end(onward)

    def _call_back(self, place: Place, mask: ir.Value, number: int) -> None:
        """Call Python for these lanes, and stop the kernel if the call fails."""
        build, context = self.build, self.warp.context
        context.store("ended", I64(1))
        context.store("fault", I64(-1 - place.index))
        context.store("fault_mask", build.zext(mask, I64))
        callback = ir.FunctionType(ir.VoidType(), [POINTER, I64]).as_pointer()
        # The context is an argument so that LLVM knows that the call may write to it.
        build.call(build.inttoptr(context.load("tick"), callback), [context.pointer, I64(number)])
        done = self.build.append_basic_block("done")
        build.cbranch(
            build.icmp_unsigned("!=", context.load("ended"), I64(0)),
            self.stop(-1 - place.index, mask),
            done,
        )
        build.position_at_end(done)

    def provided(self, place: Place, step: IntrinsicCall, mask: ir.Value) -> None:
        """Call a function that the device provides.

        The lanes' arguments and results are in the context, 64 bits each.
        """
        build, registers, dtypes = self.build, self.registers, self.warp.program.dtypes
        slots = place.block.function.slots
        rows = [self.warp.context.at(VALUES + LANES * i) for i in range(max(len(step.sources), 1))]
        for row, source in zip(rows, step.sources, strict=False):
            assert isinstance(source, Register)
            declared = dtypes[slots[source.name]]
            value = spread(registers.get(source, declared).view(kind(declared)).to("u64"))
            build.store(value.node, row, align=8)
        self._call_back(place, mask, intrinsics.NAMES.index(step.function))
        for slot in step.writes:
            node = build.load(rows[0], typ=ir.VectorType(I64, LANES), align=8)
            registers.write(slot, Value(build, node, "u64").to(kind(dtypes[slot])), dtypes[slot])
