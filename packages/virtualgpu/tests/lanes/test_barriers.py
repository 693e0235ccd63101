"""Barriers of a block, named and counted ones, reductions, grid sync; and who is waited for."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import virtualgpu
from ptx_lab import HEADER, entry, launch, per_thread
from virtualgpu import devices
from virtualgpu.cuda.module import Module
from virtualgpu.errors import DeadlockError, EndlessError, LaunchError, TrapError
from virtualgpu.launch.limits import Budget

TILE = ".shared .align 4 .b8 tile[4096];"
# Writes %r1 to tile[%tid], waits, reads tile[%r2] to %r0.
EXCHANGE = """
    mov.u64 %rd8, tile; mad.wide.u32 %rd9, %tid, 4, %rd8; st.shared.u32 [%rd9], %r1;
    {barrier}
    mad.wide.u32 %rd9, %r2, 4, %rd8; ld.shared.u32 %r0, [%rd9];"""
SEEDS = [None, 0, 1, 2]


def run(seed, *args, **options):
    with nullcontext() if seed is None else virtualgpu.schedule(seed):
        return per_thread(*args, **options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0;",
        "barrier.sync 0;",
        "barrier.sync.aligned 15;",
        "bar.cta.sync 3;",
        "mov.u32 %r9, 7; bar.sync %r9;",
    ],
)
def test_everyone_sees_what_was_written_before(barrier, seed):
    out = run(
        seed,
        "add.u32 %r1, %gid, 5; mov.u32 %r3, %ntid.x; sub.u32 %r3, %r3, 1;"
        "sub.u32 %r2, %r3, %tid;" + EXCHANGE.format(barrier=barrier),
        grid=5,
        block=100,
        variables=TILE,
    )
    g = np.arange(500)
    np.testing.assert_array_equal(out, g // 100 * 100 + 99 - g % 100 + 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_barriers_in_a_loop_that_blocks_leave_at_different_times(seed):
    """Blocks of a wave make different numbers of rounds."""
    out = run(
        seed,
        """
        mov.u32 %r5, 0; mov.u32 %r1, %tid; add.u32 %r2, %tid, 1; rem.u32 %r2, %r2, 48;
        Round: """
        + EXCHANGE.format(barrier="bar.sync 0;")
        + """
        bar.sync 0;
        mov.u32 %r1, %r0; add.u32 %r5, %r5, 1; setp.le.u32 %p1, %r5, %block; @%p1 bra Round;
        """,
        grid=6,
        block=48,
        variables=TILE,
    )
    g = np.arange(6 * 48)
    np.testing.assert_array_equal(out, (g % 48 + g // 48 + 1) % 48)


def test_one_barrier_at_two_places():
    """Threads may meet at the same barrier from different instructions."""
    out = per_thread(
        """
        mov.u32 %r1, %tid; xor.b32 %r2, %tid, 32;
        mov.u64 %rd8, tile; mad.wide.u32 %rd9, %tid, 4, %rd8; st.shared.u32 [%rd9], %r1;
        setp.lt.u32 %p1, %tid, 32; @%p1 bra Here;
        bar.sync 0; bra Read;
        Here: bar.sync 0;
        Read: mad.wide.u32 %rd9, %r2, 4, %rd8; ld.shared.u32 %r0, [%rd9];""",
        block=64,
        variables=TILE,
    )
    np.testing.assert_array_equal(out, np.arange(64) ^ 32)


@pytest.mark.parametrize("seed", SEEDS)
def test_ended_threads_do_not_hold_up_a_barrier(seed):
    out = run(
        seed,
        """
        setp.ge.u32 %p1, %tid, 45; @%p1 exit;
        add.u32 %r1, %tid, 1; sub.u32 %r2, 44, %tid;"""
        + EXCHANGE.format(barrier="bar.sync 0;"),
        grid=3,
        block=60,
        variables=TILE,
    )
    out = out.reshape(3, 60)
    assert (out[:, :45] == 45 - np.arange(45)).all()
    assert (out[:, 45:] == 0xABABABAB).all()


def test_threads_that_end_late_let_a_barrier_go():
    out = per_thread(
        """
        mov.u32 %r5, 0; setp.lt.u32 %p1, %tid, 30; @%p1 bra Wait;
        Linger: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra Linger;
        exit;
        Wait: bar.sync 0; mov.u32 %r0, %r5;""",
        block=64,
    )
    assert (out[:30] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_named_barriers_are_apart(seed):
    """Two halves of a block go at their own pace, by counted barriers of 64 threads."""
    out = run(
        seed,
        """
        setp.lt.u32 %p1, %tid, 64; selp.b32 %r6, 1, 2, %p1; selp.b32 %r7, 3, 8, %p1;
        mov.u32 %r5, 0; mov.u32 %r1, %tid; xor.b32 %r2, %tid, 33;
        Round: """
        + EXCHANGE.format(barrier="bar.sync %r6, 64;")
        + """
        bar.sync %r6, 64; add.u32 %r1, %r0, 1000;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r7; @%p2 bra Round;""",
        grid=3,
        block=128,
        variables=TILE,
    )
    t = np.arange(128)
    rounds = np.where(t < 64, 3, 8)
    wanted = np.where(rounds % 2 == 1, t ^ 33, t) + 1000 * (rounds - 1)
    np.testing.assert_array_equal(out.reshape(3, 128), np.tile(wanted, (3, 1)))


@pytest.mark.parametrize("seed", SEEDS)
def test_producers_arrive_and_consumers_wait(seed):
    """PTX ISA, "bar": the producer-consumer model, with two barriers and one buffer."""
    out = run(
        seed,
        """
        mov.u64 %rd8, tile; and.b32 %r4, %tid, 31; mad.wide.u32 %rd9, %r4, 4, %rd8;
        mov.u32 %r5, 0; mov.u32 %r0, 0; setp.ge.u32 %p1, %tid, 32; @%p1 bra Consumer;
        Producer:
        mad.lo.u32 %r1, %r5, 100, %tid; st.shared.u32 [%rd9], %r1;
        bar.arrive 1, 64;
        bar.sync 2, 64;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; @%p2 bra Producer;
        bra Out;
        Consumer:
        bar.sync 1, 64;
        xor.b32 %r6, %r4, 5; mad.wide.u32 %rd10, %r6, 4, %rd8; ld.shared.u32 %r1, [%rd10];
        add.u32 %r0, %r0, %r1;
        bar.arrive 2, 64;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5; @%p2 bra Consumer;
        Out:""",
        grid=2,
        block=64,
        variables=TILE,
    )
    out = out.reshape(2, 64)
    assert (out[:, :32] == 0).all()
    assert (out[:, 32:] == 5 * (np.arange(32) ^ 5) + 1000).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_who_arrives_does_not_wait(seed):
    """The first warp arrives at 1 and goes on to 2, where the second waits before it comes to 1."""
    out = run(
        seed,
        """
        mov.u32 %r0, 0; setp.lt.u32 %p1, %tid, 32; @%p1 bra First;
        bar.sync 2, 64; bar.sync 1, 64; bra Out;
        First: bar.arrive 1, 64; mov.u32 %r0, 1; bar.sync 2, 64;
        Out:""",
        grid=2,
        block=64,
    )
    assert out.tolist() == ([1] * 32 + [0] * 32) * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_reductions_over_a_block(seed):
    """``bar.red``: over all threads of each block, in blocks whose answers differ."""
    out = run(
        seed,
        """
        mul.lo.u32 %r1, %block, 16; setp.lt.u32 %p1, %tid, %r1;
        bar.red.popc.u32 %r2, 0, %p1;
        bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 1, %p1;
        barrier.red.popc.aligned.u32 %r3, 2, !%p1;
        mad.lo.u32 %r0, %r3, 1000, %r2;
        @%p2 add.u32 %r0, %r0, 1000000; @%p3 add.u32 %r0, %r0, 2000000;""",
        grid=5,
        block=48,
    )
    for block, values in enumerate(out.reshape(5, 48)):
        count = min(16 * block, 48)
        wanted = count + 1000 * (48 - count) + 1000000 * (count == 48) + 2000000 * (count > 0)
        assert (values == wanted).all()


def test_a_reduction_counts_those_who_are_left():
    out = per_thread(
        """
        setp.ge.u32 %p1, %tid, 20; @%p1 exit;
        setp.ge.u32 %p2, %tid, 5; bar.red.popc.u32 %r0, 0, %p2; bar.red.and.pred %p3, 0, 1;
        @%p3 add.u32 %r0, %r0, 100;""",
        block=32,
    )
    assert (out[:20] == 115).all()


def test_a_partial_warp_counts_as_a_whole_one():
    """PTX ISA, "bar": barriers count warps; 80 threads are three warps, 96 for a barrier."""
    out = per_thread(
        """
        mov.u32 %r0, 1; setp.lt.u32 %p1, %tid, 32; @%p1 bra Out;
        bar.sync 1, 64; mov.u32 %r0, 2; Out: bar.sync 2, 96;""",
        block=80,
    )
    assert out.tolist() == [1] * 32 + [2] * 48


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "linger",
    ["", "Linger: add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 50;@%p3 bra Linger;"],
    ids=["at once", "late"],
)
def test_ended_threads_fill_a_warp_up(linger, seed):
    """PTX ISA, "bar": a warp has come when all of its threads that have not exited have."""
    out = run(
        seed,
        f"""
        mov.u32 %r5, 0; mov.u32 %r0, 1; setp.lt.u32 %p1, %tid, 32; @%p1 bra Second;
        and.b32 %r1, %tid, 31; setp.lt.u32 %p2, %r1, 20; @%p2 bra Wait; {linger} exit;
        Wait: bar.sync 1, 32; bar.arrive 2, 64; exit;
        Second: bar.sync 2, 64; mov.u32 %r0, 2;""",
        grid=3,
        block=56,
    )
    # Threads 32 to 51 wait for 52 to 55, and their arrival lets the first warp go.
    first = [2] * 32 + [0xABABABAB] * 24
    assert out.tolist() == first * 3


def test_a_warp_whose_threads_neither_come_nor_end_is_awaited():
    with pytest.raises(DeadlockError, match="16 of its threads"):
        per_thread(
            """
            mov.u32 %r0, 1; setp.lt.u32 %p1, %tid, 16; @%p1 bra Half;
            bar.sync 2, 64; bra Out;
            Half: bar.sync 1, 32;
            Out:""",
            block=32,
        )


def test_a_count_that_differs_between_blocks():
    out = per_thread(
        """
        setp.eq.u32 %p1, %block, 0; selp.b32 %r1, 32, 64, %p1; mul.lo.u32 %r2, %block, 32;
        setp.gt.u32 %p2, 32, %tid; mov.u32 %r0, %r1;
        @%p1 bra First;
        bar.sync 1, %r1; bra Out;
        First: @%p2 bar.sync 1, %r1;
        Out:""",
        grid=2,
        block=64,
    )
    assert out.tolist() == [32] * 64 + [64] * 64


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "setp.eq.u32 %p1, %tid, 7; @%p1 bar.sync 1; bar.sync 0;",
            r"1 of its threads \(the first is 7\).*barrier 1",
        ),
        (
            "setp.lt.u32 %p1, %tid, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64;",
            "32 of its threads",
        ),
        ("bar.sync 1, 128;", "64 of its threads.*barrier 1"),
        ("setp.lt.u32 %p1, %tid, 32; @%p1 exit; bar.sync 1, 64;", "32 have ended"),
    ],
)
def test_a_barrier_that_nobody_completes_is_a_deadlock(body, words):
    with pytest.raises(DeadlockError, match=words):
        per_thread(body + "mov.u32 %r0, 0;", block=64)


@pytest.mark.parametrize(
    "body",
    [
        "bar.sync 16;",
        "mov.u32 %r1, -1; bar.sync %r1;",
        "bar.sync 1, 33;",
        "bar.sync 1, 0;",
        "add.u32 %r1, %tid, 32; bar.sync 1, %r1;",
    ],
)
def test_barriers_that_no_device_has(body):
    with pytest.raises(LaunchError, match="barrier"):
        per_thread(body)


def test_a_guarded_barrier_holds_nobody_else():
    """Under lockstep hardware would wait too: a block where all predicates are true goes on."""
    out = per_thread(
        """
        setp.lt.u32 %p1, %block, 2; mov.u32 %r1, %tid; xor.b32 %r2, %tid, 1;"""
        + EXCHANGE.format(barrier="@%p1 bar.sync 0; @!%p1 bar.sync 5;"),
        grid=4,
        block=64,
        variables=TILE,
    )
    np.testing.assert_array_equal(out.reshape(4, 64), np.tile(np.arange(64) ^ 1, (4, 1)))


# -- the whole grid -------------------------------------------------------------------------------

BUILT_IN = (
    HEADER
    + """
    .extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle (.param .b32 scope);
    .extern .func (.param .b32 status) cudaCGSynchronize (.param .b64 handle, .param .b32 f);
    """
    + entry(
        """
    { .param .b32 param0; .param .b64 retval0; st.param.b32 [param0], 1;
      call.uni (retval0), cudaCGGetIntrinsicHandle, (param0); ld.param.b64 %rd5, [retval0]; }
    { .param .b64 param0; .param .b32 param1; .param .b32 retval0;
      st.param.b64 [param0], %rd5; st.param.b32 [param1], 0;
      call.uni (retval0), cudaCGSynchronize, (param0, param1); ld.param.b32 %r1, [retval0]; }
    mad.wide.u32 %rd6, %gid, 4, %rd1; st.global.u32 [%rd6], %r1;""",
        1,
    ).removeprefix(HEADER)
)

GRID = r"""
    #include <cooperative_groups.h>
    extern "C" __global__ void rotate(int *data, int n, int rounds)
    {
        auto grid = cooperative_groups::this_grid();
        int i = grid.thread_rank();
        for (int r = 0; r < rounds; r++) {
            int next = data[(i + 1) % n];
            grid.sync();
            data[i] = next;
            grid.sync();
        }
    }"""


@pytest.fixture(scope="module")
def rotate() -> Module:
    return Module.from_cuda(GRID)


@pytest.mark.parametrize("seed", [None, 4])
def test_grid_sync(rotate, seed):
    """As many threads as the device holds at once."""
    grid, block = (64, 512) if seed is None else (6, 40)
    n = grid * block
    data = np.arange(n, dtype=np.int32)
    with nullcontext() if seed is None else virtualgpu.schedule(seed):
        rotate.launch("rotate", grid, block, [data, n, 3], cooperative=True)
    np.testing.assert_array_equal(data, (np.arange(n) + 3) % n)


def test_grid_sync_needs_a_cooperative_launch(rotate):
    data = np.arange(64, dtype=np.int32)
    with pytest.raises(TrapError):  # what CUDA's header does
        rotate.launch("rotate", 2, 32, [data, data.size, 1])
    with pytest.raises(LaunchError, match="not cooperative"):
        launch(BUILT_IN, 2, 32, [np.ones(64, np.uint32)])


def test_a_cooperative_grid_must_fit_on_the_device(rotate):
    data = np.arange(65 * 512, dtype=np.int32)
    with pytest.raises(LaunchError, match="at most 64"):
        rotate.launch("rotate", 65, 512, [data, data.size, 1], cooperative=True)
    with pytest.raises(LaunchError, match="at most 512"):
        rotate.launch("rotate", 513, 1, [data, 513, 1], cooperative=True)


def test_blocks_wait_for_blocks_of_other_waves():
    """Block 0 spins for a word that the last of 300 blocks writes: ten waves later."""
    flag = np.zeros(1, np.uint32)
    out = per_thread(
        """
        mov.u32 %r1, %nctaid.x; sub.u32 %r1, %r1, 1;
        setp.eq.u32 %p1, %block, 0; @%p1 bra Spin;
        setp.eq.u32 %p2, %block, %r1; @%p2 st.volatile.global.u32 [%rd2], 7;
        mov.u32 %r0, 0; bra Out;
        Spin: ld.volatile.global.u32 %r0, [%rd2]; setp.eq.u32 %p3, %r0, 0; @%p3 bra Spin;
        Out:""",
        flag,
        grid=300,
        block=1024,
    )
    assert (out[:1024] == 7).all()
    assert (out[1024:] == 0).all()


def test_blocks_that_all_wait_for_what_never_comes_are_named():
    """Four waves: each makes room for the next."""
    with (
        devices.use(virtualgpu.VirtualDevice(64 << 20, Budget(seconds=20))),
        pytest.raises(EndlessError, match="element 0 of 1 of argument 1, which stays 0; 99 mo"),
    ):
        per_thread(
            "Spin: ld.volatile.global.u32 %r0, [%rd2]; setp.eq.u32 %p3, %r0, 0;@%p3 bra Spin;",
            np.zeros(1, np.uint32),
            grid=100,
            block=1024,
        )


def test_a_barrier_inside_a_function():
    before = """
        .func swap(.param .b64 mine, .param .b64 other)
        { .reg .b64 %x<3>; .reg .b32 %y; ld.param.u64 %x1, [mine]; ld.param.u64 %x2, [other];
          bar.sync 0; ld.shared.u32 %y, [%x2]; bar.sync 0; st.shared.u32 [%x1], %y; ret; }"""
    out = per_thread(
        """
        mov.u64 %rd8, tile; mad.wide.u32 %rd3, %tid, 4, %rd8; xor.b32 %r1, %tid, 3;
        mad.wide.u32 %rd4, %r1, 4, %rd8; st.shared.u32 [%rd3], %tid;
        { .param .b64 param0; .param .b64 param1;
          st.param.b64 [param0], %rd3; st.param.b64 [param1], %rd4; call swap, (param0, param1); }
        ld.shared.u32 %r0, [%rd3];""",
        before=before,
        variables=TILE,
        block=64,
    )
    np.testing.assert_array_equal(out, np.arange(64) ^ 3)


def test_the_device_library_of_cooperative_groups_is_built_in():
    out = np.ones(64, np.uint32)
    launch(BUILT_IN, 2, 32, [out], cooperative=True)
    assert (out == 0).all()
