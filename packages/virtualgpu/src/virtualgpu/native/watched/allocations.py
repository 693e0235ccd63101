"""Which allocation an access reaches, and what has to be done before: bytes kept before the first
store, loads left unrecorded while there is none."""

from __future__ import annotations

from llvmlite import ir

from virtualgpu.compilers.building import each_bit, function, item
from virtualgpu.native import locate
from virtualgpu.native.context import LANES
from virtualgpu.native.values import I32, I64, POINTER, Context, bits_of_mask, pointer_to, splat
from virtualgpu.native.watched.granules import BAD, Kind, Looker, words_of
from virtualgpu.native.watched.rules import (
    ALL,
    FREE,
    KEPT,
    LOW,
    MAP,
    READ,
    SPAN,
    STATE_WORDS,
    TRACKED,
    WORD,
    WRITTEN,
)
from virtualgpu.operations.expression import Value


def prepare(look: Looker, address: ir.Value, kind: Kind) -> None:
    """Have the site know the allocation of a legal ``address``, and what is written kept."""
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
    """The same for the addresses of all lanes, which may be illegal; whether they lie in several
    allocations of which not all are written in full."""
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
    called = know_into(build.module, kind)
    answer = build.call(called, [look.context.pointer, look.site.pointer, address])
    with build.if_then(build.icmp_unsigned("!=", answer, I64(0)), likely=False):
        build.ret(BAD)


def know_into(module: ir.Module, kind: Kind) -> ir.Function:
    """``(context, site, address)``: fill the site's words; before the first store to an allocation
    keep its bytes. 1 for an address outside, and for a store where loads went unrecorded."""
    name, size = "know", kind.size
    if (known := module.globals.get(name)) is not None:
        return known
    search = locate.search(module)
    build, (pointer, site_pointer, address) = function(name, [POINTER, POINTER, I64], module)
    context, site = Context(build, pointer), Context(build, site_pointer)
    words = words_of(context)
    number = build.call(search, [context.at("global_starts"), address, I64(size)])
    with build.if_then(build.icmp_signed("<", number, I64(0)), likely=False):
        build.ret(BAD)
    low, high = (
        item(build, pointer_to(build, context.load(f"global_{which}")), number, I64)
        for which in ("starts", "ends")
    )
    at = build.mul(number, I64(STATE_WORDS))
    states = pointer_to(build, words.load(WORD["states"]))

    def state(word: int) -> ir.Value:
        return build.gep(states, [build.add(at, I64(word))], source_etype=I64)

    def is_set(word: int) -> ir.Value:
        return build.icmp_unsigned("!=", build.load(state(word), typ=I64), I64(0))

    written = build.load(state(WRITTEN), typ=I64)
    site.store(LOW, low)
    site.store(SPAN, build.sub(build.sub(high, low), I64(size - 1)))
    site.store(MAP, written)
    if kind.may_be_free:
        free = build.not_(build.or_(is_set(KEPT), is_set(TRACKED)))
        free = build.and_(free, build.icmp_unsigned("==", written, I64(ALL)))
        site.store(FREE, build.zext(free, I64))
        with build.if_then(free):
            build.store(I64(1), state(READ))
    elif kind.kind != "load":
        with build.if_then(build.not_(is_set(KEPT))):
            with build.if_then(is_set(READ)):
                words.store(WORD["again"], build.add(number, I64(1)))
                build.ret(BAD)
            build.store(I64(1), state(KEPT))
            copy = build.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
            build.call(
                copy,
                [
                    pointer_to(build, build.add(words.load(WORD["backup"]), low)),
                    pointer_to(build, build.add(context.load("delta"), low)),
                    build.sub(high, low),
                    ir.IntType(1)(0),
                ],
            )
    build.ret(I64(0))
    return build.function
