"""The LLVM function of a warp while it is written: its code's blocks, and its words of lanes."""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.native.affine.uniformity import Uniformity
from virtualgpu.native.flow import control_flow
from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.marks import Marks
from virtualgpu.native.operands import LoweredRegisters
from virtualgpu.native.values import I32, POINTER, Context
from virtualgpu.program.program import Program
from virtualgpu.program.steps import Step


class WarpFunction:
    """The function, the places where its lanes may be, and who waits where.

    Attributes
    ----------
    first : Place
        Where the kernel begins.
    barriers : list of Place
        Those that end at a barrier.
    ending : set of int
        Places where lanes may end at once.
    waiting : list of int
        For each place: where others may wait meanwhile, a set.
    mask : ir.Value
        The word of the lanes that run.
    waiting_places, waiting_lanes : list of int, dict
        All places where lanes may wait, the lowest first, and the word of those that do.
    entries, checks : list and dict of ir.Block
        A place's code; and, from the lowest of ``waiting_places`` on, the code that looks who
        waits there.
    finish : ir.Block
        The end of the warp's turn.
    marks : Marks or None
        Where lines are measured.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        places: list[Place],
        steps: list[list[Step]],
        uniformity: Uniformity,
        parks: bool,
    ):
        self.program, self.places, self.steps = program, places, steps
        self.ending, self.waiting = uniformity.gone, uniformity.waiting
        self.first = next(
            place
            for place in places
            if not place.stack and place.block.index == program.entry_code.entry
        )
        self.barriers = [place for place in places if place.block.kind == "barrier"]
        self.module = ir.Module(name)
        self.function = function = ir.Function(
            self.module, ir.FunctionType(I32, [POINTER, POINTER, I32]), f"{name}_warp"
        )
        function.linkage = "internal"
        function.args[0].add_attribute("noalias")
        # Else what LLVM puts by on the stack lies across two lines of the processor's cache.
        function.attributes.alignstack = 64
        function.attributes.add("nounwind")  # llvmlite writes no alignment without another
        self.build = ir.IRBuilder(function.append_basic_block("entry"))
        self.context = Context(self.build, function.args[0])
        slots = {slot for some in steps for step in some for slot in (*step.writes, *step.reads)}
        for place in places:
            slots |= place.live_in | place.live_out | place.block.reads
        self.registers = LoweredRegisters(
            program, self.build, self.context, uniformity.varying, slots, self.first, zeros=parks
        )
        self.mask = self.build.alloca(I32)
        self.marks = None if program.ran is None else Marks(self.build, self.context, places)

    def add_blocks(self, more: set[int]) -> None:
        """Add the blocks of all places, and words for lanes that wait, also at places ``more``."""
        build, function = self.build, self.function
        found = more.union(*map(control_flow.members, self.waiting))
        self.waiting_places = sorted(found)
        self.waiting_lanes = {place: build.alloca(I32) for place in self.waiting_places}
        for word in self.waiting_lanes.values():
            build.store(I32(0), word)
        self.entries = [function.append_basic_block(f"p{place.index}_") for place in self.places]
        self.checks = {
            place: function.append_basic_block(f"c{place}_") for place in self.waiting_places
        }
        self.finish = function.append_basic_block("finish")
