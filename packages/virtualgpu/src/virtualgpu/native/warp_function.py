"""LLVM function of a warp during code generation: its basic blocks and its masks."""

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
    """The function, the places where its lanes may be, and the masks of the waiting lanes.

    Attributes
    ----------
    first : Place
        Place at which the kernel begins.
    barriers : list of Place
        Places that end at a barrier.
    ending : set of int
        Places that only end the thread.
    waiting : list of int
        For each place, the set of places where other lanes may wait while it runs.
    mask : ir.Value
        The mask of the running lanes.
    waiting_places, waiting_lanes : list of int, dict
        All places where lanes may wait, the lowest first, and the mask of each.
    entries, checks : list and dict of ir.Block
        The code of each place, and the code that checks if lanes wait at a place; the checks
        follow each other in the order of ``waiting_places``.
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
        # Otherwise LLVM's spill slots straddle two cache lines.
        function.attributes.alignstack = 64
        function.attributes.add("nounwind")  # llvmlite omits the first without it
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
        """Add the blocks of all places, and masks for waiting lanes, also at places in ``more``."""
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
