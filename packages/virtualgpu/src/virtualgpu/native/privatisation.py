"""Sums that a core keeps to itself while others run blocks of the same launch.

Where all threads add integers to few elements (a histogram), the processor's own atomics pass each
line of memory from core to core: two cores take longer than one. So each core adds to zeros of its
own, and adds these to memory when its batch of blocks ends, when it stops, and when a long loop
looks up. Sums of integers, which wrap, are the same in any order.

One allocation at a time has such sums: the first of at most ROOM bytes that an instruction adds to
whose result no instruction uses. Nothing else may see it meanwhile. Each instruction asks
:func:`.locate.locate` before it goes over to another allocation, and that tells :func:`claim`: an
instruction that does something else there, or did so last, ends it.
"""

from __future__ import annotations

from typing import Any

from virtualgpu.compilers.loops import U32, U64, atomic_add, compiled
from virtualgpu.native.context import ROOM, SITE_WORDS, SITES, WORD, ContextWords, SiteWords
from virtualgpu.program.steps import MemoryAccess, Step


def width(step: Step, used: set[int]) -> int:
    """Return the bytes of an integer that the step adds to global memory.

    0 for all other steps, and where one of the ``used`` registers takes the old value.
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

    ``address`` is the context's.
    """
    context: ContextWords = address
    start = low + context.delta
    if context.own_span:
        if start == context.own_start and site.adds != context.own_width:
            merge(context)
            context.own_span = 0
            context.own_room = 0  # not again in this launch
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
    """Add the core's private sums to memory, by the processor's atomics, and set them to zero."""
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
