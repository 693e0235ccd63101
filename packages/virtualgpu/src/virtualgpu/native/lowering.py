"""Code generator for the LLVM function that runs a warp: 32 lanes under a mask.

The code of a place runs under the word ``mask``, bit ``i`` for lane ``i``. When lanes diverge, the
lanes at the higher place wait in that place's own mask until the lower ones have arrived there or
have ended, which is the order of the interpreter. The masks that can be non-zero at each place are
known at compile time (:mod:`.control_flow`), so a kernel whose branches are uniform has none, and
one with a short ``if`` has one.

The function takes the context and the warp's state. It returns DONE, AT_BARRIER (the live
registers are in the state) or STOPPED (the context says where).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from virtualgpu.native import data, divergence, privatisation
from virtualgpu.native.affine.first_lanes import FirstLanes
from virtualgpu.native.affine.lines import AffineRegisters, Term
from virtualgpu.native.affine.uniformity import Uniformity
from virtualgpu.native.branches import Branches
from virtualgpu.native.context import DONE
from virtualgpu.native.counting import Counting
from virtualgpu.native.divergence import ParkedLanes
from virtualgpu.native.flow import block_order, control_flow, livelock, spin_loops
from virtualgpu.native.flow.control_flow import Place, chosen, ends_others
from virtualgpu.native.flow.decode import IntrinsicCall, Stop, decode
from virtualgpu.native.memory.access import Accesses
from virtualgpu.native.operands import BOOL, CLOCKS, U32, U64
from virtualgpu.native.refusal import Refused
from virtualgpu.native.state import State
from virtualgpu.native.values import (
    EVERYONE,
    I1,
    I32,
    mask_of_bits,
)
from virtualgpu.native.warp_function import WarpFunction
from virtualgpu.native.watched.watching import WatchEmitter
from virtualgpu.program.loops import cycles
from virtualgpu.program.program import Program
from virtualgpu.program.steps import MemoryAccess
from virtualgpu.ptx import Register

KINDS = {"next", "goto", "branch", "indexed", "exit", "barrier", "trap", "call", "return"}


class Lowering:
    """Code generator for one kernel's function. Raises Refused if it is not supported.

    Attributes
    ----------
    warp : WarpFunction
        The function, and the numbered places at which it may stop.
    branches : Branches
        Code generator for the end of each place.
    accesses.sites
        The memory instructions, by the numbers that the function reports.
    state.size : int
        Bytes of a warp's state at a barrier; 0 for a kernel without barriers.
    """

    def __init__(self, program: Program, name: str, counts: bool = False, watches: bool = False):
        places = control_flow.places(program)
        self.steps = steps = [decode(program, place) for place in places]
        _check(places)
        loop_heads = livelock.heads(program, places)
        spinning = spin_loops.spinning(places, steps)
        endings = control_flow.endings(places)
        # Uniformity at the end of a basic block only matters if executions are counted.
        timed = any(
            isinstance(source, Register) and source.name in CLOCKS
            for some in steps
            for step in some
            for source in step.sources
        )
        ending: set[int] = set() if counts or timed else endings
        self.counted_out = endings - ending
        self.uniformity = Uniformity(program, places, steps, ending)
        companions = self._companions(places)
        parts = divergence.needed(places, companions, steps, self.uniformity.varying, spinning)
        if parts and (counts or watches):
            raise Refused("lanes that wait for others, under check()")
        if parts:
            self.uniformity = Uniformity(program, places, steps, ending, apart=True)
        self.warp = warp = WarpFunction(name, program, places, steps, self.uniformity, parts)
        self.build, self.registers = warp.build, warp.registers
        self.parked = ParkedLanes(warp, spinning) if parts else None
        warp.add_blocks(self.parked.places() - ending if self.parked else set())
        live = frozenset().union(*(places[b.after].live_in for b in warp.barriers))
        if self.parked is None:
            self.state = State(self.registers, warp.function.args[1], live)
            self.state.keep(live - self._busy())
            with self.build.goto_block(warp.finish):
                self.build.ret(I32(DONE))
        else:
            self.state = self.parked.state
        plain = not (parts or counts or watches)
        self.affine = AffineRegisters(self.registers, places, steps) if plain else None
        self.first_lanes = None
        if self.affine:
            self.affine.begin(self.state.room, live)
            self.first_lanes = FirstLanes(self.affine, self.state.room)
        self.counting = Counting(warp.context, steps) if counts else None
        self.branches = Branches(
            warp, self.parked, self.state, self.first_lanes, loop_heads, self.counting, timed
        )
        self.accesses = Accesses(
            self.registers,
            warp.context,
            self.branches.stop,
            spin_loops.used_registers(places, steps),
        )
        self.watching = (
            WatchEmitter(program, warp.context, steps, warp.barriers, self.branches.stop)
            if watches
            else None
        )
        self.accesses.counting = self.counting or self.watching
        used = self.accesses.used
        self.branches.keeps_sums = (
            plain
            and not block_order.is_ordered(places, steps)
            and any(privatisation.width(step, used) for some in steps for step in some)
        )
        self.looping = set().union(*cycles({p.index: p.onward for p in places}))
        self._dispatch()
        for place in places:
            self._place(place)

    @property
    def row_length(self) -> int:
        """Return the number of lanes in a row (:mod:`.affine.lines`)."""
        return self.affine.row_length if self.affine else 1

    def _companions(self, places: list[Place]) -> list[int]:
        """Return, for each place, the places of waiting lanes that a meeting has to wait for."""
        alone = sum(1 << place for place in self.counted_out)
        return [
            waiting & ~alone if ends_others(places[index]) else waiting
            for index, waiting in enumerate(self.uniformity.waiting)
        ]

    # -- the frame of the function -------------------------------------------------------------

    def _busy(self) -> set[int]:
        """Return the registers written in loops without a barrier, to be kept on the stack."""
        free = {
            place.index: place.onward
            for place in self.warp.places
            if place not in self.warp.barriers
        }
        return {
            slot
            for loop in cycles({index: onward & free.keys() for index, onward in free.items()})
            for index in loop
            for step in self.steps[index]
            for slot in step.writes
        }

    def _dispatch(self) -> None:
        """Emit the jump from the entry to the first place or to where a barrier released the warp.

        It also emits the jumps from lanes that have ended to those that wait.
        """
        build = self.build
        build.store(self.warp.function.args[2], self.warp.mask)
        first = self.warp.entries[self.warp.first.index]
        if self.parked is not None:
            resume = self.build.append_basic_block("resume")
            build.cbranch(build.icmp_unsigned("==", self.state.phase(), I32(0)), first, resume)
            build.position_at_end(resume)
            self.parked.resume()
            build.branch(self.warp.checks[self.warp.waiting_places[0]])
            build.position_at_end(self.warp.finish)
            self.parked.finish()
        elif not self.warp.barriers:
            build.branch(first)
        else:
            fresh = self.build.append_basic_block("fresh")
            switch = build.switch(self.state.phase(), fresh)
            build.position_at_end(fresh)
            self.registers.clear(self.warp.first.live_in)
            if self.affine is not None and self.first_lanes is not None:
                self.affine.forget(self.affine.waiting)
                self.first_lanes.reset()
            build.branch(first)
            for number, barrier in enumerate(self.warp.barriers, 1):
                resume = self.build.append_basic_block("resume")
                switch.add_case(I32(number), resume)
                build.position_at_end(resume)
                self.state.restore(self.warp.places[barrier.after].live_in)
                build.store(self.state.lanes(), self.warp.mask)
                if self.warp.marks is not None and barrier.after in self.warp.ending:
                    self.warp.marks.ended(barrier.after)
                build.branch(
                    self.warp.finish
                    if barrier.after in self.warp.ending
                    else self.warp.entries[barrier.after]
                )
        following = [*self.warp.waiting_places[1:], None][: len(self.warp.waiting_places)]
        for place, after in zip(self.warp.waiting_places, following, strict=True):
            build.position_at_end(self.warp.checks[place])
            word = build.load(self.warp.waiting_lanes[place])
            found = self.build.append_basic_block("found")
            build.cbranch(
                build.icmp_unsigned("!=", word, I32(0)),
                found,
                self.warp.finish if after is None else self.warp.checks[after],
            )
            build.position_at_end(found)
            build.store(word, self.warp.mask)
            build.store(I32(0), self.warp.waiting_lanes[place])
            if self.parked is not None:
                self.parked.leave(word)
            build.branch(self.warp.entries[place])

    # -- places --------------------------------------------------------------------------------

    def _place(self, place: Place) -> None:
        build, registers, block = self.build, self.registers, place.block
        build.position_at_end(self.warp.entries[place.index])
        registers.start(place)
        self.accesses.start(place, self.steps[place.index], place.index in self.looping)
        mask = build.load(self.warp.mask)
        pending = self.warp.waiting[place.index]
        if block.guard is not None:
            mask = self.branches.guard(place, block.guard, mask, pending)
        if self.parked is not None and block.warp_mask is not None:
            mask = self.parked.meet(place, mask)
        if self.counting is not None or self.branches.counts_clock:
            if ends_others(place):
                self._count_out(pending)
            self.branches.executed(place, mask)
        if self.affine is not None and self.first_lanes is not None:
            self._in_rows(place, mask, pending, self.affine, self.first_lanes)
            return
        self._rest_of(place, mask, pending)

    def _in_rows(
        self,
        place: Place,
        mask: ir.Value,
        pending: int,
        affine: AffineRegisters,
        first_lanes: FirstLanes,
    ) -> None:
        """Emit a place twice: for affine addresses in known variables, and for everything else.

        The first version does not write out all lanes of affine results
        (:mod:`.affine.first_lanes`). It runs for full warps. If no affine value is used later and
        no other core sees what is stored, it also runs for a part of the lanes, as in a loop's
        ``if t < half: shared[t] += shared[t + half]``.
        """
        build, steps = self.build, self.steps[place.index]
        terms = affine.terms(place, steps)
        planned, needed = self.accesses.plan(steps, affine, terms.bases)
        full = build.icmp_unsigned("==", mask, EVERYONE)
        written = {slot for step in steps for slot in step.writes} & place.live_out
        after = {
            slot: terms.registers[slot].built
            for slot in sorted(written & affine.homes.keys())
            if slot in terms.registers and terms.registers[slot].stride == affine.strides[slot]
        }
        looked = affine.to_look(steps, written - after.keys())

        def finish() -> None:
            for slot in sorted(looked):
                affine.look(slot, full)
            for slot, built in after.items():
                affine.remember(slot, built, full)
            affine.forget(sorted((written & affine.homes.keys()) - after.keys() - looked))

        touched = written.union(
            *(step.writes for step in steps), place.block.reads, *(step.reads for step in steps)
        )
        if not planned and place.index in self.looping and touched & first_lanes.bits.keys():
            # A place without accesses in a loop keeps stale registers stale.
            needed = dict.fromkeys(
                flag for term in terms.results.values() for flag in term.built.flags
            )
        if not needed:
            first_lanes.settle(touched)
            self._rest_of(place, mask, pending, finish)
            return
        some = not written & affine.homes.keys() and self.accesses.suits_some(steps, planned)
        good = I1(1) if some else full
        for flag in needed:
            good = build.and_(good, flag)
        rows, lanes = (self.build.append_basic_block(name) for name in ("rows", "lanes"))
        build.cbranch(good, rows, lanes)
        build.position_at_end(rows)
        self.registers.start(place)
        self.accesses.planned = planned
        first_lanes.begin(place.live_in, needed)

        def leave() -> None:
            finish()
            first_lanes.leave(after)

        if some:
            self._rest_of(place, mask, pending, affine=terms.results)
        else:
            self._rest_of(place, EVERYONE, 0, leave, terms.results)
        build.position_at_end(lanes)
        self.registers.start(place)
        self.accesses.start(place, steps, place.index in self.looping, planned)
        first_lanes.settle(touched, rarely=True)
        self._rest_of(place, mask, pending, finish)

    def _rest_of(
        self,
        place: Place,
        mask: ir.Value,
        pending: int,
        finish: Callable[[], None] = lambda: None,
        affine: dict[int, Term] | None = None,
    ) -> None:
        """Emit the steps of a place and its exit.

        ``affine`` has the terms of results that need not be written out lane by lane, by the
        step's ``id``.
        """
        build, registers, block = self.build, self.registers, place.block
        for step in self.steps[place.index]:
            if self.watching is not None:
                self.watching.step(place, step, mask, registers)
            if (
                affine is not None
                and self.first_lanes is not None
                and self.first_lanes.result(step, affine.get(id(step)))
            ):
                continue
            if isinstance(step, MemoryAccess):
                self.accesses.emit(step, mask)
            elif isinstance(step, Stop):
                build.branch(self.branches.stop(-1 - place.index, mask))
                build.position_at_end(self.build.append_basic_block("never"))
            elif isinstance(step, IntrinsicCall):
                self.branches.provided(place, step, mask)
            else:
                data.emit(registers, step, mask)
        taken = None
        if block.kind == "branch":
            assert block.last is not None and block.last.guard is not None
            taken = registers.get(block.last.guard[0], BOOL)
            taken = ~taken if block.negated else taken
            if self.counting is not None:
                self.counting.branched(place, mask, taken)
        elif (way := chosen(place)) is not None:
            taken = registers.get(way, U32 if block.kind == "indexed" else U64)
        finish()
        needed = self.uniformity.needed_by_others(place.index)
        lanes = mask_of_bits(build, mask) if needed & registers.written else None
        registers.store_back(place.live_out, lanes, needed)
        if self.warp.marks is not None:
            self.warp.marks.ran(place)
        self.branches.leave(place, mask, taken, pending)

    def _count_out(self, pending: int) -> None:
        """End the lanes whose only remaining step is to end, before the others meet."""
        build = self.build
        for index in sorted(self.counted_out & set(control_flow.members(pending))):
            place, word = self.warp.places[index], self.warp.waiting_lanes[index]
            if place.block.kind == "goto":
                raise Refused("lanes that take several steps to end, under profile()")
            lanes = build.load(word)
            with build.if_then(build.icmp_unsigned("!=", lanes, I32(0))):
                build.store(I32(0), word)
                self.branches.executed(place, lanes)


def _check(places: list[Place]) -> None:
    for place in places:
        if place.block.kind not in KINDS:
            raise Refused(f"a block that ends with {place.block.kind}")
