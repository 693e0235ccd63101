"""Loops that may wait for another thread: they need a fair schedule, which native code has not.

Warps run one after the other here, each to its end or to a barrier. A lane that waits for what a
later warp writes would wait for ever. So a kernel stays on the interpreting machine if a loop of
it reads memory with ``volatile``, an order or an atomic whose old value somebody uses, or if a
loop's branch depends on an address that the loop never changes.
"""

from __future__ import annotations

from virtualgpu.codegen import control_flow
from virtualgpu.codegen.decode import Step
from virtualgpu.codegen.refusal import Refused
from virtualgpu.codegen.uniformity import written
from virtualgpu.machine.program import Block, Program
from virtualgpu.ptx import Register


def refuse(program: Program, blocks: list[Block], steps: dict[int, list[Step]]) -> None:
    """Raise Refused for a kernel that may spin."""
    used = {slot for some in steps.values() for step in some for slot in read(program, step)}
    used |= {block.guard[0] for block in blocks if block.guard is not None}
    for loop in control_flow.loops(blocks):
        body = [step for index in loop for step in steps[index]]
        for step in body:
            if step.kind == "load" and step.site.strong:
                raise Refused("a loop that looks at memory which others change")
            if step.kind == "atomic" and used & set(step.targets):
                raise Refused("a loop that uses what an atomic found")
        _refuse_plain_wait(program, [b for b in blocks if b.index in loop], body)


def _refuse_plain_wait(program: Program, blocks: list[Block], body: list[Step]) -> None:
    changed = {slot for step in body for slot in written(step)}
    seen = {
        slot for step in body if step.kind == "load" and step.site.space != "local"
        and not changed & set(_slots(program, step.sources[:1]))
        for slot in written(step)}
    while True:
        more = {slot for step in body if seen & set(read(program, step))
                for slot in written(step)} - seen
        if not more:
            break
        seen |= more
    for block in blocks:
        guards = [block.guard[0]] if block.guard is not None else []
        if block.kind == "branch":
            guards += _slots(program, (block.last.guard[0],))
        if seen & set(guards):
            raise Refused("a loop that looks at one place in memory until it changes")


def read(program: Program, step: Step) -> list[int]:
    """The registers that a step reads."""
    slots = _slots(program, step.sources)
    if step.carry is not None and step.operation.carry_in:
        slots.append(step.carry)
    return slots


def _slots(program: Program, operands) -> list[int]:
    code = program.entry_code
    return [
        code.slots[name] for operand in operands if isinstance(operand, Register)
        and (name := operand.name.removeprefix("!")) in code.slots]
