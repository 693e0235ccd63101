"""Lookup of the allocations that an access touches, in native code under ``check()``.

An allocation's bytes are saved before the first store to it. As long as there is no store, its
loads are not recorded.
"""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.compilers.building import each_bit, intrinsic, item
from virtualgpu.compilers.loops import U64, compiled, copy
from virtualgpu.native.context import LANES, WORD, ContextWords
from virtualgpu.native.locate import search
from virtualgpu.native.values import I32, I64, bits_of_mask, splat
from virtualgpu.native.watched.granules import BAD, Kind, Looker
from virtualgpu.native.watched.rules import (
    ALL,
    FREE,
    LOW,
    MAP,
    SPAN,
    STATE_WORDS,
    AllocationState,
    WatchedSite,
    WatchWords,
)
from virtualgpu.operations.expression import Value


def prepare(look: Looker, address: ir.Value, kind: Kind) -> None:
    """Set the site's allocation for a legal ``address``, and save bytes before a store."""
    build = look.build
    far = build.sub(address, look.site.load(LOW))
    with build.if_then(build.icmp_unsigned(">=", far, look.site.load(SPAN)), likely=False):
        _know(look, address, kind)
    _leave_free(look, kind)


def _leave_free(look: Looker, kind: Kind) -> None:
    if kind.may_be_free:
        with look.build.if_then(look.build.icmp_unsigned("!=", look.site.load(FREE), I64(0))):
            look.build.ret(I64(0))


def prepare_all(look: Looker, addresses: Value, mask: ir.Value, kind: Kind) -> ir.Value:
    """Set the site's allocation for the addresses of all lanes, which may be illegal.

    Returns True if they are in several allocations of which some are not fully initialised.
    """
    build, site = look.build, look.site

    def outside() -> ir.Value:
        low, span = (Value(build, splat(build, site.load(word)), "u64") for word in (LOW, SPAN))
        return build.and_(bits_of_mask(build, (addresses - low >= span).node), mask)

    with build.goto_entry_block():
        mixed = build.alloca(ir.IntType(1))
        table = build.alloca(ir.VectorType(I64, LANES))
    build.store(ir.IntType(1)(0), mixed)
    far = outside()
    with build.if_then(build.icmp_unsigned("!=", far, I32(0)), likely=False):
        build.store(addresses.node, table, align=8)
        _know(
            look, item(build, table, build.zext(build.cttz(far, ir.IntType(1)(1)), I64), I64), kind
        )
        with build.if_then(build.icmp_unsigned("!=", outside(), I32(0))):
            with each_bit(build, mask) as lane:
                _know(look, item(build, table, lane, I64), kind)
                partly = build.icmp_unsigned("!=", site.load(MAP), I64(ALL))
                build.store(build.or_(build.load(mixed), partly), mixed)
            site.store(SPAN, I64(0))
            site.store(FREE, I64(0))
    _leave_free(look, kind)
    return build.load(mixed)


def _know(look: Looker, address: ir.Value, kind: Kind) -> None:
    build = look.build
    more = [I64(kind.size), I64(int(kind.may_be_free)), I64(int(kind.kind != "load"))]
    pointers = [look.context.pointer, look.site.pointer]
    answer = intrinsic(build, know.symbol, I64, [*pointers, address, *more])
    with build.if_then(build.icmp_unsigned("!=", answer, I64(0)), likely=False):
        build.ret(BAD)


@compiled(passes="few")
def know(
    context: ContextWords, site: WatchedSite, address: int, size: int, may_be_free: int, stores: int
) -> int:
    """Fill the site's words, and save an allocation's bytes before the first store to it.

    Returns 1 for an address outside all allocations, and for a store if loads were not recorded.
    """
    words: WatchWords = context.watch
    starts: U64 = context.global_starts
    ends: U64 = context.global_ends
    number = search(starts, ends, context.global_count, address, size)
    if number < 0:
        return 1
    low = starts[number]
    nbytes = ends[number] - low
    state: AllocationState = words.states + WORD * STATE_WORDS * number
    site.low = low
    site.span = nbytes - size + 1
    site.map = state.written
    if may_be_free:
        site.free = not state.kept and not state.tracked and state.written == ALL
        if site.free:
            state.read = 1
    elif stores and not state.kept:
        if state.read:
            words.again = number + 1
            return 1
        state.kept = 1
        copy(words.backup + low, context.delta + low, nbytes)
    return 0
