"""A kernel as one LLVM function that runs a warp: 32 lanes, and a mask of those that are here.

The code of a place runs with the word ``mask``, bit ``i`` for lane ``i``. Lanes that part wait at
the higher of the two places, in that place's own word, until the lower ones have come there or
are done: the order of the interpreter. Which words can be other than zero at which place
is known beforehand (:mod:`.control_flow`), so a kernel whose branches are uniform has none, and
one with a short ``if`` has one.

The function takes the context and the warp's state, and answers DONE, AT_BARRIER (the registers
that live on are in the state) or STOPPED (the context says where).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from virtualgpu.native import (
    block_order,
    control_flow,
    data,
    divergence,
    livelock,
    privatisation,
    spin_loops,
)
from virtualgpu.native.access import Accesses
from virtualgpu.native.affine import AffineRegisters, Term
from virtualgpu.native.affine_first_lanes import FirstLanes
from virtualgpu.native.branches import Ways
from virtualgpu.native.context import DONE
from virtualgpu.native.control_flow import Place, chosen, ends_others
from virtualgpu.native.counting import Counting
from virtualgpu.native.decode import Provided, Stop, decode
from virtualgpu.native.divergence import Apart
from virtualgpu.native.operands import BOOL, CLOCKS, U32, U64, Registers
from virtualgpu.native.refusal import Refused
from virtualgpu.native.state import State
from virtualgpu.native.uniformity import Uniformity
from virtualgpu.native.values import (
    EVERYONE,
    I1,
    I32,
    POINTER,
    Context,
    mask_of_bits,
)
from virtualgpu.native.watched.watching import Watching
from virtualgpu.program.loops import cycles
from virtualgpu.program.program import Program
from virtualgpu.program.steps import MemoryAccess
from virtualgpu.ptx import Register

KINDS = {"next", "goto", "branch", "indexed", "exit", "barrier", "trap", "call", "return"}


class Lowering(Ways):
    """Writes the function of one kernel. Raises Refused where it cannot.

    Attributes
    ----------
    places : list of Place
        Where lanes may stand; the function names them when it stops.
    accesses.sites
        The memory instructions, by the numbers that the function gives for them.
    state.size : int
        Bytes that a warp keeps at a barrier; 0 for a kernel without.
    """

    def __init__(self, program: Program, name: str, counts: bool = False, watches: bool = False):
        self.program = program
        self.places = control_flow.places(program)
        self.steps = [decode(program, place) for place in self.places]
        self._check()
        self.heads, self.shown = livelock.heads(program, self.places), 0
        spinning = spin_loops.spinning(self.places, self.steps)
        endings = control_flow.endings(self.places)
        # How a basic block that ends runs makes no difference, except to a count.
        self.timed = any(
            isinstance(source, Register) and source.name in CLOCKS
            for steps in self.steps
            for step in steps
            for source in step.sources
        )
        self.ending: set[int] = set() if counts or self.timed else endings
        self.counted_out = endings - self.ending
        self.uniformity = Uniformity(program, self.places, self.steps, self.ending)
        parted = divergence.needed(
            self.places, self._companions(), self.steps, self.uniformity.varying, spinning
        )
        if parted and (counts or watches):
            raise Refused("lanes that wait for others, under check()")
        if parted:
            self.uniformity = Uniformity(program, self.places, self.steps, self.ending, apart=True)
        self.waiting = self.uniformity.waiting
        self.first = next(
            place
            for place in self.places
            if not place.stack and place.block.index == program.entry_code.entry
        )
        self.barriers = [p for p in self.places if p.block.kind == "barrier"]
        self._start(name, spinning if parted else None, not (parted or counts or watches))
        self.counting = Counting(self.context, self.steps) if counts else None
        self.watching = (
            Watching(program, self.context, self.steps, self.barriers, self._stop)
            if watches
            else None
        )
        self.accesses.counting = self.counting or self.watching
        used = self.accesses.used
        # Whether cores may keep sums to themselves.
        self.sums = not (
            parted or counts or watches or block_order.is_ordered(self.places, self.steps)
        ) and any(privatisation.width(step, used) for steps in self.steps for step in steps)
        self.looping = set().union(*cycles({p.index: p.onward for p in self.places}))
        self._dispatch()
        for place in self.places:
            self._place(place)

    def _companions(self) -> list[int]:
        """For each place: where lanes may wait for whom a meeting has to wait."""
        alone = sum(1 << place for place in self.counted_out)
        return [
            waiting & ~alone if ends_others(self.places[index]) else waiting
            for index, waiting in enumerate(self.uniformity.waiting)
        ]

    def _check(self) -> None:
        for place in self.places:
            if place.block.kind not in KINDS:
                raise Refused(f"a block that ends by {place.block.kind}")

    # -- the frame of the function -------------------------------------------------------------

    def _start(self, name: str, spinning: set[int] | None, plain: bool) -> None:
        self.module = ir.Module(name)
        function = ir.Function(
            self.module, ir.FunctionType(I32, [POINTER, POINTER, I32]), f"{name}_warp"
        )
        function.linkage = "internal"
        function.args[0].add_attribute("noalias")
        # Else what LLVM puts by on the stack lies across two lines of the processor's cache.
        function.attributes.alignstack = 64
        function.attributes.add("nounwind")  # llvmlite writes no alignment without another
        self.function = function
        self.build = build = ir.IRBuilder(function.append_basic_block("entry"))
        self.context = Context(build, function.args[0])
        slots = {
            slot for steps in self.steps for step in steps for slot in (*step.writes, *step.reads)
        }
        for place in self.places:
            slots |= place.live_in | place.live_out | place.block.reads
        self.registers = Registers(
            self.program,
            build,
            self.context,
            self.uniformity.varying,
            slots,
            self.first,
            zeros=spinning is not None,
        )
        self.mask = build.alloca(I32)
        chain = 0
        for places in self.waiting:
            chain |= places
        self.apart = None if spinning is None else Apart(self, spinning)
        if self.apart is not None:
            chain |= sum(1 << place for place in self.apart.places() - self.ending)
        self.chain = list(control_flow.members(chain))
        self.words = {place: build.alloca(I32) for place in self.chain}
        for word in self.words.values():
            build.store(I32(0), word)
        live = frozenset().union(*(self.places[b.after].live_in for b in self.barriers))
        if self.apart is None:
            self.state = State(self.registers, function.args[1], live)
            self.state.keep(live - self._busy())
        else:
            self.state = self.apart.state
        self.affine = AffineRegisters(self.registers, self.places, self.steps) if plain else None
        self.row = self.affine.row if self.affine else 1
        if self.affine:
            self.affine.begin(self.state.room, live)
            self.first_lanes = FirstLanes(self.affine, self.state.room)
        self.accesses = Accesses(
            self.registers,
            self.context,
            self._stop,
            spin_loops.used_registers(self.places, self.steps),
        )
        self.enter = [function.append_basic_block(f"p{place.index}_") for place in self.places]
        self.check = {place: function.append_basic_block(f"c{place}_") for place in self.chain}
        self.finish = function.append_basic_block("finish")
        if self.apart is None:
            with build.goto_block(self.finish):
                build.ret(I32(DONE))

    def _busy(self) -> set[int]:
        """Return the registers written in loops without a barrier, which are best kept at hand."""
        free = {place.index: place.onward for place in self.places if place not in self.barriers}
        return {
            slot
            for loop in cycles({index: onward & free.keys() for index, onward in free.items()})
            for index in loop
            for step in self.steps[index]
            for slot in step.writes
        }

    def _dispatch(self) -> None:
        """Emit the jump from the entry to the first place, or to where a barrier released the warp.

        It also jumps from lanes that are done to those that wait.
        """
        build = self.build
        build.store(self.function.args[2], self.mask)
        first = self.enter[self.first.index]
        if self.apart is not None:
            resume = self.function.append_basic_block("resume")
            build.cbranch(build.icmp_unsigned("==", self.state.phase(), I32(0)), first, resume)
            build.position_at_end(resume)
            self.apart.resume()
            build.branch(self.check[self.chain[0]])
            build.position_at_end(self.finish)
            self.apart.finish()
        elif not self.barriers:
            build.branch(first)
        else:
            fresh = self.function.append_basic_block("fresh")
            switch = build.switch(self.state.phase(), fresh)
            build.position_at_end(fresh)
            self.registers.clear(self.first.live_in)
            if self.affine is not None:
                self.affine.forget(self.affine.waiting)
                self.first_lanes.reset()
            build.branch(first)
            for number, barrier in enumerate(self.barriers, 1):
                resume = self.function.append_basic_block("resume")
                switch.add_case(I32(number), resume)
                build.position_at_end(resume)
                self.state.restore(self.places[barrier.after].live_in)
                build.store(self.state.lanes(), self.mask)
                build.branch(
                    self.finish if barrier.after in self.ending else self.enter[barrier.after]
                )
        following = [*self.chain[1:], None][: len(self.chain)]
        for place, after in zip(self.chain, following, strict=True):
            build.position_at_end(self.check[place])
            word = build.load(self.words[place])
            found = self.function.append_basic_block("found")
            build.cbranch(
                build.icmp_unsigned("!=", word, I32(0)),
                found,
                self.finish if after is None else self.check[after],
            )
            build.position_at_end(found)
            build.store(word, self.mask)
            build.store(I32(0), self.words[place])
            if self.apart is not None:
                self.apart.leave(word)
            build.branch(self.enter[place])

    # -- places --------------------------------------------------------------------------------

    def _place(self, place: Place) -> None:
        build, registers, block = self.build, self.registers, place.block
        build.position_at_end(self.enter[place.index])
        registers.start(place)
        self.accesses.start(place, self.steps[place.index], place.index in self.looping)
        mask = build.load(self.mask)
        pending = self.waiting[place.index]
        if block.guard is not None:
            mask = self._guard(place, block.guard, mask, pending)
        if self.apart is not None and block.warp_mask is not None:
            mask = self.apart.meet(place, mask)
        if self.counting is not None or self.timed:
            if ends_others(place):
                self._count_out(pending)
            self._executed(place, mask)
        if self.affine is not None:
            self._in_rows(place, mask, pending, self.affine)
            return
        self._rest_of(place, mask, pending)

    def _in_rows(self, place: Place, mask: ir.Value, pending: int, affine: AffineRegisters) -> None:
        """Emit a place twice: for affine addresses in known variables, and for everything else.

        In the first version, affine results are left for later (:mod:`.affine_first_lanes`). It
        serves full warps, but where nothing affine is passed on and no other core sees what is
        stored, also some of the lanes: a loop's ``if t < half: shared[t] += shared[t + half]``.
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
        if not planned and place.index in self.looping and touched & self.first_lanes.bits.keys():
            # Without accesses, but in a loop: what others leave for later shall stay so.
            needed = dict.fromkeys(
                flag for term in terms.results.values() for flag in term.built.flags
            )
        if not needed:
            self.first_lanes.settle(touched)
            self._rest_of(place, mask, pending, finish)
            return
        some = not written & affine.homes.keys() and self.accesses.suits_some(steps, planned)
        good = I1(1) if some else full
        for flag in needed:
            good = build.and_(good, flag)
        rows, lanes = (self.function.append_basic_block(name) for name in ("rows", "lanes"))
        build.cbranch(good, rows, lanes)
        build.position_at_end(rows)
        self.registers.start(place)
        self.accesses.planned = planned
        self.first_lanes.begin(place.live_in, needed)

        def leave() -> None:
            finish()
            self.first_lanes.leave(after)

        if some:
            self._rest_of(place, mask, pending, affine=terms.results)
        else:
            self._rest_of(place, EVERYONE, 0, leave, terms.results)
        build.position_at_end(lanes)
        self.registers.start(place)
        self.accesses.start(place, steps, place.index in self.looping, planned)
        self.first_lanes.settle(touched, rarely=True)
        self._rest_of(place, mask, pending, finish)

    def _rest_of(
        self,
        place: Place,
        mask: ir.Value,
        pending: int,
        finish: Callable[[], None] = lambda: None,
        affine: dict[int, Term] | None = None,
    ) -> None:
        """Emit the steps of a place and its exit; some results may be ``affine``."""
        build, registers, block = self.build, self.registers, place.block
        for step in self.steps[place.index]:
            if self.watching is not None:
                self.watching.step(place, step, mask, registers)
            if affine is not None and self.first_lanes.result(step, affine.get(id(step))):
                continue
            if isinstance(step, MemoryAccess):
                self.accesses.emit(step, mask)
            elif isinstance(step, Stop):
                build.branch(self._stop(-1 - place.index, mask))
                build.position_at_end(self.function.append_basic_block("never"))
            elif isinstance(step, Provided):
                self._provided(place, step, mask)
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
        self._leave(place, mask, taken, pending)

    def _count_out(self, pending: int) -> None:
        """End the lanes that wait only to end, before the others meet."""
        build = self.build
        for index in sorted(self.counted_out & set(control_flow.members(pending))):
            place, word = self.places[index], self.words[index]
            if place.block.kind == "goto":
                raise Refused("lanes that take several steps to end, under profile()")
            lanes = build.load(word)
            with build.if_then(build.icmp_unsigned("!=", lanes, I32(0))):
                build.store(I32(0), word)
                self._executed(place, lanes)
