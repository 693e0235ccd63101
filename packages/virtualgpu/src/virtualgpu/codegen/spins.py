"""Loops that may wait for another thread: they need a fair schedule, which native code has not.

Warps run one after the other here, each to its end or to a barrier. A lane that waits for what a
later warp writes would wait for ever. So a kernel stays on the interpreting machine if a loop of
it reads memory with ``volatile``, an order or an atomic whose old value somebody uses, or if a
loop's branch depends on an address that the loop never changes.
"""

from __future__ import annotations

from virtualgpu.codegen import control_flow
from virtualgpu.codegen.control_flow import Place
from virtualgpu.codegen.decode import Access, Step
from virtualgpu.codegen.refusal import Refused
from virtualgpu.ptx import Register


def refuse(places: list[Place], steps: list[list[Step]]) -> None:
    """Raise Refused for a kernel that may spin."""
    used = used_registers(places, steps)
    for loop in control_flow.loops(places):
        body = [step for index in loop for step in steps[index]]
        for step in body:
            if not isinstance(step, Access):
                continue
            if step.site.kind == "load" and step.site.strong:
                raise Refused("a loop that looks at memory which others change")
            if step.site.kind == "atomic" and used & set(step.writes):
                raise Refused("a loop that uses what an atomic found")
        _refuse_plain_wait([places[index] for index in loop], body)


def used_registers(places: list[Place], steps: list[list[Step]]) -> set[int]:
    """Registers that some instruction reads."""
    used = {slot for some in steps for step in some for slot in step.reads}
    return used | {place.block.guard[0] for place in places if place.block.guard is not None}


def _refuse_plain_wait(places: list[Place], body: list[Step]) -> None:
    changed = {slot for step in body for slot in step.writes}
    seen: set[int] = set()
    for step in body:
        if isinstance(step, Access) and step.site.kind == "load" and step.site.space != "local":
            where = step.sources[0]
            if not isinstance(where, Register) or not changed & step.reads:
                seen.update(step.writes)
    while True:
        more = {slot for step in body if seen & step.reads for slot in step.writes} - seen
        if not more:
            break
        seen |= more
    for place in places:
        block = place.block
        guards = set() if block.guard is None else {block.guard[0]}
        if block.kind == "branch" and block.last is not None and block.last.guard is not None:
            guards.add(block.function.slots.get(block.last.guard[0].name, -1))
        if seen & guards:
            raise Refused("a loop that looks at one place in memory until it changes")
