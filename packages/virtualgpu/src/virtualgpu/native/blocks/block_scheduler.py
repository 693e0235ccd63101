"""Code generator for round-robin scheduling of resident blocks while any warp can run.

It serves kernels whose lanes may be parked (:mod:`.divergence`): at barriers with numbers and
counts, at the grid barrier, and in loops that wait. Each block has its own memory here, so any of
them may continue at any time. In each round, every warp that is ready gets one turn. Arrivals at
barriers are counted after each turn, as in :mod:`virtualgpu.lanes.barriers`. The code depends on
the barriers of the kernel, so it is built with llvmlite's builder and not in the loop language.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from virtualgpu.compilers.building import count_to, function, intrinsic, item, variable, while_
from virtualgpu.lanes.barriers import COUNT as BARRIERS
from virtualgpu.native.context import (
    ARRIVED,
    CAME,
    COUNT,
    COUNTED,
    DEADLOCK,
    DONE,
    ENDED,
    EXITED,
    EXPECTED,
    GIVEN,
    GRID,
    LANES,
    LANES_AT,
    NUMBER,
    PARKED,
    PHASE,
    PREDICATE,
    READY,
    RESULT,
    SITE_WORDS,
    SITES,
    SPAN,
    STOPPED,
    TABLE,
    WAITING,
    WARPS,
    YIELDED,
)
from virtualgpu.native.divergence import Arrival, ParkedLanes
from virtualgpu.native.refusal import Refused
from virtualgpu.native.values import I1, I32, I64, POINTER, Context, pointer_to

IDLE = 4  # rounds in which all warps only yield, before other blocks run
MOST = 64  # most barriers in a kernel; the code after a warp's turn handles each


class BlockScheduler:
    """Code generator for the scheduler of resident blocks.

    The generated function ``name(context, first, count)`` runs blocks ``first`` to ``first +
    count``, or continues them, and returns ENDED, WAITING, STOPPED or DEADLOCK.
    """

    def __init__(self, name: str, warp: ir.Function, lanes: ParkedLanes, sites: int):
        if len(lanes.arrivals) > MOST:
            raise Refused("more barriers than are worth compiling")
        self.parked, self.sites, self.warp = lanes, sites, warp
        self.counts = any(arrival.step.count is not None for arrival in lanes.arrivals)
        module = warp.module
        self.release = self._release(module)
        self.build, (pointer, self.first, self.count) = function(name, [POINTER, I64, I64], module)
        self.build.function.linkage = ""
        self.context = Context(self.build, pointer)
        self._write()

    # -- pieces --------------------------------------------------------------------------------

    def _field(self, state: ir.Value, offset: int, build: ir.IRBuilder | None = None) -> ir.Value:
        return (build or self.build).gep(state, [I64(offset)], source_etype=ir.IntType(8))

    def _load(self, state: ir.Value, offset: int, build: ir.IRBuilder | None = None) -> ir.Value:
        build = build or self.build
        return build.load(self._field(state, offset, build), typ=I32)

    def _store(
        self, state: ir.Value, offset: int, value: ir.Value, build: ir.IRBuilder | None = None
    ) -> None:
        build = build or self.build
        build.store(value, self._field(state, offset, build))

    def _raise(self, table: ir.Value, number: ir.Value, more: ir.Value) -> None:
        place = self.build.gep(table, [number], source_etype=I64)
        self.build.store(self.build.add(self.build.load(place, typ=I64), more), place)

    @contextmanager
    def _each_block(self) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Build a loop over the resident blocks, with each block's number and table."""
        with count_to(self.build, self.count) as number:
            at = self.build.add(self.context.load("tables"), self.build.mul(number, I64(8 * TABLE)))
            yield number, pointer_to(self.build, at)

    @contextmanager
    def _each_warp(self, number: ir.Value) -> Iterator[tuple[ir.Value, ir.Value]]:
        """Build a loop over the warps of a block, with the state of each."""
        build, context = self.build, self.context
        start = build.add(
            context.load("states_all"), build.mul(number, context.load("states_room"))
        )
        with count_to(build, context.load("warps")) as warp:
            at = build.add(start, build.mul(warp, context.load("state_size")))
            yield warp, pointer_to(build, at)

    # -- the function ---------------------------------------------------------------------------

    def _write(self) -> None:
        build, context = self.build, self.context
        with build.if_then(build.icmp_unsigned("==", context.load("started"), I64(0))):
            context.store("started", I64(1))
            self._begin()
        idle = variable(build, I32(0))
        flags = [variable(build, I1(0)) for _ in range(3)]
        live, ready, moved = flags
        with while_(build, lambda: I1(1)):
            for flag in flags:
                build.store(I1(0), flag)
            with self._each_block() as (number, table):
                self._enter(number)
                with self._each_warp(number) as (warp, state):
                    alive = build.icmp_signed(">=", self._load(state, PHASE), I32(0))
                    with build.if_then(alive):
                        build.store(I1(1), live)
                        able = build.icmp_unsigned("!=", self._load(state, READY), I32(0))
                        with build.if_then(able):
                            build.store(I1(1), ready)
                            self._turn(number, warp, state, table, moved)
            self._release_the_grid(moved)
            with build.if_then(build.not_(build.load(live))):
                build.ret(I64(ENDED))
            with build.if_then(build.not_(build.or_(build.load(ready), build.load(moved)))):
                build.ret(I64(DEADLOCK))
            rounds = build.select(build.load(moved), I32(0), build.add(build.load(idle), I32(1)))
            build.store(rounds, idle)
            with build.if_then(build.icmp_unsigned(">", rounds, I32(IDLE))):
                build.ret(I64(WAITING))
        build.unreachable()

    def _begin(self) -> None:
        build, context = self.build, self.context

        def fill(start: ir.Value, byte: int, size: ir.Value) -> None:
            intrinsic(
                build,
                "llvm.memset.p0.i64",
                ir.VoidType(),
                [pointer_to(build, start), ir.IntType(8)(byte), size, I1(0)],
            )

        for name, byte in (("shared", 0xFE), ("local", 0xFE), ("states", 0)):
            fill(
                context.load(f"{name}_all"),
                byte,
                build.mul(self.count, context.load(f"{name}_room")),
            )
        fill(context.load("tables"), 0, build.mul(self.count, I64(8 * TABLE)))
        for word in ("at_grid", "finished", "clock"):
            context.store(word, I64(0))
        with self._each_block() as (number, _), self._each_warp(number) as (warp, state):
            left = build.sub(context.load("threads"), build.mul(warp, I64(LANES)))
            some = build.trunc(build.sub(build.shl(I64(1), left), I64(1)), I32)
            whole = build.icmp_unsigned(">=", left, I64(LANES))
            self._store(state, LANES_AT, build.select(whole, I32(0xFFFF_FFFF), some))
            self._store(state, READY, I32(1))

    def _enter(self, number: ir.Value) -> None:
        """Set the block's number and memory in the context before its warps run."""
        build, context = self.build, self.context
        block = build.add(self.first, number)
        x, y = context.load("nctaid_x"), context.load("nctaid_y")
        place = build.add(block, context.load("ahead"))
        row = build.udiv(place, x)
        for name, value in (
            ("ctaid_x", build.urem(place, x)),
            ("ctaid_y", build.urem(row, y)),
            ("ctaid_z", build.udiv(row, y)),
            ("block", block),
        ):
            context.store(name, value)
        for name in ("shared", "local"):
            context.store(
                name,
                build.add(
                    context.load(f"{name}_all"), build.mul(number, context.load(f"{name}_room"))
                ),
            )
        # The allocation that a memory instruction used last may be another block's shared memory.
        several = build.icmp_unsigned(">", self.count, I64(1))
        with build.if_then(several), count_to(build, I64(self.sites)) as site:
            at = build.add(build.mul(site, I64(SITE_WORDS)), I64(SITES + SPAN))
            build.store(I64(0), build.gep(context.pointer, [at], source_etype=I64))

    def _turn(
        self, number: ir.Value, warp: ir.Value, state: ir.Value, table: ir.Value, moved: ir.Value
    ) -> None:
        build, context = self.build, self.context
        self._store(state, READY, I32(0))
        context.store("warp", warp)
        before = self._load(state, LANES_AT)
        result = build.call(self.warp, [context.pointer, state, before])
        with build.if_then(build.icmp_unsigned("==", result, I32(STOPPED))):
            build.ret(I64(STOPPED))
        with build.if_then(build.icmp_unsigned("==", result, I32(DONE))):
            self._store(state, PHASE, I32(-1))
            self._store(state, LANES_AT, I32(0))
        tired = build.icmp_unsigned("==", result, I32(YIELDED))
        self._store(state, READY, build.zext(tired, I32))
        with build.if_then(build.not_(tired)):
            build.store(I1(1), moved)
        ended = build.sub(self._lanes(before), self._lanes(self._load(state, LANES_AT)))
        news = variable(build, build.icmp_unsigned("!=", ended, I64(0)))
        self._raise(table, I64(EXITED), ended)
        context.store("finished", build.add(context.load("finished"), ended))
        for arrival in self.parked.arrivals:
            self._count(arrival, warp, state, table, news)
        with build.if_then(build.load(news)):
            build.store(I1(1), moved)
            self._release_complete(number, table)

    def _lanes(self, mask: ir.Value) -> ir.Value:
        return self.build.zext(self.build.ctpop(mask), I64)

    def _count(
        self, arrival: Arrival, warp: ir.Value, state: ir.Value, table: ir.Value, news: ir.Value
    ) -> None:
        """Count the arrivals at a barrier in this turn."""
        build, context = self.build, self.context
        at = {field: arrival.offset + 4 * field for field in range(7)}
        parked, counted = self._load(state, at[PARKED]), self._load(state, at[COUNTED])
        new = build.and_(parked, build.not_(counted))
        with build.if_then(build.icmp_unsigned("!=", new, I32(0))):
            build.store(I1(1), news)
            if arrival.step.grid:
                context.store("at_grid", build.add(context.load("at_grid"), self._lanes(new)))
                self._store(state, at[COUNTED], parked)
                return
            barrier = build.zext(self._load(state, at[NUMBER]), I64)
            self._check(arrival, build.icmp_unsigned("<", barrier, I64(BARRIERS)), new)
            self._raise(table, barrier, self._lanes(new))
            if self.counts:
                came = self._came(table, barrier, warp)
                build.store(build.or_(build.load(came, typ=I32), new), came)
            if arrival.step.count is not None:
                wanted = build.zext(self._load(state, at[COUNT]), I64)
                warps = build.icmp_unsigned("==", build.and_(wanted, I64(LANES - 1)), I64(0))
                some = build.icmp_unsigned("!=", wanted, I64(0))
                self._check(arrival, build.and_(warps, some), new)
                build.store(
                    wanted, build.gep(table, [build.add(barrier, I64(EXPECTED))], source_etype=I64)
                )
            if arrival.step.onward:
                given = self._load(state, at[GIVEN])
                self._store(state, at[GIVEN], build.or_(given, new))
                self._store(state, at[PARKED], build.and_(parked, build.not_(new)))
                self._store(state, READY, I32(1))
            else:
                self._store(state, at[COUNTED], parked)

    def _check(self, arrival: Arrival, good: ir.Value, lanes: ir.Value) -> None:
        build, context = self.build, self.context
        with build.if_then(build.not_(good), likely=False):
            context.store("fault", I64(-1 - arrival.place.index))
            context.store("fault_mask", build.zext(lanes, I64))
            build.ret(I64(STOPPED))

    def _release_complete(self, number: ir.Value, table: ir.Value) -> None:
        """Release the threads at barriers that are complete."""
        build, context = self.build, self.context
        threads, exited = context.load("threads"), item(build, table, I64(EXITED), I64)
        with count_to(build, I64(BARRIERS)) as barrier:
            arrived, expected = (
                item(build, table, build.add(barrier, I64(start)), I64)
                for start in (ARRIVED, EXPECTED)
            )
            everyone = build.icmp_unsigned("==", expected, I64(0))
            ended = variable(build, exited)
            if self.counts:
                with build.if_then(build.not_(everyone)):
                    self._fill_up(number, table, barrier, ended)
            present = build.add(arrived, build.load(ended))
            wanted = build.select(everyone, threads, expected)
            whole = build.and_(
                build.icmp_unsigned("!=", arrived, I64(0)),
                build.icmp_unsigned(">=", present, wanted),
            )
            with build.if_then(whole):
                build.call(self.release, [context.pointer, number, build.trunc(barrier, I32)])
                for start in (ARRIVED, EXPECTED):
                    build.store(
                        I64(0), build.gep(table, [build.add(barrier, I64(start))], source_etype=I64)
                    )
                if self.counts:
                    with count_to(build, context.load("warps")) as warp:
                        build.store(I32(0), self._came(table, barrier, warp))

    def _came(self, table: ir.Value, barrier: ir.Value, warp: ir.Value) -> ir.Value:
        """Return the places at which a warp's lanes have arrived at a barrier."""
        build = self.build
        at = build.add(build.mul(barrier, I64(WARPS)), build.add(warp, I64(2 * CAME)))
        return build.gep(table, [at], source_etype=I32)

    def _fill_up(
        self, number: ir.Value, table: ir.Value, barrier: ir.Value, more: ir.Value
    ) -> None:
        """Count lanes that can no longer arrive (``lanes.barriers.Waiting.filling``)."""
        build = self.build
        build.store(I64(0), more)
        with self._each_warp(number) as (warp, state):
            came = build.load(self._came(table, barrier, warp), typ=I32)
            gone = build.not_(build.or_(came, self._load(state, LANES_AT)))
            some = build.icmp_unsigned("!=", came, I32(0))
            build.store(
                build.add(build.load(more), self._lanes(build.select(some, gone, I32(0)))), more
            )

    def _release_the_grid(self, moved: ir.Value) -> None:
        build, context = self.build, self.context
        if not any(arrival.step.grid for arrival in self.parked.arrivals):
            return
        there, finished = context.load("at_grid"), context.load("finished")
        threads = build.mul(self.count, context.load("threads"))
        whole = build.and_(
            build.icmp_unsigned("!=", there, I64(0)),
            build.icmp_unsigned(">=", build.add(there, finished), threads),
        )
        with build.if_then(whole):
            context.store("at_grid", I64(0))
            build.store(I1(1), moved)
            with count_to(build, self.count) as number:
                build.call(self.release, [context.pointer, number, I32(GRID)])

    def _release(self, module: ir.Module) -> ir.Function:
        """Build ``(context, block, barrier)``, a function that releases the waiting lanes."""
        build, (pointer, number, barrier) = function("release", [POINTER, I64, I32], module)
        self.build, self.context = build, Context(build, pointer)
        waits = [arrival for arrival in self.parked.arrivals if not arrival.step.onward]
        true, here = variable(build, I64(0)), variable(build, I64(0))

        def lanes(state: ir.Value, arrival: Arrival) -> ir.Value:
            same = build.icmp_unsigned(
                "==", self._load(state, arrival.offset + 4 * NUMBER), barrier
            )
            counted = self._load(state, arrival.offset + 4 * COUNTED)
            return build.select(same, counted, I32(0))

        if any(arrival.step.mode for arrival in waits):
            with self._each_warp(number) as (_, state):
                for arrival in waits:
                    some = lanes(state, arrival)
                    build.store(build.add(build.load(here), self._lanes(some)), here)
                    if arrival.step.mode:
                        some = build.and_(some, self._load(state, arrival.offset + 4 * PREDICATE))
                        build.store(build.add(build.load(true), self._lanes(some)), true)
        with self._each_warp(number) as (_, state):
            for arrival in waits:
                some = lanes(state, arrival)
                with build.if_then(build.icmp_unsigned("!=", some, I32(0))):
                    result = {
                        "popc": lambda: build.load(true),
                        "and": lambda: build.zext(
                            build.icmp_unsigned("==", build.load(true), build.load(here)), I64
                        ),
                        "or": lambda: build.zext(
                            build.icmp_unsigned("!=", build.load(true), I64(0)), I64
                        ),
                    }.get(arrival.step.mode, lambda: I64(0))()
                    for field, value in (
                        (RESULT, build.trunc(result, I32)),
                        (COUNTED, I32(0)),
                        (
                            PARKED,
                            build.and_(
                                self._load(state, arrival.offset + 4 * PARKED), build.not_(some)
                            ),
                        ),
                        (GIVEN, build.or_(self._load(state, arrival.offset + 4 * GIVEN), some)),
                    ):
                        self._store(state, arrival.offset + 4 * field, value)
                    self._store(state, READY, I32(1))
        build.ret(I64(0))
        return build.function
