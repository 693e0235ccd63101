"""Detector of loops that may wait for another thread, and must let it run.

In native code, warps run one after the other, each as far as it can. A lane that waits for a store
of another lane or a later warp would therefore wait for ever. So certain loops count their
iterations and yield. These are loops that read memory with ``volatile``, with an order, or with an
atomic whose old value is used. They are also loops in which a branch depends on one place in
memory and on nothing that the loop itself changes, or on something that the loop changes by the
value that it reads there (a step that may be zero). All loops inside such a loop yield too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from virtualgpu.native.flow.control_flow import Place
from virtualgpu.native.flow.decode import PassedValues
from virtualgpu.program.loops import cycles
from virtualgpu.program.steps import MemoryAccess, Step
from virtualgpu.ptx import Register

# A register, or a place in memory, identified by the address operand of its loads and stores.
Cell: TypeAlias = Hashable


def spinning(places: list[Place], steps: list[list[Step]]) -> set[int]:
    """Return the places of all loops that may wait."""
    used = used_registers(places, steps)
    found: set[int] = set()
    for loop in _loops(places, set(range(len(places)))):
        if any(_looks(step, used) for index in loop for step in steps[index]):
            found |= loop
            continue
        todo = [loop]
        while todo:
            inner = todo.pop()
            heads = _heads(places, inner)
            nested = _loops(places, inner - heads)
            # A branch in a nested loop is examined with that loop.
            own = inner.difference(*nested)
            if _Loop(places, steps, inner).waits_plainly(own, heads):
                found |= loop
                break
            todo += nested
    return found


def _loops(places: list[Place], within: set[int]) -> list[set[int]]:
    """Return the outermost loops among some places."""
    return cycles({index: places[index].onward & within for index in sorted(within)})


def _heads(places: list[Place], loop: set[int]) -> set[int]:
    """Return the places at which a loop is entered."""
    entered = {target for place in places if place.index not in loop for target in place.onward}
    return loop & entered or {min(loop)}


def used_registers(places: list[Place], steps: list[list[Step]]) -> set[int]:
    """Return the registers that some instruction reads."""
    used = {slot for some in steps for step in some for slot in step.reads}
    return used | {place.block.guard[0] for place in places if place.block.guard is not None}


def _looks(step: Step, used: set[int]) -> bool:
    """Return True for an access that reads what other threads write."""
    if not isinstance(step, MemoryAccess):
        return False
    if step.site.kind == "load":
        return step.site.strong
    return step.site.kind == "atomic" and bool(used & set(step.writes))


def _guards(place: Place) -> set[int]:
    """Return the registers that decide where lanes go from a place."""
    block = place.block
    found = set() if block.guard is None else {block.guard[0]}
    if block.kind == "branch" and block.last is not None and block.last.guard is not None:
        found.add(block.function.slots.get(block.last.guard[0].name, -1))
    return found


class _Loop:
    """Data flow within a loop.

    ``loaded`` holds the registers whose values were loaded, from an address that does not change,
    out of memory that other threads may write.
    """

    def __init__(self, places: list[Place], steps: list[list[Step]], loop: set[int]):
        self.places = places
        self.sources: dict[Cell, set[Cell]] = {}
        self.loaded: set[Cell] = set()
        self.changed = {slot for index in loop for step in steps[index] for slot in step.writes}
        for index in loop:
            for step in steps[index]:
                self._add(places[index], step)

    def _add(self, place: Place, step: Step) -> None:
        if isinstance(step, PassedValues):
            for slot, origin in step.passing.registers.items():
                self.sources.setdefault(slot, set()).update(() if origin is None else (origin,))
            return
        written: list[Cell] = list(step.writes)
        sources: set[Cell] = set(step.reads)
        if isinstance(step, MemoryAccess) and step.site.kind in ("load", "store"):
            base, site = step.sources[0], step.site
            named = (
                place.block.function.slots.get(base.name) if (isinstance(base, Register)) else None
            )
            memory = (site.space, base if named is None else named, site.offset)
            if site.kind == "load":
                sources.add(memory)
                if site.space != "local" and named not in self.changed:
                    self.loaded.update(written)
            else:
                written.append(memory)
        for cell in written:
            self.sources.setdefault(cell, set()).update(sources)

    def waits_plainly(self, own: set[int], heads: set[int]) -> bool:
        """Return True if a branch at one of the places ``own`` depends only on memory.

        Between iterations, only memory may change what the branch depends on, so it must not
        depend on a counter, an index or a sum.
        """
        carried: set[Cell] | None = None
        for index in own:
            made_of = self._made_of(_guards(self.places[index]))
            if made_of & self.loaded:
                carried = self._carried(heads) if carried is None else carried
                counted = made_of & carried
                if not counted or any(self.loaded & self.sources[cell] for cell in counted):
                    return True
        return False

    def _made_of(self, cells: Iterable[Cell]) -> set[Cell]:
        found: set[Cell] = set()
        todo = list(cells)
        while todo:
            cell = todo.pop()
            if cell not in found:
                found.add(cell)
                todo += self.sources.get(cell, ())
        return found

    def _carried(self, heads: set[int]) -> set[Cell]:
        """Return cells computed from their own or each other's values in the last iteration."""
        kept = frozenset[int]().union(*(self.places[head].live_in for head in heads))
        parts = cycles(
            {
                cell: [one for one in made_of if one in self.sources]
                for cell, made_of in self.sources.items()
            }
        )
        return {
            cell
            for part in parts
            for cell in part
            if any(one in kept or isinstance(one, tuple) for one in part)
        }
