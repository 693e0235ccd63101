"""Lanes that wait for others: at barriers with numbers, at the grid's, in loops; native code
against the interpreter."""

from __future__ import annotations

import time

import numpy as np
import pytest

from native_lab import after, agree
from ptx_lab import entry
from virtualgpu import native
from virtualgpu.launch import standstill
from virtualgpu.native import run
from virtualgpu.native.blocks import core, deadlock
from virtualgpu.native.compiled import NativeKernel

OUT = "mul.wide.u32 %rd3, %gid, 4; add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r0;"
TILE = ".shared .align 4 .b8 tile[1024];"
# %r2 is this thread's word of the tile.
PLACE = "shl.b32 %r1, %tid, 2; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;"


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(run, "STRICT", True)


def fair(body: str, threads: int, **options) -> None:
    text = entry(body + OUT, 1, variables=TILE)
    agree(text, np.zeros(max(threads, 1), np.uint32), **options)


LOCK = """
    Take: atom.global.cas.b32 %r3, [%rd1+4096], 0, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra Take;
    ld.volatile.global.u32 %r4, [%rd1+4100]; add.u32 %r4, %r4, 1;
    st.volatile.global.u32 [%rd1+4100], %r4; membar.gl; atom.global.exch.b32 %r5, [%rd1+4096], 0;
    mov.u32 %r0, 7;"""
FLAG = """
    setp.ne.u32 %p1, %gid, {last}; @%p1 bra Wait;
    st.volatile.global.u32 [%rd1+4096], 5; bra Done;
    Wait: {look} setp.ne.u32 %p2, %r4, 5; @%p2 bra Wait;
    Done: ld.volatile.global.u32 %r0, [%rd1+4096];"""
# Waits for the last thread in each round of a loop that ends by itself.
COUNTED = """
    setp.ne.u32 %p1, %gid, 127; @%p1 bra Start; st.volatile.global.u32 [%rd1+4096], 5;
    Start: mov.u32 %r5, 0;
    Wait: ld.global.u32 %r4, [%rd1+4096]; setp.ne.u32 %p2, %r4, 5; @%p2 bra Wait;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 3; @%p1 bra Wait;
    ld.volatile.global.u32 %r0, [%rd1+4096];"""
# Rounds from one element of an array to the next, as over the events of a jagged array.
JAGGED = """
    mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; mov.u32 %r0, 0;
    ld.global.u32 %r5, [%rd4];
    Next: ld.global.u32 %r6, [%rd4+4]; add.u32 %r7, %r5, 1; setp.ge.u32 %p1, %r7, %r6; @%p1 bra On;
    Inner: mul.wide.u32 %rd5, %r7, 4; add.u64 %rd5, %rd1, %rd5; ld.global.u32 %r8, [%rd5];
    ld.global.u32 %r9, [%rd4]; setp.eq.u32 %p2, %r8, %r9; @%p2 bra Skip; add.u32 %r0, %r0, %r8;
    Skip: add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r6; @%p2 bra Inner;
    On: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r6; @%p1 bra Next;"""
TICKET = """
    setp.ne.u32 %p1, %tid, 0; @%p1 bra On;
    Wait: ld.volatile.global.u32 %r4, [%rd1+4096]; setp.ne.u32 %p2, %r4, %ctaid.x; @%p2 bra Wait;
    add.u32 %r4, %r4, 1; st.volatile.global.u32 [%rd1+4096], %r4;
    On: bar.sync 0; add.u32 %r0, %tid, 3;"""
ARRIVALS = """
    setp.ne.u32 %p1, %tid, 0; @%p1 bra On; atom.global.add.u32 %r3, [%rd1+4096], 1;
    Wait: nanosleep.u32 20; ld.volatile.global.u32 %r4, [%rd1+4096];
    setp.lt.u32 %p2, %r4, %nctaid.x; @%p2 bra Wait;
    On: bar.sync 0; ld.volatile.global.u32 %r0, [%rd1+4096];"""


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        (LOCK, 3, 45),
        (LOCK, 1, 64),
        (FLAG.format(last=0, look="ld.volatile.global.u32 %r4, [%rd1+4096];"), 2, 64),
        (FLAG.format(last=127, look="ld.volatile.global.u32 %r4, [%rd1+4096];"), 2, 64),
        (FLAG.format(last=127, look="atom.global.add.u32 %r4, [%rd1+4096], 0;"), 2, 64),
        (FLAG.format(last=127, look="ld.global.u32 %r4, [%rd1+4096];"), 2, 64),
        (FLAG.format(last=127, look="ld.global.u32 %r4, [%rd1+4096]; and.b32 %r4, %r4, 7;"), 2, 64),
        (COUNTED, 2, 64),
        (TICKET, 9, 64),
        (ARRIVALS, 16, 48),
    ],
    ids=[
        "lock",
        "lock in a warp",
        "flag of the first",
        "flag of the last",
        "by an atomic",
        "plainly",
        "plainly, in two steps",
        "plainly, at each of several",
        "tickets",
        "blocks wait for all",
    ],
)
def test_lanes_that_wait_let_others_run(body, grid, block):
    fair(body, 2048, grid=grid, block=block)


def test_loops_over_a_jagged_array_wait_for_nobody():
    text = entry(JAGGED + OUT.replace("%rd1, %rd3", "%rd2, %rd3"), 2)
    starts = np.cumsum(np.random.default_rng(3).integers(0, 5, 256)).astype(np.uint32)
    arrays = starts, np.zeros(128, np.uint32)
    agree(text, *arrays)
    assert after(text, native.natively, arrays)[2].layout is None


def test_blocks_wait_for_one_that_has_not_started(monkeypatch):
    """More than lie side by side."""
    monkeypatch.setattr(core, "SIDE_BY_SIDE", 1)
    fair(ARRIVALS, 2048, grid=16, block=48)


def test_a_lock_kept_for_ever_is_named_in_the_same_words():
    """And what the look at it has stored is taken back, where it proves nothing."""
    text = entry(LOCK.replace("atom.global.exch.b32 %r5, [%rd1+4096], 0;", "") + OUT, 1)
    arrays = [np.zeros(2048, np.uint32)]
    _, error, code = after(text, native.natively, arrays)
    assert isinstance(code, NativeKernel)
    _, words, _ = after(text, None, arrays)
    assert words.startswith("deadlock: no thread can go on. In block 0 63 threads (the first is 1)")
    assert error == words


def test_a_look_that_proves_nothing_changes_nothing(monkeypatch):
    monkeypatch.setattr(standstill, "FIRST", 1e-4)
    looks = []
    monkeypatch.setattr(deadlock, "look", lambda *a, look=deadlock.look: looks.append(look(*a)))
    fair(
        """setp.ne.u32 %p1, %gid, 70; @%p1 bra Wait; mov.u32 %r5, 0;
        Work: ld.volatile.global.u32 %r6, [%rd1+4104]; mad.lo.u32 %r6, %r6, 5, %r5;
        st.volatile.global.u32 [%rd1+4104], %r6; add.u32 %r5, %r5, 1;
        setp.lt.u32 %p3, %r5, 20000; @%p3 bra Work;
        st.volatile.global.u32 [%rd1+4096], 5; bra Done;
        Wait: ld.volatile.global.u32 %r4, [%rd1+4096]; setp.ne.u32 %p2, %r4, 5; @%p2 bra Wait;
        Done: ld.volatile.global.u32 %r0, [%rd1+4104];""",
        2048,
        grid=2,
        block=64,
    )
    assert looks


CIRCLES = {
    "step by zero": """mov.u32 %r3, %tid;
        Again: st.global.u32 [%rd1], %r3; add.u32 %r3, %r3, 0; setp.lt.u32 %p1, %r3, 500;
        @%p1 bra Again;""",
    "a list that bites its tail": """mov.u64 %rd4, %rd1;
        Again: ld.global.u32 %r3, [%rd4]; mul.wide.u32 %rd5, %r3, 4; add.u64 %rd4, %rd1, %rd5;
        setp.ne.u32 %p1, %r3, 99; @%p1 bra Again;""",
}


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("body", CIRCLES.values(), ids=CIRCLES)
def test_a_loop_that_goes_in_a_circle_is_named(body, cores):
    begin = time.monotonic()
    _, error, code = after(
        entry(body, 1),
        native.natively,
        [np.zeros(64, np.uint32)],
        grid=4096,
        block=32,
        cores=cores,
        seconds=60,
    )
    assert isinstance(code, NativeKernel) and code.layout is None
    assert error.startswith("the kernel never ends: the thread repeats this loop for ever")
    assert time.monotonic() - begin < 30


def test_a_loop_that_others_may_end_has_its_time():
    """Its words change now and then, and it is not known that nobody else does that."""
    _, error, _ = after(
        entry(
            """mov.u64 %rd4, %rd1; mov.u32 %r5, 0;
        Again: ld.global.u32 %r3, [%rd4]; mul.wide.u32 %rd5, %r3, 4; add.u64 %rd4, %rd1, %rd5;
        add.u32 %r5, %r5, 1; st.global.u32 [%rd1+8], %r5; setp.ne.u32 %p1, %r3, 99;
        @%p1 bra Again;""",
            1,
        ),
        native.natively,
        [np.zeros(64, np.uint32)],
        seconds=0.5,
    )
    assert "was stopped; 0 of its 2 blocks had ended" in error


EXCHANGE = """ st.shared.u32 [%r2], %gid; {barrier} xor.b32 %r3, %r1, 132; mov.u32 %r4, tile;
    add.u32 %r3, %r3, %r4; ld.shared.u32 %r0, [%r3];"""
PAIRS = """
    setp.lt.u32 %p1, %tid, 64; @%p1 bra First;
    bar.sync 3, 64; xor.b32 %r3, %r1, 4; bra Sum;
    First: bar.sync 2, 64; xor.b32 %r3, %r1, 128;
    Sum: mov.u32 %r4, tile; add.u32 %r3, %r3, %r4; ld.shared.u32 %r0, [%r3];"""
PRODUCER = """
    setp.ge.u32 %p1, %tid, 32; @%p1 bra Take;
    st.shared.u32 [%r2], %gid; bar.arrive 1, 64; mov.u32 %r0, 9; bra On;
    Take: bar.sync 1, 64; ld.shared.u32 %r0, [%r2+-128];
    On:"""


# Threads 32 to 51 wait for those of their warp to end, then let the first warp go.
ENDED = """ mov.u32 %r5, 0; mov.u32 %r0, 1; setp.lt.u32 %p1, %tid, 32; @%p1 bra Second;
    and.b32 %r1, %tid, 31; setp.lt.u32 %p2, %r1, 20; @%p2 bra Wait; {linger} exit;
    Wait: bar.sync 1, 32; bar.arrive 2, 64; exit;
    Second: bar.sync 2, 64; mov.u32 %r0, 2;"""
LINGER = "Linger: add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 50; @%p3 bra Linger;"


@pytest.mark.parametrize(
    ("body", "block"),
    [
        (EXCHANGE.format(barrier="bar.sync 5;"), 128),
        (EXCHANGE.format(barrier="mov.u32 %r7, %ctaid.x; bar.sync %r7;"), 128),
        (EXCHANGE.format(barrier="bar.sync 1, 128;"), 128),
        (EXCHANGE.format(barrier="barrier.sync.aligned 0;"), 96),
        ("st.shared.u32 [%r2], %gid;" + PAIRS, 128),
        (PRODUCER, 64),
        (EXCHANGE.format(barrier="bar.sync 1, 80;"), 70),
        (EXCHANGE.format(barrier="bar.sync 16;"), 64),
        (EXCHANGE.format(barrier="mov.u32 %r7, 44; bar.sync 1, %r7;"), 64),
        (EXCHANGE.format(barrier="bar.sync 1, 96;"), 70),
        (EXCHANGE.format(barrier="bar.sync 1, 128;"), 64),
        (ENDED.format(linger=""), 56),
        (ENDED.format(linger=LINGER), 64),
        (
            ENDED.format(linger=LINGER)
            .replace("exit", "bra On", 1)
            .replace("mov.u32 %r0, 2", "mov.u32 %r0, 2; On: mov.u32 %r5, 3"),
            64,
        ),
    ],
    ids=[
        "number",
        "register",
        "count",
        "zero",
        "pairs",
        "producer",
        "bad count",
        "bad number",
        "bad register",
        "part of a warp",
        "for ever",
        "ended",
        "ended late",
        "ended further on",
    ],
)
def test_barriers_with_numbers(body, block):
    text = entry(PLACE + body + OUT, 1, variables=TILE)
    agree(text, np.zeros(512, np.uint32), grid=2, block=block)


@pytest.mark.parametrize("block", [128, 70])
@pytest.mark.parametrize("reduction", ["popc.u32 %r0", "and.pred %p2", "or.pred %p2"])
@pytest.mark.parametrize("test", ["%tid, 50", "%tid, 500", "%gid, 70"])
def test_barriers_that_reduce(reduction, test, block):
    body = f"setp.lt.u32 %p1, {test}; mov.u32 %r0, 0; bar.red.{reduction}, 0, %p1;"
    if "pred" in reduction:
        body += "selp.u32 %r0, 1, 2, %p2;"
    fair(body, 512, grid=2, block=block)


PARTED = {
    "in both branches": """setp.lt.u32 %p1, %tid, 45; st.shared.u32 [%r2], %gid; @%p1 bra Low;
        bar.sync 0; mov.u32 %r5, 4; bra On; Low: bar.sync 0; mov.u32 %r5, 8;
        On: xor.b32 %r3, %r1, 132; mov.u32 %r4, tile; add.u32 %r3, %r3, %r4;
        ld.shared.u32 %r0, [%r3]; add.u32 %r0, %r0, %r5;""",
    "under a predicate": "setp.lt.u32 %p1, %tid, 45; @%p1 bar.sync 0; add.u32 %r0, %tid, 2;",
    "rounds of each lane": """and.b32 %r5, %tid, 3; mov.u32 %r0, 0;
        Next: bar.sync 0; add.u32 %r0, %r0, %r5; add.u32 %r0, %r0, 1;
        setp.lt.u32 %p1, %r0, 9; @%p1 bra Next;""",
    "one lane ends": "setp.eq.u32 %p1, %tid, 40; @%p1 ret; bar.sync 0; add.u32 %r0, %tid, 2;",
    "another barrier": """setp.eq.u32 %p1, %tid, 5; @%p1 bra Other; bar.sync 0; bra On;
        Other: bar.sync 0; On: bar.sync 0; add.u32 %r0, %tid, 2;""",
    "for ever": "setp.eq.u32 %p1, %tid, 5; @%p1 bra On; bar.sync 1; On: bar.sync 0;",
}


@pytest.mark.parametrize("body", PARTED.values(), ids=PARTED)
def test_lanes_come_to_barriers_one_by_one(body):
    fair(PLACE + "mov.u32 %r0, 1;" + body, 512, grid=2, block=96)


MEETINGS = {
    "a whole warp of a block": """setp.ge.u32 %p1, %tid, 32; @%p1 bra On;
        shfl.sync.bfly.b32 %r0, %gid, 5, 31, -1; On:""",
    "half a warp": """setp.ge.u32 %p1, %laneid, 16; @%p1 bra On;
        shfl.sync.down.b32 %r0, %gid, 3, 31, 0xffff; On: add.u32 %r0, %r0, 1;""",
    "both halves": """setp.ge.u32 %p1, %laneid, 16; @%p1 bra High;
        vote.sync.ballot.b32 %r0, %p1, 0xffff; bra On;
        High: shfl.sync.up.b32 %r0, %gid, 3, 0, 0xffff0000; On:""",
    "a mask of who is there": """and.b32 %r3, %tid, 5; setp.eq.u32 %p1, %r3, 4; @%p1 bra On;
        activemask.b32 %r4; shfl.sync.idx.b32 %r0, %gid, 7, 31, %r4; popc.b32 %r5, %r4;
        mad.lo.u32 %r0, %r5, 1000, %r0; On:""",
    "tiles": """and.b32 %r3, %laneid, 24; mov.u32 %r4, 255; shl.b32 %r4, %r4, %r3;
        redux.sync.add.u32 %r0, %gid, %r4; mul.lo.u32 %r5, %tid, 7; and.b32 %r5, %r5, 3;
        match.any.sync.b32 %r6, %r5, %r4; add.u32 %r0, %r0, %r6;""",
    "lanes that come back": """mov.u32 %r0, 0; and.b32 %r5, %laneid, 3; mov.u32 %r6, 0;
        Next: add.u32 %r6, %r6, 1; setp.le.u32 %p1, %r6, %r5; @%p1 bra Next;
        shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1; mad.lo.u32 %r0, %r0, 10, %r7;""",
    "a meeting before others arrive": """mov.u32 %r0, 1; mov.u32 %r6, 0;
        Next: setp.gt.u32 %p1, %laneid, 15; @%p1 bra Later;
        Meet: shfl.sync.bfly.b32 %r7, %gid, 31, 31, -1; mad.lo.u32 %r0, %r0, 3, %r7; bra Out;
        Later: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 3; @%p2 bra Next; bra Meet; Out:""",
    "the others end": """setp.lt.u32 %p1, %laneid, 9; @!%p1 bra Later;
        shfl.sync.bfly.b32 %r0, %gid, 31, 31, -1; bra Out;
        Later: add.u32 %r6, %laneid, 1; setp.gt.u32 %p2, %r6, 0; @%p2 ret; Out:""",
    "warp barriers in both halves": """setp.ge.u32 %p1, %laneid, 16; st.shared.u32 [%r2], %gid;
        @%p1 bra High; bar.warp.sync -1; xor.b32 %r3, %r1, 4; bra On;
        High: bar.warp.sync -1; xor.b32 %r3, %r1, 8; On: mov.u32 %r4, tile; add.u32 %r3, %r3, %r4;
        ld.shared.u32 %r0, [%r3];""",
    "own warp barriers": """setp.ge.u32 %p1, %laneid, 16; @%p1 bra High;
        bar.warp.sync 0xffff; mov.u32 %r0, 3; bra On;
        High: bar.warp.sync 0xffff0000; mov.u32 %r0, 4; On:""",
    "copies of one exchange": """mov.u32 %r6, 0; and.b32 %r5, %laneid, 3;
        setp.gt.u32 %p1, %r5, 1; @%p1 bra High;
        shfl.sync.bfly.b32 %r7, %gid, 3, 31, -1; mad.lo.u32 %r0, %r0, 3, %r7; bra On;
        High: shfl.sync.bfly.b32 %r8, %gid, 3, 31, -1; mad.lo.u32 %r0, %r0, 5, %r8; bra On;
        On: vote.sync.ballot.b32 %r9, %p1, -1; add.u32 %r0, %r0, %r9;""",
    "a meeting that never is": """setp.eq.u32 %p1, %laneid, 3; @%p1 bra Other;
        shfl.sync.bfly.b32 %r0, %gid, 1, 31, -1; bra On;
        Other: vote.sync.ballot.b32 %r0, %p1, -1; On:""",
}


@pytest.mark.parametrize("block", [64, 44])
@pytest.mark.parametrize("body", MEETINGS.values(), ids=MEETINGS)
def test_lanes_come_to_meetings_of_the_warp_one_by_one(body, block):
    fair(PLACE + "mov.u32 %r0, 1;" + body, 256, grid=2, block=block)


GRID = """
    .extern .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 s);
    .extern .func (.param .b32 r) cudaCGSynchronize(.param .b64 h, .param .b32 f);"""
SYNC = """{ .param .b32 s; .param .b64 h; st.param.b32 [s], 1;
      call (h), cudaCGGetIntrinsicHandle, (s); ld.param.b64 %rd7, [h]; }
    { .param .b64 h; .param .b32 f; .param .b32 r; st.param.b64 [h], %rd7; st.param.b32 [f], 0;
      call (r), cudaCGSynchronize, (h, f); ld.param.b32 %r9, [r]; }"""
WHOLE = f"""mul.wide.u32 %rd3, %gid, 4; add.u64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %gid;
    st.shared.u32 [%r2], %gid; mov.u32 %r5, 0; mov.u32 %r0, 0;
    Again: {SYNC} mad.lo.u32 %r6, %gid, 7, %r5; add.u32 %r6, %r6, %r9; rem.u32 %r6, %r6, 500;
    mul.wide.u32 %rd5, %r6, 4; add.u64 %rd5, %rd1, %rd5; ld.global.u32 %r7, [%rd5];
    {SYNC} add.u32 %r7, %r7, %r5; st.global.u32 [%rd4], %r7; ld.shared.u32 %r8, [%r2];
    add.u32 %r0, %r7, %r8; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra Again;"""


@pytest.mark.parametrize("leaves", ["", "setp.eq.u32 %p2, %ctaid.x, 3; @%p2 ret;"])
def test_the_barrier_of_the_grid(leaves):
    text = entry(PLACE + leaves + WHOLE + OUT, 1, before=GRID, variables=TILE)
    agree(text, np.zeros(500, np.uint32), grid=10, block=50, cooperative=True)


def test_the_barrier_of_the_grid_needs_a_cooperative_launch():
    text = entry(PLACE + WHOLE + OUT, 1, before=GRID, variables=TILE)
    agree(text, np.zeros(500, np.uint32), grid=10, block=50)
