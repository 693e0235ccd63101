"""A kernel as one LLVM function that runs a warp: 32 lanes, and a mask of those that are here.

The code of a block runs with the word ``mask``, bit ``i`` for lane ``i``. Lanes that part wait at
the higher of the two blocks, in that block's own word, until the lower ones have come there or
are done: the order of the interpreting machine. Which words can be other than zero at which block
is known beforehand (:mod:`.control_flow`), so a kernel whose branches are uniform has none, and
one with a short ``if`` has one.

The function takes the context and the warp's state, and answers DONE, AT_BARRIER (the registers
that live on are in the state) or STOPPED (the context says where).
"""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.codegen import control_flow, data, spins
from virtualgpu.codegen.context import AT_BARRIER, DONE, LANES, STOPPED
from virtualgpu.codegen.decode import Step, decode
from virtualgpu.codegen.lanes import (
    I1,
    I32,
    I64,
    POINTER,
    Context,
    bits_of_mask,
    mask_of_bits,
)
from virtualgpu.codegen.memory import Accesses
from virtualgpu.codegen.operands import Registers
from virtualgpu.codegen.refusal import Refused
from virtualgpu.codegen.uniformity import Uniformity, written
from virtualgpu.machine.fuse import kind
from virtualgpu.machine.program import Block, Program
from virtualgpu.operations.expression import bits_of
from virtualgpu.ptx import Register

ALIGN = 64  # of each register in a warp's state


class Lowering:
    """Writes the function of one kernel. Raises Refused where it cannot.

    Attributes
    ----------
    sites : list of Step
        The memory instructions, by the numbers that the function gives for them.
    state_size : int
        Bytes that a warp keeps at a barrier; 0 for a kernel without.
    """

    def __init__(self, program: Program, name: str):
        self.program, self.name = program, name
        self.blocks = control_flow.reachable(program)
        self.steps: dict[int, list[Step]] = {b.index: decode(program, b) for b in self.blocks}
        spins.refuse(program, self.blocks, self.steps)
        self.ending = control_flow.endings(self.blocks)
        self.uniformity = Uniformity(program, self.blocks, self.steps)
        self.waiting = self.uniformity.waiting
        self._check()
        self.barriers = [b for b in self.blocks if b.kind == "barrier"]
        self._start()
        self._lay_out_state()
        self._dispatch()
        for block in self.blocks:
            self._block(block)

    def _check(self) -> None:
        for block in self.blocks:
            if block.kind not in ("next", "goto", "branch", "exit", "barrier", "trap"):
                raise Refused(f"a block that ends by {block.kind}")
            if block.kind in ("barrier", "trap") and block.guard is not None:
                raise Refused("a barrier or trap under a predicate")
            meets = block.kind == "barrier" or block.warp_mask is not None
            if meets and (self.waiting[block.index] or block.guard is not None):
                raise Refused("lanes that may come to a meeting of the warp one by one")
            mask = block.warp_mask
            if isinstance(mask, int) and mask in self.uniformity.varying:
                raise Refused("lanes that name different companions")

    # -- the frame of the function -------------------------------------------------------------

    def _start(self) -> None:
        self.module = ir.Module(self.name)
        function = ir.Function(
            self.module, ir.FunctionType(I32, [POINTER, POINTER, I32]), f"{self.name}_warp")
        function.linkage = "internal"
        function.args[0].add_attribute("noalias")
        self.function = function
        self.entry = function.append_basic_block("entry")
        self.build = build = ir.IRBuilder(self.entry)
        self.context = Context(build, function.args[0])
        slots = {slot for steps in self.steps.values() for step in steps for slot in written(step)}
        for block in self.blocks:
            slots |= block.live_in | block.live_out
            slots |= block.reads
        self.registers = Registers(
            self.program, build, self.context, self.uniformity.varying, slots)
        self.mask = build.alloca(I32)
        chain = 0
        for places in self.waiting.values():
            chain |= places
        self.chain = list(control_flow.members(chain))
        self.words = {place: build.alloca(I32) for place in self.chain}
        for word in self.words.values():
            build.store(I32(0), word)
        self.accesses = Accesses(self.registers, self.context, self._stop)
        self.enter = {b.index: function.append_basic_block(f"b{b.index}_") for b in self.blocks}
        self.check = {place: function.append_basic_block(f"c{place}_") for place in self.chain}
        self.finish = function.append_basic_block("finish")
        with build.goto_block(self.finish):
            build.ret(I32(DONE))

    def _lay_out_state(self) -> None:
        """First the resumption's number and the mask, then the registers."""
        self.places: dict[int, int] = {}
        offset = ALIGN
        for block in self.barriers:
            for slot in sorted(self.program.blocks[block.index + 1].live_in):
                if slot not in self.places:
                    self.places[slot] = offset
                    lanes = LANES if slot in self.uniformity.varying else 1
                    bits = bits_of(kind(self.program.dtypes[slot]))
                    offset += -(-lanes * max(bits // 8, 1) // ALIGN) * ALIGN
        self.state_size = offset if self.barriers else 0

    def _state(self, offset: int) -> ir.Value:
        return self.build.gep(self.function.args[1], [I64(offset)], source_etype=ir.IntType(8))

    def _dispatch(self) -> None:
        """From the entry to the first block, or to where a barrier let the warp go on."""
        build = self.build
        build.store(self.function.args[2], self.mask)
        first = self.enter[self.program.entry_code.entry]
        if not self.barriers:
            build.branch(first)
        else:
            phase = build.load(self._state(0), typ=I32)
            switch = build.switch(phase, first)
            for number, block in enumerate(self.barriers, 1):
                resume = self.function.append_basic_block("resume")
                switch.add_case(I32(number), resume)
                build.position_at_end(resume)
                self._restore(self.program.blocks[block.index + 1].live_in)
                build.store(build.load(self._state(4), typ=I32), self.mask)
                build.branch(self.finish if block.index + 1 in self.ending
                             else self.enter[block.index + 1])
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
            build.branch(self.enter[place])

    def _restore(self, live) -> None:
        for slot in sorted(live):
            home = self.registers.homes[slot]
            kind_ = home.allocated_type
            stored = self._in_state(kind_)
            value = self.build.load(self._state(self.places[slot]), typ=stored, align=ALIGN)
            if stored is not kind_:
                value = self.build.icmp_unsigned("!=", value, ir.Constant(stored, 0)) if isinstance(
                    stored, ir.IntType) and stored.width == 8 else self.build.bitcast(value, kind_)
            self.build.store(value, home)

    def _save(self, live) -> None:
        for slot in sorted(live):
            value = self.build.load(self.registers.homes[slot])
            stored = self._in_state(value.type)
            if stored is not value.type:
                value = (self.build.zext(value, stored) if stored.width == 8
                         else self.build.bitcast(value, stored))
            self.build.store(value, self._state(self.places[slot]), align=ALIGN)

    def _in_state(self, kind_: ir.Type) -> ir.Type:
        """Predicates lie in a word (or a byte, where one serves all lanes)."""
        if kind_ == I1:
            return ir.IntType(8)
        return I32 if kind_ == ir.VectorType(I1, LANES) else kind_

    # -- stopping ------------------------------------------------------------------------------

    def _stop(self, number: int, mask: ir.Value) -> ir.Block:
        """A block that leaves the kernel for good: site ``number``, or a block as -1 - index."""
        block = self.function.append_basic_block("stop")
        with self.build.goto_block(block):
            self.context.store("fault", I64(number))
            self.context.store("fault_mask", self.build.zext(mask, I64))
            self.build.ret(I32(STOPPED))
        return block

    # -- blocks --------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        build, registers = self.build, self.registers
        build.position_at_end(self.enter[block.index])
        registers.start_block()
        mask = build.load(self.mask)
        pending = self.waiting[block.index]
        if block.guard is not None:
            mask = self._guard(block, mask, pending)
        for step in self.steps[block.index]:
            if step.site is not None and step.kind != "param":
                self.accesses.emit(step, mask)
            else:
                data.emit(registers, step, mask)
        predicate = None
        if block.kind == "branch":
            predicate = registers.get(Register(block.last.guard[0].name), data.BOOL)
        needed = self.uniformity.needed_by_others(block.index)
        lanes = mask_of_bits(build, mask) if needed & registers.written else None
        registers.store_back(block.live_out, lanes, needed)
        self._leave(block, mask, predicate, pending)

    def _guard(self, block: Block, mask: ir.Value, pending: int) -> ir.Value:
        """Lanes whose predicate is false go on behind; the others' mask."""
        build = self.build
        slot, negated = block.guard
        predicate = self.registers.read(slot)[0]
        if negated:
            predicate = ~predicate
        onward = self.function.append_basic_block("guarded")
        after = block.index + 1
        if predicate.lanes is None:
            skip = self.function.append_basic_block("skip")
            build.cbranch(predicate.node, onward, skip)
            build.position_at_end(skip)
            self._go(block, after, mask, pending)
            build.position_at_end(onward)
            return mask
        here = build.and_(bits_of_mask(build, predicate.node), mask)
        if after not in self.ending:
            others = build.and_(mask, build.not_(here))
            build.store(build.or_(build.load(self.words[after]), others), self.words[after])
        skip = self.function.append_basic_block("skip")
        build.cbranch(build.icmp_unsigned("!=", here, I32(0)), onward, skip)
        build.position_at_end(skip)
        self._rest(pending)
        build.position_at_end(onward)
        return here

    def _leave(self, block: Block, mask: ir.Value, predicate, pending: int) -> None:
        build, after = self.build, block.index + 1
        if block.kind == "exit":
            self._rest(pending)
        elif block.kind == "trap":
            build.branch(self._stop(-1 - block.index, mask))
        elif block.kind == "barrier":
            number = self.barriers.index(block) + 1
            build.store(I32(number), self._state(0))
            build.store(mask, self._state(4))
            self._save(self.program.blocks[after].live_in)
            build.ret(I32(AT_BARRIER))
        elif block.kind == "branch":
            self._branch(block, mask, ~predicate if block.negated else predicate, pending)
        else:
            self._go(block, block.target if block.kind == "goto" else after, mask, pending)

    def _branch(self, block: Block, mask: ir.Value, taken, pending: int) -> None:
        build, after = self.build, block.index + 1
        yes, no = (self.function.append_basic_block(name) for name in ("yes", "no"))
        if taken.lanes is None or block.target == after:
            if taken.lanes is not None:
                build.branch(yes)
            else:
                build.cbranch(taken.node, yes, no)
            build.position_at_end(yes)
            self._go(block, block.target, mask, pending)
            build.position_at_end(no)
            self._go(block, after, mask, pending)
            return
        go = build.and_(bits_of_mask(build, taken.node), mask)
        stay = build.and_(mask, build.not_(go))
        some, parted = (self.function.append_basic_block(name) for name in ("some", "parted"))
        build.cbranch(build.icmp_unsigned("==", go, I32(0)), no, some)
        build.position_at_end(some)
        build.cbranch(build.icmp_unsigned("==", stay, I32(0)), yes, parted)
        build.position_at_end(yes)
        self._go(block, block.target, mask, pending)
        build.position_at_end(no)
        self._go(block, after, mask, pending)
        build.position_at_end(parted)
        first, second = ((block.target, go), (after, stay))
        if second[0] < first[0]:
            first, second = second, first
        if first[0] in self.ending:
            first = second
        elif second[0] not in self.ending:
            word = self.words[second[0]]
            build.store(build.or_(build.load(word), second[1]), word)
            pending |= 1 << second[0]
        self._go(block, *first, pending)

    def _go(self, block: Block, target: int, mask: ir.Value, pending: int) -> None:
        """Lanes in ``mask`` go to ``target``; others may wait at the blocks in ``pending``."""
        build = self.build
        if target in self.ending:
            self._rest(pending)
            return
        if target <= block.index:
            self._tick(block, mask)
        lower = [place for place in control_flow.members(pending) if place < target]
        if lower:
            word = self.words[target]
            build.store(build.or_(build.load(word), mask), word)
            build.branch(self.check[lower[0]])
            return
        if pending >> target & 1:
            word = self.words[target]
            mask = build.or_(mask, build.load(word))
            build.store(I32(0), word)
        build.store(mask, self.mask)
        build.branch(self.enter[target])

    def _rest(self, pending: int) -> None:
        """Those who ran are gone: on with the lowest that wait, or the end."""
        first = next(control_flow.members(pending), None)
        self.build.branch(self.finish if first is None else self.check[first])

    def _tick(self, block: Block, mask: ir.Value) -> None:
        """Once in many rounds of a loop, ask whether the time is up."""
        build, context = self.build, self.context
        fuel = build.sub(context.load("fuel"), I64(1))
        context.store("fuel", fuel)
        ask, onward = (self.function.append_basic_block(name) for name in ("ask", "onward"))
        build.cbranch(build.icmp_signed("<", fuel, I64(0)), ask, onward)
        build.position_at_end(ask)
        callback = ir.FunctionType(I64, [POINTER]).as_pointer()
        answer = build.call(build.inttoptr(context.load("tick"), callback), [context.pointer])
        build.cbranch(build.icmp_unsigned("!=", answer, I64(0)),
                      self._stop(-1 - block.index, mask), onward)
        build.position_at_end(onward)
