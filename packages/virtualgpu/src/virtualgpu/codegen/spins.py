"""Loops that may wait for another thread, and must let it run.

Warps run one after the other in native code, each as far as it can. A lane that waits for what
another lane or a later warp writes would wait for ever. So a loop counts its rounds and yields if
it reads memory with ``volatile``, an order or an atomic whose old value somebody uses, or if its
branch depends on an address that the loop never changes.
"""

from __future__ import annotations

from virtualgpu.codegen import control_flow
from virtualgpu.codegen.control_flow import Place
from virtualgpu.codegen.decode import Access, Step
from virtualgpu.ptx import Register


def spinning(places: list[Place], steps: list[list[Step]]) -> set[int]:
    """The places of all loops that may wait."""
    used = used_registers(places, steps)
    found: set[int] = set()
    for loop in control_flow.loops(places):
        body = [step for index in loop for step in steps[index]]
        if any(_looks(step, used) for step in body) or _waits_plainly(
                [places[index] for index in loop], body):
            found |= loop
    return found


def used_registers(places: list[Place], steps: list[list[Step]]) -> set[int]:
    """Registers that some instruction reads."""
    used = {slot for some in steps for step in some for slot in step.reads}
    return used | {place.block.guard[0] for place in places if place.block.guard is not None}


def _looks(step: Step, used: set[int]) -> bool:
    """At memory that others change."""
    if not isinstance(step, Access):
        return False
    if step.site.kind == "load":
        return step.site.strong
    return step.site.kind == "atomic" and bool(used & set(step.writes))


def _waits_plainly(places: list[Place], body: list[Step]) -> bool:
    """Whether a loop looks at one place in memory until it changes."""
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
            return True
    return False
