"""Uniformity analysis: registers with one value for all lanes that run together.

A register is uniform if every instruction that writes it computes one value for the warp, and if
none writes it while waiting lanes still need the old value (the sync dependence of Coutinho et
al., "Divergence Analysis and Optimizations", PACT 2011). Such a register is one number in native
code, and lanes never diverge at a branch on it.
"""

from __future__ import annotations

from virtualgpu.native.flow import control_flow
from virtualgpu.native.flow.control_flow import Place, chosen
from virtualgpu.native.flow.decode import IntrinsicCall, PassedValues
from virtualgpu.native.operands import CLOCKS
from virtualgpu.program.program import Program
from virtualgpu.program.steps import Barrier, MemoryAccess, Parameter, Step
from virtualgpu.ptx import Immediate, Register, Symbol
from virtualgpu.ptx.module import Operand
from virtualgpu.ptx.opcodes import COLLECTIVES

# Special registers that have one value for a warp.
SPECIALS = {
    *(f"%{name}.{axis}" for name in ("ctaid", "ntid", "nctaid") for axis in "xyz"),
    "%warpid",
    "%nwarpid",
    "%dynamic_smem_size",
    "%total_smem_size",
    "%smid",
    "%nsmid",
    *(f"%envreg{i}" for i in range(32)),
}


class Uniformity:
    """Result of the analysis: ``varying`` registers, and those ``waiting`` at each place.

    ``apart`` is the set of places that lanes can reach once they may have diverged
    (:mod:`.divergence`).
    """

    def __init__(
        self,
        program: Program,
        places: list[Place],
        steps: list[list[Step]],
        gone: set[int],
        apart: bool = False,
    ):
        self.program, self.places, self.steps = program, places, steps
        self.gone, self.apart = gone, apart
        self.varying: set[int] = set()
        self.waiting: list[int] = []
        self._solve()

    def is_uniform(self, place: Place, operand: Operand) -> bool:
        if isinstance(operand, Immediate | Symbol):
            return True
        if not isinstance(operand, Register):
            return False
        name = operand.name.removeprefix("!")
        code = place.block.function
        if name in code.slots:
            return code.slots[name] not in self.varying
        return name in SPECIALS or name in CLOCKS

    def result_is_uniform(self, place: Place, step: Step) -> bool:
        if isinstance(step, Parameter | PassedValues):
            return not step.reads & self.varying
        if isinstance(step, Barrier):
            return step.grid
        if step.instruction.opcode in COLLECTIVES or isinstance(step, IntrinsicCall):
            return False
        # A thread's local memory, or an address that may be there.
        if isinstance(step, MemoryAccess) and (
            step.site.kind == "atomic" or step.site.space not in ("global", "shared")
        ):
            return False
        if step.reads & self.varying:
            return False
        return all(self.is_uniform(place, source) for source in step.sources)

    def _solve(self) -> None:
        while True:
            parting, guarded = set(), set()
            for place in self.places:
                block = place.block
                if (
                    block.kind == "branch"
                    and block.last is not None
                    and (block.last.guard is not None)
                    and not self.is_uniform(place, block.last.guard[0])
                ):
                    parting.add(place.index)
                way = chosen(place)
                if way is not None and not self.is_uniform(place, way):
                    parting.add(place.index)
                if block.guard is not None and block.guard[0] in self.varying:
                    guarded.add(place.index)
                mask = block.warp_mask
                if self.apart and isinstance(mask, int) and mask in self.varying:
                    guarded.add(place.index)  # teams continue one by one
            find = control_flow.anywhere if self.apart else control_flow.waiting
            self.waiting = find(self.places, parting, guarded, self.gone)
            grown: set[int] = set()
            for place in self.places:
                needed = self.needed_by_others(place.index)
                for step in self.steps[place.index]:
                    uniform = self.result_is_uniform(place, step)
                    grown.update(slot for slot in step.writes if not uniform or slot in needed)
            if grown <= self.varying:
                return
            self.varying |= grown

    def needed_by_others(self, index: int) -> set[int]:
        """Return the registers that waiting lanes need while this place's block runs."""
        needed: set[int] = set()
        for waiting in control_flow.members(self.waiting[index]):
            needed |= self.places[waiting].live_in
        return needed
