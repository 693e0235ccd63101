"""Scalar loads in Triton programs, with which all threads get one value.

In the source, a Triton program has one thread of control, but the compiler makes each CUDA thread
load the value. A scalar is stored only by thread 0. If only that thread uses the loaded value, the
other threads have read nothing from the program's point of view.
"""

from __future__ import annotations

from virtualgpu.program.program import FunctionCode, Program
from virtualgpu.program.steps import Data, MemoryAccess, Move, Parameter, Step, registers_in
from virtualgpu.ptx import Immediate
from virtualgpu.ptx.module import ONE_STORE

# These differ between the threads of a block.
_OWN = ("%tid", "%laneid", "%warpid", "%lanemask", "%clock")


def scalar_loads(program: Program) -> dict[int, bool]:
    """Return such loads by instruction ``id``, with True if only thread 0 uses the value.

    The result is empty for kernels of other compilers.
    """
    known: dict[int, bool] | None = program.scalars
    if known is None:
        code = program.entry_code
        scalars = ONE_STORE in code.function.pragmas
        known = program.scalars = _Uses(code).find() if scalars else {}
    return known


class _Uses:
    def __init__(self, code: FunctionCode):
        self.code = code
        self.steps = [(block, step) for block in code.blocks for step in block.steps]
        self.makers: dict[int, list[Step]] = {}
        for _, step in self.steps:
            for slot in step.writes:
                self.makers.setdefault(slot, []).append(step)

    def find(self) -> dict[int, bool]:
        return {
            id(step.instruction): self._thread_0_uses(step)
            for _, step in self.steps
            if isinstance(step, MemoryAccess)
            and step.site.kind == "load"
            and self._is_uniform(step)
        }

    def _is_uniform(self, load: MemoryAccess) -> bool:
        """Return True if the address does not depend on the thread."""
        seen, todo = set[int](), self._slots(load)
        while todo:
            slot = todo.pop()
            if slot in seen:
                continue
            seen.add(slot)
            for step in self.makers.get(slot, []):
                names = [register.name for register in registers_in(step.sources)]
                if any(name.startswith(_OWN) for name in names):
                    return False
                loads = isinstance(step, MemoryAccess) and step.site.kind == "load"
                if not (loads or isinstance(step, Data | Move | Parameter)):
                    return False
                todo += self._slots(step)
        return True

    def _slots(self, step: Step) -> list[int]:
        return [slot for slot in step.reads if slot in self.makers]

    def _thread_0_uses(self, load: MemoryAccess) -> bool:
        held, todo = set[int](), list(load.writes)
        while todo:
            slot = todo.pop()
            if slot in held:
                continue
            held.add(slot)
            for block, step in self.steps:
                if block.guard is not None and block.guard[0] == slot:
                    return False
                if slot not in step.reads:
                    continue
                if isinstance(step, Data | Move):
                    todo += step.writes
                elif not (
                    isinstance(step, MemoryAccess)
                    and block.guard is not None
                    and not block.guard[1]
                    and self._means_thread_0(block.guard[0])
                ):
                    return False
        return True

    def _means_thread_0(self, predicate: int) -> bool:
        """Return True for ``setp.eq`` of the thread's index and 0."""
        made = self.makers.get(predicate, [])
        if len(made) != 1 or made[0].instruction.name.split(".")[:2] != ["setp", "eq"]:
            return False
        number, zero = made[0].sources[:2]
        if zero != Immediate(0):
            return False
        names = {register.name for register in registers_in([number])}
        for slot in made[0].reads:
            copies = self.makers.get(slot, [])
            if len(copies) == 1 and isinstance(copies[0], Move):
                names |= {register.name for register in registers_in(copies[0].sources)}
        return "%tid.x" in names
