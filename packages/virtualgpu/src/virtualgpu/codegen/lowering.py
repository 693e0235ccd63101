"""A kernel as one LLVM function that runs a warp: 32 lanes, and a mask of those that are here.

The code of a place runs with the word ``mask``, bit ``i`` for lane ``i``. Lanes that part wait at
the higher of the two places, in that place's own word, until the lower ones have come there or
are done: the order of the interpreting machine. Which words can be other than zero at which place
is known beforehand (:mod:`.control_flow`), so a kernel whose branches are uniform has none, and
one with a short ``if`` has one.

The function takes the context and the warp's state, and answers DONE, AT_BARRIER (the registers
that live on are in the state) or STOPPED (the context says where).
"""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.codegen import apart, control_flow, data, spins
from virtualgpu.codegen.apart import Apart
from virtualgpu.codegen.context import ADDRESSES, AT_BARRIER, DONE, STOPPED
from virtualgpu.codegen.control_flow import Place, chosen
from virtualgpu.codegen.decode import Access, Stop, decode
from virtualgpu.codegen.lanes import (
    I32,
    I64,
    POINTER,
    Context,
    bits_of_mask,
    mask_of_bits,
    spread,
)
from virtualgpu.codegen.memory import Accesses
from virtualgpu.codegen.operands import BOOL, U32, U64, Registers
from virtualgpu.codegen.refusal import Refused
from virtualgpu.codegen.state import State
from virtualgpu.codegen.uniformity import Uniformity
from virtualgpu.machine.program import Program
from virtualgpu.operations.expression import Value

KINDS = {"next", "goto", "branch", "indexed", "exit", "barrier", "trap", "call", "return"}


class Lowering:
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

    def __init__(self, program: Program, name: str):
        self.program = program
        self.places = control_flow.places(program)
        self.steps = [decode(program, place) for place in self.places]
        self._check()
        spinning = spins.spinning(self.places, self.steps)
        self.ending = control_flow.endings(self.places)
        self.uniformity = Uniformity(program, self.places, self.steps)
        parted = apart.needed(self.places, self.uniformity.waiting, self.steps,
                              self.uniformity.varying, spinning)
        if parted:
            self.uniformity = Uniformity(program, self.places, self.steps, apart=True)
        self.waiting = self.uniformity.waiting
        self.first = next(place for place in self.places if not place.stack
                          and place.block.index == program.entry_code.entry)
        self.barriers = [p for p in self.places if p.block.kind == "barrier"]
        self._start(name, spinning if parted else None)
        self._dispatch()
        for place in self.places:
            self._place(place)

    def _check(self) -> None:
        for place in self.places:
            if place.block.kind not in KINDS:
                raise Refused(f"a block that ends by {place.block.kind}")

    # -- the frame of the function -------------------------------------------------------------

    def _start(self, name: str, spinning: set[int] | None) -> None:
        self.module = ir.Module(name)
        function = ir.Function(
            self.module, ir.FunctionType(I32, [POINTER, POINTER, I32]), f"{name}_warp")
        function.linkage = "internal"
        function.args[0].add_attribute("noalias")
        self.function = function
        self.build = build = ir.IRBuilder(function.append_basic_block("entry"))
        self.context = Context(build, function.args[0])
        slots = {slot for steps in self.steps for step in steps
                 for slot in (*step.writes, *step.reads)}
        for place in self.places:
            slots |= place.live_in | place.live_out | place.block.reads
        self.registers = Registers(
            self.program, build, self.context, self.uniformity.varying, slots, self.first)
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
        self.state = State(self.registers, function.args[1], live) if self.apart is None else (
            self.apart.state)
        self.accesses = Accesses(self.registers, self.context, self._stop)
        self.enter = [function.append_basic_block(f"p{place.index}_") for place in self.places]
        self.check = {place: function.append_basic_block(f"c{place}_") for place in self.chain}
        self.finish = function.append_basic_block("finish")
        if self.apart is None:
            with build.goto_block(self.finish):
                build.ret(I32(DONE))

    def _dispatch(self) -> None:
        """From the entry to the first place, or to where a barrier let the warp go on; and from
        lanes that are done to those that wait."""
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
            switch = build.switch(self.state.phase(), first)
            for number, barrier in enumerate(self.barriers, 1):
                resume = self.function.append_basic_block("resume")
                switch.add_case(I32(number), resume)
                build.position_at_end(resume)
                self.state.restore(self.places[barrier.after].live_in)
                build.store(self.state.lanes(), self.mask)
                build.branch(self.finish if barrier.after in self.ending
                             else self.enter[barrier.after])
        following = [*self.chain[1:], None][: len(self.chain)]
        for place, after in zip(self.chain, following, strict=True):
            build.position_at_end(self.check[place])
            word = build.load(self.words[place])
            found = self.function.append_basic_block("found")
            build.cbranch(build.icmp_unsigned("!=", word, I32(0)), found,
                          self.finish if after is None else self.check[after])
            build.position_at_end(found)
            build.store(word, self.mask)
            build.store(I32(0), self.words[place])
            if self.apart is not None:
                self.apart.leave(word)
            build.branch(self.enter[place])

    def _stop(self, number: int, mask: ir.Value, why: Value | None = None) -> ir.Block:
        """A block that leaves the kernel for good: site ``number``, or a place as -1 - index.
        ``why`` is the index or address that leads nowhere."""
        block = self.function.append_basic_block("stop")
        with self.build.goto_block(block):
            if why is not None:
                self.build.store(spread(why.to("u64")).node, self.context.at(ADDRESSES), align=8)
            self.context.store("fault", I64(number))
            self.context.store("fault_mask", self.build.zext(mask, I64))
            self.build.ret(I32(STOPPED))
        return block

    # -- places --------------------------------------------------------------------------------

    def _place(self, place: Place) -> None:
        build, registers, block = self.build, self.registers, place.block
        build.position_at_end(self.enter[place.index])
        registers.start(place)
        mask = build.load(self.mask)
        pending = self.waiting[place.index]
        if block.guard is not None:
            mask = self._guard(place, block.guard, mask, pending)
        if self.apart is not None and block.warp_mask is not None:
            mask = self.apart.meet(place, mask)
        for step in self.steps[place.index]:
            if isinstance(step, Access):
                self.accesses.emit(step, mask)
            elif isinstance(step, Stop):
                build.branch(self._stop(-1 - place.index, mask))
                build.position_at_end(self.function.append_basic_block("never"))
            else:
                data.emit(registers, step, mask)
        taken = None
        if block.kind == "branch":
            assert block.last is not None and block.last.guard is not None
            taken = registers.get(block.last.guard[0], BOOL)
            taken = ~taken if block.negated else taken
        elif (way := chosen(place)) is not None:
            taken = registers.get(way, U32 if block.kind == "indexed" else U64)
        needed = self.uniformity.needed_by_others(place.index)
        lanes = mask_of_bits(build, mask) if needed & registers.written else None
        registers.store_back(place.live_out, lanes, needed)
        self._leave(place, mask, taken, pending)

    def _guard(self, place: Place, guard: tuple[int, bool], mask: ir.Value, pending: int
               ) -> ir.Value:
        """Lanes whose predicate is false go on behind; the others' mask."""
        build, after = self.build, place.after
        slot, negated = guard
        predicate = self.registers.read(slot)[0]
        if negated:
            predicate = ~predicate
        onward = self.function.append_basic_block("guarded")
        skip = self.function.append_basic_block("skip")
        if predicate.lanes is None:
            build.cbranch(predicate.node, onward, skip)
            build.position_at_end(skip)
            self._go(place, after, mask, pending)
            build.position_at_end(onward)
            return mask
        here = build.and_(bits_of_mask(build, predicate.node), mask)
        if after not in self.ending:
            self._wait(after, build.and_(mask, build.not_(here)))
        build.cbranch(build.icmp_unsigned("!=", here, I32(0)), onward, skip)
        build.position_at_end(skip)
        self._rest(pending)
        build.position_at_end(onward)
        return here

    def _leave(self, place: Place, mask: ir.Value, taken: Value | None, pending: int) -> None:
        build, kind = self.build, place.block.kind
        if kind == "exit":
            self._rest(pending)
        elif kind == "trap":
            build.branch(self._stop(-1 - place.index, mask))
        elif kind == "barrier" and self.apart is not None:
            self.apart.arrive(place, mask)
        elif kind == "barrier":
            self.state.save(self.barriers.index(place) + 1, mask,
                            self.places[place.after].live_in)
            build.ret(I32(AT_BARRIER))
        elif kind == "branch" and taken is not None:
            self._branch(place, mask, taken, pending)
        elif taken is not None:
            self._choose(place, mask, taken, pending)
        else:
            self._go(place, place.after if kind == "next" else place.target, mask, pending)

    def _branch(self, place: Place, mask: ir.Value, taken: Value, pending: int) -> None:
        build = self.build
        yes, no = (self.function.append_basic_block(name) for name in ("yes", "no"))
        if taken.lanes is None or place.target == place.after:
            if taken.lanes is not None:
                build.branch(yes)
            else:
                build.cbranch(taken.node, yes, no)
        else:
            go = build.and_(bits_of_mask(build, taken.node), mask)
            stay = build.and_(mask, build.not_(go))
            some, parted = (self.function.append_basic_block(name) for name in ("some", "parted"))
            build.cbranch(build.icmp_unsigned("==", go, I32(0)), no, some)
            build.position_at_end(some)
            build.cbranch(build.icmp_unsigned("==", stay, I32(0)), yes, parted)
            build.position_at_end(parted)
            self._part(place, sorted([(place.target, go), (place.after, stay)],
                                     key=lambda way: way[0]), pending)
        build.position_at_end(yes)
        self._go(place, place.target, mask, pending)
        build.position_at_end(no)
        self._go(place, place.after, mask, pending)

    def _choose(self, place: Place, mask: ir.Value, taken: Value, pending: int) -> None:
        """Where the entry of a table, or the function at an address, says."""
        build, program, block = self.build, self.program, place.block
        if block.kind == "indexed":
            keys = list(range(len(block.targets)))
        else:
            keys = [program.module.address(code.function.name)
                    for code in control_flow.callees(program, block)]
        bits = int(taken.kind[1:])
        if taken.lanes is None:
            nowhere = self._stop(-1 - place.index, mask, taken)
            switch = build.switch(taken.node, nowhere)
            for key, target in zip(keys, place.targets, strict=True):
                way = self.function.append_basic_block("way")
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
        onward = self.function.append_basic_block("ways")
        build.cbranch(build.icmp_unsigned("==", left, I32(0)), onward,
                      self._stop(-1 - place.index, mask, taken))
        build.position_at_end(onward)
        ways = {target: lanes for target, lanes in ways.items() if target not in self.ending}
        first, *others = sorted(ways) or [-1]
        if min(place.targets) <= place.index:
            self._tick(place, mask)
        for target in others:
            self._wait(target, ways[target])
            pending |= 1 << target
        if ways:
            some, none = (self.function.append_basic_block(name) for name in ("some", "none"))
            build.cbranch(build.icmp_unsigned("!=", ways[first], I32(0)), some, none)
            build.position_at_end(some)
            self._go(place, first, ways[first], pending)
            build.position_at_end(none)
        self._rest(pending)

    def _part(self, place: Place, ways: list[tuple[int, ir.Value]], pending: int) -> None:
        """Lanes that go different ways: those of the lowest at once, the others wait."""
        ways = [way for way in ways if way[0] not in self.ending]
        for target, lanes in ways[1:]:
            self._wait(target, lanes)
            pending |= 1 << target
        if ways:
            self._go(place, *ways[0], pending)
        else:
            self._rest(pending)

    def _go(self, place: Place, target: int, mask: ir.Value, pending: int) -> None:
        """Lanes in ``mask`` go to ``target``; others may wait at the places in ``pending``."""
        build = self.build
        if target in self.ending:
            self._rest(pending)
            return
        if target <= place.index:
            self._tick(place, mask)
        if self.apart is not None:
            self._go_apart(place, target, mask)
            return
        lower = [other for other in control_flow.members(pending) if other < target]
        if lower:
            self._wait(target, mask)
            build.branch(self.check[lower[0]])
            return
        if pending >> target & 1:
            word = self.words[target]
            mask = build.or_(mask, build.load(word))
            build.store(I32(0), word)
        build.store(mask, self.mask)
        build.branch(self.enter[target])

    def _go_apart(self, place: Place, target: int, mask: ir.Value) -> None:
        """As :meth:`_go`, where who waits is known only now."""
        build = self.build
        assert self.apart is not None
        self.apart.tire(place, target, mask)
        if self.waiting[place.index]:
            alone, beside = (self.function.append_basic_block(n) for n in ("alone", "beside"))
            others = build.load(self.apart.others)
            build.cbranch(build.icmp_unsigned("==", others, I32(0)), alone, beside)
            build.position_at_end(beside)
            self._wait(target, mask)
            build.branch(self.check[self.chain[0]])
            build.position_at_end(alone)
        build.store(mask, self.mask)
        build.branch(self.enter[target])

    def to_the_next(self, place: Place) -> None:
        """The lanes that ran are parked: on with the lowest that wait, or out of the warp."""
        self._rest(self.waiting[place.index])

    def _wait(self, target: int, lanes: ir.Value) -> None:
        """Lanes wait at a place until all lower ones are done."""
        if self.apart is not None:
            self.apart.move(target, lanes)
            return
        word = self.words[target]
        self.build.store(self.build.or_(self.build.load(word), lanes), word)

    def _rest(self, pending: int) -> None:
        """Those who ran are gone: on with the lowest that wait, or the end."""
        if self.apart is not None and pending:
            first: int | None = self.chain[0]
        else:
            first = next(iter(control_flow.members(pending)), None)
        self.build.branch(self.finish if first is None else self.check[first])

    def _tick(self, place: Place, mask: ir.Value) -> None:
        """Once in many rounds of a loop, ask whether the time is up."""
        build, context = self.build, self.context
        fuel = build.sub(context.load("fuel"), I64(1))
        context.store("fuel", fuel)
        ask, onward = (self.function.append_basic_block(name) for name in ("ask", "onward"))
        build.cbranch(build.icmp_signed("<", fuel, I64(0)), ask, onward)
        build.position_at_end(ask)
        context.store("ended", I64(1))
        callback = ir.FunctionType(ir.VoidType(), []).as_pointer()
        build.call(build.inttoptr(context.load("tick"), callback), [])
        build.cbranch(build.icmp_unsigned("!=", context.load("ended"), I64(0)),
                      self._stop(-1 - place.index, mask), onward)
        build.position_at_end(onward)
