"""The clock of a watched run: a block starts, all its warps pass a barrier, a warp passes its own.

Times are 21 bits of a record. When they run out, all records of the launch are written anew with
the least times that keep what they tell: another block, before the barrier, since.
"""

from __future__ import annotations

from functools import cache

from llvmlite import ir

from virtualgpu.compilers.building import count_to, function, item
from virtualgpu.compilers.llvm import linkable
from virtualgpu.native.context import LANES_AT
from virtualgpu.native.values import I32, I64, POINTER, Context, pointer_to
from virtualgpu.native.watched.granules import words_of
from virtualgpu.native.watched.rules import BITS, CODE, WORD, Grain

TICK = 1 << BITS
END = (1 << 32) - 2 * TICK  # the last time that a record can have, as it stands there
ELSEWHERE, BEFORE, SINCE = TICK, 2 * TICK, 3 * TICK  # the least times


def _start(name: str) -> tuple[ir.IRBuilder, Context, Context]:
    build, (pointer,) = function(name, [POINTER])
    context = Context(build, pointer)
    return build, context, words_of(context)


def _tick(context: Context, words: Context, grain: Grain) -> None:
    """Time moves on; where it runs out, the records are written anew."""
    build = words.build
    now = build.add(words.load(WORD["now"]), I64(TICK))
    words.store(WORD["now"], now)
    with build.if_then(build.icmp_unsigned(">", now, words.load(WORD["end"])), likely=False):
        _begin_anew(context, words, grain)


@cache
def block_starts(grain: Grain) -> str:
    """``(context)``: its memories are new."""
    build, context, words = _start("watch_block")
    _tick(context, words, grain)
    now = words.load(WORD["now"])
    words.store(WORD["start"], now)
    words.store(WORD["barrier"], now)
    if grain.warps:
        times = pointer_to(build, words.load(WORD["warp_times"]))
        with count_to(build, context.load("warps")) as warp:
            build.store(build.trunc(now, I32), build.gep(times, [warp], source_etype=I32))
    build.ret(I64(0))
    return linkable(str(build.module), "watch_block", "few")


@cache
def block_passes(grain: Grain) -> str:
    """``(context)``: 0, or 1 unless all threads of all warps stand at one barrier."""
    build, context, words = _start("watch_pass")
    first = build.load(pointer_to(build, context.load("states")), typ=I32)
    with count_to(build, context.load("warps")) as warp:
        state = build.add(context.load("states"), build.mul(warp, context.load("state_size")))
        lanes = build.load(pointer_to(build, build.add(state, I64(LANES_AT))), typ=I32)
        left = build.sub(context.load("threads"), build.shl(warp, I64(5)))
        some = build.trunc(build.sub(build.shl(I64(1), left), I64(1)), I32)
        wanted = build.select(build.icmp_unsigned(">=", left, I64(32)), I32(0xFFFF_FFFF), some)
        stands = build.load(pointer_to(build, state), typ=I32)
        there = build.and_(
            build.icmp_unsigned("==", lanes, wanted), build.icmp_unsigned("==", stands, first)
        )
        with build.if_then(build.not_(there), likely=False):
            build.ret(I64(1))
    words.store(WORD["barrier"], build.add(words.load(WORD["now"]), I64(TICK)))
    _tick(context, words, grain)
    build.ret(I64(0))
    return linkable(str(build.module), "watch_pass", "few")


@cache
def warp_meets(grain: Grain) -> str:
    """``(context)``: 0; 1 where one block takes more time than a record can hold."""
    build, context, words = _start("watch_warp")
    _tick(context, words, grain)
    now = words.load(WORD["now"])
    times = pointer_to(build, words.load(WORD["warp_times"]))
    build.store(build.trunc(now, I32), build.gep(times, [context.load("warp")], source_etype=I32))
    build.ret(build.zext(build.icmp_unsigned(">", now, words.load(WORD["end"])), I64))
    return linkable(str(build.module), "watch_warp", "few")


def _begin_anew(context: Context, words: Context, grain: Grain) -> None:
    """Give all records of the launch the least times that keep their order."""
    build = words.build
    renew = _renew(build.module)
    memories = ["global", "shared"]
    kinds = ["writes", "reads", *(["strong"] if grain.strong else [])]
    for space in memories:
        for kind in kinds:
            base = words.load(WORD[f"{space}_{kind}"])
            shift = I64(grain.of(space))
            if space == "shared":
                count = build.add(build.lshr(context.load("shared_bytes"), shift), I64(1))
                build.call(renew, [context.pointer, base, count])
                continue
            tables = [
                pointer_to(build, context.load(f"global_{which}")) for which in ("starts", "ends")
            ]
            with count_to(build, context.load("global_count")) as number:
                low, high = (item(build, table, number, I64) for table in tables)
                first = build.lshr(low, shift)
                count = build.add(build.sub(build.lshr(high, shift), first), I64(1))
                at = build.add(base, build.shl(first, I64(2)))
                build.call(renew, [context.pointer, at, count])
    # A thread's own memory: written in this block or not.
    count = build.lshr(context.load("local_bytes"), I64(grain.local))
    build.call(renew, [context.pointer, words.load(WORD["local_writes"]), count])
    if grain.warps:
        build.call(renew, [context.pointer, words.load(WORD["warp_times"]), context.load("warps")])
    barrier = words.load(WORD["barrier"])
    words.store(WORD["now"], build.add(build.sub(words.load(WORD["now"]), barrier), I64(SINCE)))
    words.store(WORD["floor"], I64(ELSEWHERE))
    words.store(WORD["start"], I64(BEFORE))
    words.store(WORD["barrier"], I64(SINCE))
    words.store(WORD["swept"], I64(1))


def _renew(module: ir.Module) -> ir.Function:
    """``(context, records, how many)``."""
    build, (pointer, address, count) = function("renew", [POINTER, I64, I64], module)
    words = words_of(Context(build, pointer))
    floor, start, barrier = (
        build.trunc(words.load(WORD[field]), I32) for field in ("floor", "start", "barrier")
    )
    table = pointer_to(build, address)
    with count_to(build, count) as number:
        record = item(build, table, number, I32)
        who = build.and_(record, I32(CODE))
        time = build.and_(record, I32(~CODE & 0xFFFF_FFFF))
        since = build.add(build.sub(time, barrier), I32(SINCE))
        time = build.select(
            build.icmp_unsigned(">=", record, barrier),
            since,
            build.select(build.icmp_unsigned(">=", record, start), I32(BEFORE), I32(ELSEWHERE)),
        )
        renewed = build.select(
            build.icmp_unsigned(">=", record, floor), build.or_(time, who), I32(0)
        )
        build.store(renewed, build.gep(table, [number], source_etype=I32))
    build.ret(I64(0))
    return build.function
