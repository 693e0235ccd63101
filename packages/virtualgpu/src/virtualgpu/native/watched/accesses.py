"""Functions, shared by all watched kernels, that check and record each access.

Each compares the records of the touched memory (:mod:`.rules`) with this access, writes new
records, and returns 0, or 1 if something may be wrong: a race, memory that was never written, or
an illegal address. They are compiled when first needed, and then loaded from disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from llvmlite import ir

from virtualgpu.compilers.building import each_bit, function, intrinsic, item
from virtualgpu.compilers.llvm import linkable
from virtualgpu.native.context import ADDRESSES, LANES, LIMIT
from virtualgpu.native.spaces import by_space
from virtualgpu.native.values import (
    I32,
    I64,
    IOTA,
    POINTER,
    Context,
    bits_of_mask,
    constant_vector,
    mask_of_bits,
    pointer_to,
    splat,
)
from virtualgpu.native.watched.allocations import prepare, prepare_all
from virtualgpu.native.watched.granules import BAD, Kind, Looker, words_of
from virtualgpu.native.watched.rules import SITE_WORDS, WORD, Rules
from virtualgpu.operations.expression import Value, select

RECORD = 4  # bytes


@contextmanager
def watching(name: str, arguments: list[ir.Type]) -> Iterator[tuple[Context, list[ir.Value]]]:
    """Build a function ``(context, site number, …)`` that returns 0 at its end.

    The site's words of the watched run are the first of the values.
    """
    build, (pointer, number, *rest) = function(name, [POINTER, I64, *arguments])
    context = Context(build, pointer)
    sites = pointer_to(build, words_of(context).load(WORD["sites"]))
    at = build.gep(sites, [build.mul(number, I64(SITE_WORDS))], source_etype=I64)
    yield context, [at, *rest]
    build.ret(I64(0))


# -- one address for all lanes ---------------------------------------------------------------------


@cache
def same(kind: Kind) -> str:
    """Build a check of an access in which all lanes of the mask use one address."""
    name = f"watch_same_{kind.name}"
    with watching(name, [I64, I32]) as (context, (site, address, mask)):
        build = context.build
        look = Looker(context, kind, kind.space, site)
        if kind.space == "global":
            prepare(look, address, kind)
        several = build.icmp_unsigned("!=", build.and_(mask, build.sub(mask, I32(1))), I32(0))
        if kind.kind == "store" and not kind.strong:
            with build.if_then(several):
                build.ret(BAD)
        lowest = Value(build, build.cttz(mask, ir.Constant(ir.IntType(1), 1)), "u32")
        code = select(Value(build, several, "pred"), look.several(), look.first + lowest)
        rules = look.rules(code, together=True)
        first = build.lshr(address, I64(look.shift))
        for part in range(look.width):
            _same_part(look, rules, build.add(first, I64(part)))
    return linkable(str(build.module), name, "few")


def _same_part(look: Looker, rules: Rules, granule: ir.Value) -> None:
    build = look.build

    wrong, unwritten = look.look(
        rules,
        lambda which: Value(build, build.load(look.at(which, granule), typ=I32), "u32"),
        lambda which, record, before: build.store(record.node, look.at(which, granule)),
    )
    look.leave_if(wrong)
    if unwritten is not None:
        look.demand_written(build.zext(unwritten.node, I32), lambda lane: granule)


# -- an address for each lane ----------------------------------------------------------------------


@cache
def apart(kind: Kind) -> str:
    """Return the function that checks lanes with scattered addresses.

    ``(context, site number, mask, …)`` also takes the words of the instruction that a run without
    checks uses. The lanes' addresses are in the context, and may be illegal.
    """
    name = f"watch_apart_{kind.name}"
    with watching(name, [I32, POINTER]) as (context, (site, mask, plain)):
        build = context.build
        addresses = Value(
            build, build.load(context.at(ADDRESSES), typ=ir.VectorType(I64, LANES), align=8), "u64"
        )
        if kind.space != "generic":
            reached(context, kind, kind.space, site, addresses, mask, plain)
        else:
            for space, own, lanes in by_space(build, addresses, mask):
                with build.if_then(build.icmp_unsigned("!=", lanes, I32(0))):
                    reached(context, kind, space, site, own, lanes, plain)
    return linkable(str(build.module), name, "few")


def reached(
    context: Context,
    kind: Kind,
    space: str,
    site: ir.Value,
    addresses: Value,
    mask: ir.Value,
    plain: ir.Value,
) -> None:
    """Check the lanes of the mask that access one space."""
    build = context.build
    if space == "local":
        _local(context, kind, addresses, mask, plain)
        return
    look = Looker(context, kind, space, site)
    mixed = None
    if space == "shared":
        room = build.sub(context.load("shared_bytes"), I64(kind.size - 1))
        look.leave_if(addresses.view("s64") >= Value(build, splat(build, room), "s64"), mask)
        look.leave_if(addresses.view("s64") < 0, mask)
    else:
        mixed = prepare_all(look, addresses, mask, kind)
    look.leave_if((addresses & (kind.size - 1)) != 0, mask)
    rules = look.rules(
        Value(build, splat(build, look.first.node), "u32")
        + Value(build, constant_vector(IOTA, 32), "u32")
    )
    granules = addresses >> look.shift
    for part in range(look.width):
        _apart_part(look, rules, granules + part, mask, mixed)


def _apart_part(
    look: Looker, rules: Rules, granules: Value, mask: ir.Value, mixed: ir.Value | None
) -> None:
    """Check one granule of each lane."""
    build = look.build

    def pointers(which: str) -> ir.Value:
        base = Value(build, splat(build, look.records(which)), "u64")
        return build.inttoptr(((granules << 2) + base).node, ir.VectorType(POINTER, LANES))

    def fetch(which: str) -> Value:
        vector = ir.VectorType(I32, LANES)
        return Value(
            build,
            intrinsic(
                build,
                f"llvm.masked.gather.v{LANES}i32.v{LANES}p0",
                vector,
                [
                    pointers(which),
                    I32(RECORD),
                    mask_of_bits(build, mask),
                    ir.Constant(vector, None),
                ],
            ),
            "u32",
        )

    def scatter(which: str, record: Value, lanes: ir.Value) -> None:
        intrinsic(
            build,
            f"llvm.masked.scatter.v{LANES}i32.v{LANES}p0",
            ir.VoidType(),
            [record.node, pointers(which), I32(RECORD), mask_of_bits(build, lanes)],
        )

    crowded: list[Value] = []

    def keep(which: str, record: Value, before: Value | None) -> None:
        """Write one record for lanes that share a granule; plain writes to one are a race."""
        if before is None:
            scatter(which, record, mask)
            crowded.append(fetch(which) != record)
            return
        left = build.and_(mask, build.not_(bits_of_mask(build, rules.holds(before).node)))
        with build.if_then(build.icmp_unsigned("!=", left, I32(0))):
            scatter(which, record, left)
            differs = bits_of_mask(build, (fetch(which) != record).node)
            shared = build.and_(differs, left)
            with build.if_then(build.icmp_unsigned("!=", shared, I32(0))):
                scatter(which, rules.several(), shared)

    wrong, unwritten = look.look(rules, fetch, keep)
    look.leave_if(wrong, mask)
    if crowded:
        look.leave_if(crowded[0], mask)
    if unwritten is None:
        return
    left = build.and_(bits_of_mask(build, unwritten.node), mask)
    if mixed is not None:  # for several allocations, only complete initialisation is known here
        with build.if_then(build.and_(mixed, build.icmp_unsigned("!=", left, I32(0)))):
            build.ret(BAD)
    with build.goto_entry_block():
        table = build.alloca(ir.VectorType(I64, LANES))
    build.store(granules.node, table, align=8)
    look.demand_written(left, lambda lane: item(build, table, lane, I64))


def _local(context: Context, kind: Kind, addresses: Value, mask: ir.Value, plain: ir.Value) -> None:
    """Check a thread's local memory: reads of bytes that it never wrote."""
    build, shift = context.build, kind.grain.local
    words, limit = words_of(context), Context(build, plain).load(LIMIT)
    now, start = (build.trunc(words.load(WORD[field]), I32) for field in ("now", "start"))
    with build.goto_entry_block():
        table = build.alloca(ir.VectorType(I64, LANES))
    build.store(addresses.node, table, align=8)
    warp = build.shl(context.load("warp"), I64(5))
    with each_bit(build, mask) as lane:
        own = item(build, table, lane, I64)
        room = build.sub(limit, I64(kind.size))
        with build.if_then(
            build.or_(build.icmp_signed(">", own, room), build.icmp_signed("<", own, I64(0)))
        ):
            build.ret(BAD)
        start_of = build.mul(build.add(warp, lane), context.load("local_stride"))
        first = build.lshr(build.add(start_of, own), I64(shift))
        for part in range(max(1, kind.size >> shift)):
            offset = build.shl(build.add(first, I64(part)), I64(2))
            at = pointer_to(build, build.add(words.load(WORD["local_writes"]), offset))
            if kind.reads:
                with build.if_then(build.icmp_unsigned("<", build.load(at, typ=I32), start)):
                    build.ret(BAD)
            if kind.kind != "load":
                build.store(now, at)
