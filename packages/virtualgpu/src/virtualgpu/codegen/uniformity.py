"""Which registers hold one value for all lanes of a warp that run together.

A register is uniform if every instruction that writes it computes one value for the warp, and
none writes it while lanes wait that still need the old value (Coutinho et al., "Divergence
Analysis and Optimizations", PACT 2011, whose sync dependence this is). Such a register is one
number in native code, and a branch on it never parts a warp.
"""

from __future__ import annotations

from virtualgpu.codegen import control_flow
from virtualgpu.codegen.decode import Step
from virtualgpu.machine.program import Block, Program
from virtualgpu.ptx import Immediate, Register, Symbol

# Special registers that are one number for a warp.
SPECIALS = {
    *(f"%{name}.{axis}" for name in ("ctaid", "ntid", "nctaid") for axis in "xyz"),
    "%warpid", "%nwarpid", "%dynamic_smem_size", "%total_smem_size", "%smid", "%nsmid",
}  # fmt: skip


class Uniformity:
    """The result: ``varying`` registers, and ``waiting`` for each block."""

    def __init__(self, program: Program, blocks: list[Block], steps: dict[int, list[Step]]):
        self.program, self.blocks, self.steps = program, blocks, steps
        self.varying: set[int] = set()
        self.waiting: dict[int, int] = {}
        self._solve()

    def is_uniform(self, operand) -> bool:
        if isinstance(operand, Immediate | Symbol):
            return True
        if not isinstance(operand, Register):
            return False
        name = operand.name.removeprefix("!")
        if name in self.program.entry_code.function.registers:
            slot = self.program.register(self.program.entry_code, Register(name))
            return slot not in self.varying
        return name in SPECIALS

    def result_is_uniform(self, step: Step) -> bool:
        if step.kind == "param":
            return True
        if step.kind in ("atomic", "shfl", "vote"):
            return False
        if step.kind == "activemask":
            return True
        if step.kind == "load" and step.site.space not in ("global", "shared"):
            return False  # a thread's own memory, or an address that may lie there
        if step.carry is not None and step.operation.carry_in and step.carry in self.varying:
            return False
        return all(self.is_uniform(source) for source in step.sources)

    def _solve(self) -> None:
        live = {block.index: block.live_in for block in self.blocks}
        while True:
            parting = {
                block.index for block in self.blocks
                if block.kind == "branch" and not self.is_uniform(block.last.guard[0])}
            guarded = {
                block.index for block in self.blocks
                if block.guard is not None and block.guard[0] in self.varying}
            self.waiting = control_flow.waiting(self.blocks, parting, guarded)
            grown = set()
            for block in self.blocks:
                needed = self.needed_by_others(block.index, live)
                if block.index in guarded:
                    needed |= live[block.index + 1]
                for step in self.steps[block.index]:
                    uniform = self.result_is_uniform(step)
                    for slot in written(step):
                        if not uniform or slot in needed:
                            grown.add(slot)
            if grown <= self.varying:
                return
            self.varying |= grown

    def needed_by_others(self, index: int, live: dict[int, frozenset[int]] | None = None
                         ) -> set[int]:
        """Registers that lanes need which wait while this block runs."""
        live = live or {block.index: block.live_in for block in self.blocks}
        needed: set[int] = set()
        for place in control_flow.members(self.waiting[index]):
            needed |= live[place]
        return needed


def written(step: Step) -> list[int]:
    """The registers that a step writes, the carry flag among them."""
    slots = [slot for slot in step.targets if slot is not None]
    if step.carry is not None and step.operation.carry_out:
        slots.append(step.carry)
    return slots
