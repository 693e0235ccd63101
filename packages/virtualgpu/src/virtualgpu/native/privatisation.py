"""Private sums: each core adds to its own copy of an array that all blocks add to.

If all threads add integers to few elements (a histogram), the processor's own atomics move each
cache line from core to core, and two cores take longer than one. So each core adds to its own
copy, which begins with zeros, and adds the copy to memory when its batch of blocks ends, when it
stops, and at intervals in a long loop. Integer sums wrap, so they are the same in any order.

One allocation at a time has private sums: the first one of at most ROOM bytes to which an
instruction adds without using the old value. No other instruction may access it while they exist.
Each instruction calls :func:`.locate.locate` before it uses another allocation, and
:func:`.locate.locate` calls :func:`claim`. If the instruction does anything else to that
allocation, or another instruction did so last, the private sums end.
"""

from __future__ import annotations

from typing import Any

from virtualgpu.compilers.loops import U32, U64, atomic_add, compiled
from virtualgpu.native.context import ROOM, SITE_WORDS, SITES, WORD, ContextWords, SiteWords
from virtualgpu.program.steps import MemoryAccess, Step


def width(step: Step, used: set[int]) -> int:
    """Return the size in bytes of the integer that a step adds to global memory.

    The result is 0 for all other steps, and if one of the ``used`` registers receives the old
    value.
    """
    if not isinstance(step, MemoryAccess) or step.site.kind != "atomic":
        return 0
    site = step.site
    adds = site.operation == "add" and site.dtype.kind in "iu" and site.dtype.itemsize in (4, 8)
    return (
        site.dtype.itemsize
        if (adds and site.space != "shared" and not used & set(step.writes))
        else 0
    )


@compiled(inline=False)
def claim(address: Any, site: SiteWords, low: int, nbytes: int) -> None:
    """Give an instruction private sums for the allocation at device address ``low``.

    ``address`` is the address of the context.
    """
    context: ContextWords = address
    start = low + context.delta
    if context.own_span:
        if start == context.own_start and site.adds != context.own_width:
            merge(context)
            context.own_span = 0
            context.own_room = 0  # no private sums again in this launch
        return
    if site.adds == 0 or context.own_room == 0 or nbytes > ROOM or start & (WORD - 1):
        return
    for number in range(context.sites):
        other: SiteWords = address + WORD * (SITES + SITE_WORDS * number)
        if other.low == low and other.span and other.adds != site.adds:
            return
    context.own_start = start
    context.own_width = site.adds
    context.own_span = nbytes


@compiled(passes="few")
def merge(context: ContextWords) -> None:
    """Add the core's private sums to memory with atomics, and set them to zero."""
    if context.own_width == 4:
        kept: U32 = context.own_room
        place: U32 = context.own_start
        for number in range(context.own_span >> 2):
            if kept[number]:
                atomic_add(place, number, kept[number])
                kept[number] = 0
    else:
        wide: U64 = context.own_room
        sums: U64 = context.own_start
        for number in range(context.own_span >> 3):
            if wide[number]:
                atomic_add(sums, number, wide[number])
                wide[number] = 0
