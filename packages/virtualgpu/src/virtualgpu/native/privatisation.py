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

from functools import cache

from llvmlite import ir

from virtualgpu.compilers.building import count_to, function, intrinsic
from virtualgpu.compilers.llvm import linkable
from virtualgpu.native.context import ADDS, LOW, ROOM, SITE_WORDS, SITES, SPAN, WORD
from virtualgpu.native.values import I64, POINTER, Context, pointer_to
from virtualgpu.program.steps import MemoryAccess, Step


def width(step: Step, used: set[int]) -> int:
    """Bytes of an integer that the step adds to global memory, where none of the ``used`` registers
    takes the old one; 0 for all other steps."""
    if not isinstance(step, MemoryAccess) or step.site.kind != "atomic":
        return 0
    site = step.site
    adds = site.operation == "add" and site.dtype.kind in "iu" and site.dtype.itemsize in (4, 8)
    return (
        site.dtype.itemsize
        if (adds and site.space != "shared" and not used & set(step.writes))
        else 0
    )


@cache
def claim() -> str:
    """``(context, site, low, nbytes)`` → 0. An instruction goes over to the allocation at device
    address ``low``: it gets sums of its own, or has had them."""
    build, (pointer, site_pointer, low, nbytes) = function("claim", [POINTER, POINTER, I64, I64])
    context, site = Context(build, pointer), Context(build, site_pointer)
    start, adds = build.add(low, context.load("delta")), site.load(ADDS)

    def leave_if(*conditions: ir.Value) -> None:
        for condition in conditions:
            with build.if_then(condition):
                build.ret(I64(0))

    with build.if_then(build.icmp_unsigned("!=", context.load("own_span"), I64(0))):
        leave_if(
            build.icmp_unsigned("!=", start, context.load("own_start")),
            build.icmp_unsigned("==", adds, context.load("own_width")),
        )
        intrinsic(build, merge(), I64, [pointer])
        context.store("own_span", I64(0))
        context.store("own_room", I64(0))  # not again in this launch
        build.ret(I64(0))
    leave_if(
        build.icmp_unsigned("==", adds, I64(0)),
        build.icmp_unsigned("==", context.load("own_room"), I64(0)),
        build.icmp_unsigned(">", nbytes, I64(ROOM)),
        build.icmp_unsigned("!=", build.and_(start, I64(WORD - 1)), I64(0)),
    )
    with count_to(build, context.load("sites")) as number:
        words = Context(
            build,
            build.gep(
                context.at(SITES),
                [build.mul(number, I64(SITE_WORDS * WORD))],
                source_etype=ir.IntType(8),
            ),
        )
        there = build.and_(
            build.icmp_unsigned("==", words.load(LOW), low),
            build.icmp_unsigned("!=", words.load(SPAN), I64(0)),
        )
        leave_if(build.and_(there, build.icmp_unsigned("!=", words.load(ADDS), adds)))
    context.store("own_start", start)
    context.store("own_width", adds)
    context.store("own_span", nbytes)
    build.ret(I64(0))
    return linkable(str(build.module), "claim", "few")


@cache
def merge() -> str:
    """``(context)`` → 0. Adds to memory what the core has kept, by the processor's own atomics, and
    sets it to zero."""
    build, (pointer,) = function("merge", [POINTER])
    context = Context(build, pointer)
    span = context.load("own_span")
    with build.if_then(build.icmp_unsigned("==", span, I64(0)), likely=True):
        build.ret(I64(0))
    room, start = (pointer_to(build, context.load(word)) for word in ("own_room", "own_start"))
    narrow = build.icmp_unsigned("==", context.load("own_width"), I64(4))
    with build.if_else(narrow) as branches:
        for branch, nbytes in zip(branches, (4, 8), strict=True):
            element = ir.IntType(8 * nbytes)
            with branch, count_to(build, build.udiv(span, I64(nbytes))) as number:
                kept, place = (
                    build.gep(table, [number], source_etype=element) for table in (room, start)
                )
                value = build.load(kept, typ=element)
                with build.if_then(build.icmp_unsigned("!=", value, element(0))):
                    build.atomic_rmw("add", place, value, "monotonic")
                    build.store(element(0), kept)
    build.ret(I64(0))
    return linkable(str(build.module), "merge", "few")
