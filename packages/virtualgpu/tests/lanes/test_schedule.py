"""The adversarial schedule: repeatable, fair; harmless but where a barrier is missing."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from ptx_lab import per_thread
from virtualgpu.cuda.module import Module
from virtualgpu.lanes.schedule import Adversarial, Lockstep
from virtualgpu.program.shared_accesses import shared_accesses
from virtualgpu.ptx import parse
from virtualgpu.watch import instruments

SEEDS = range(12)

SOURCE = r"""
    extern "C" __global__ void reverse(const int *in, int *out, int wait)
    {
        __shared__ int tile[128];
        int t = threadIdx.x, b = blockIdx.x * blockDim.x;
        tile[t] = in[b + t];
        if (wait) __syncthreads();
        out[b + t] = tile[blockDim.x - 1 - t];
    }
    extern "C" __global__ void neighbour(const int *in, int *out, int wait)
    {   // inside one warp: lanes may part at any time
        __shared__ int tile[128];
        int t = threadIdx.x, b = blockIdx.x * blockDim.x;
        tile[t] = in[b + t];
        if (wait) __syncwarp();
        out[b + t] = tile[t ^ 1];
    }
    extern "C" __global__ void sum(const int *in, int *out, int wait)
    {
        __shared__ int tile[128];
        int t = threadIdx.x, b = blockIdx.x * blockDim.x;
        tile[t] = in[b + t];
        for (int half = blockDim.x / 2; half; half /= 2) {
            if (wait || half > 16) __syncthreads();
            if (t < half) tile[t] += tile[t + half];
        }
        if (t == 0) out[blockIdx.x] = tile[0];
    }
    extern "C" __global__ void count(const int *in, int *out, int wait)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        volatile int *place = out + in[i] % 4;
        if (wait) atomicAdd((int *)place, 1);
        else *place = *place + 1;
    }
    extern "C" __global__ void last_block(const int *in, int *out, int wait)
    {   // out[0]: the sum; out[1]: blocks that are done; out[2]...: partial sums
        __shared__ int amount; __shared__ bool last;
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (threadIdx.x == 0) amount = 0;
        __syncthreads();
        atomicAdd(&amount, in[i]);
        __syncthreads();
        if (threadIdx.x == 0) {
            int number;
            if (!wait) number = atomicAdd(out + 1, 1);
            ((volatile int *)out)[2 + blockIdx.x] = amount;
            __threadfence();
            if (wait) number = atomicAdd(out + 1, 1);
            last = number == gridDim.x - 1;
        }
        __syncthreads();
        if (last && threadIdx.x == 0)
            for (int b = 0; b < gridDim.x; b++) out[0] += ((volatile int *)out)[2 + b];
    }"""
BLOCKS, THREADS = 6, 128
DATA = np.random.default_rng(2).integers(1, 1000, BLOCKS * THREADS).astype(np.int32)
WANTED = {
    "reverse": DATA.reshape(BLOCKS, THREADS)[:, ::-1].ravel(),
    "neighbour": DATA.reshape(-1, 2)[:, ::-1].ravel(),
    "sum": DATA.reshape(BLOCKS, THREADS).sum(1),
    "count": np.bincount(DATA % 4, minlength=4),
    "last_block": np.array([DATA.sum()]),
}


@pytest.fixture(scope="module")
def module() -> Module:
    return Module.from_cuda(SOURCE)


def run(module: Module, kernel: str, wait: bool) -> np.ndarray:
    out = np.zeros(BLOCKS * THREADS, np.int32)
    module.launch(kernel, BLOCKS, THREADS, [DATA, out, int(wait)])
    return out


def right(kernel: str, out: np.ndarray) -> bool:
    wanted = WANTED[kernel]
    return bool((out[: len(wanted)] == wanted).all())


@pytest.mark.parametrize("kernel", WANTED)
def test_right_kernels_are_right_under_every_seed(module, kernel):
    assert right(kernel, run(module, kernel, True))
    for seed in SEEDS:
        with virtualgpu.schedule(seed):
            assert right(kernel, run(module, kernel, True)), f"seed {seed}"


@pytest.mark.parametrize("kernel", WANTED)
def test_a_missing_barrier_gives_itself_away(module, kernel):
    """Lockstep hides some of these; several seeds do not.

    The last block's mistake shows only where a thread stops between two instructions while
    another block runs to its end.
    """
    wrong = 0
    for seed in range(24):
        with virtualgpu.schedule(seed):
            wrong += not right(kernel, run(module, kernel, False))
    assert wrong >= (2 if kernel == "last_block" else 12)


def test_lockstep_hides_what_happens_inside_a_warp(module):
    """Why the adversarial schedule is needed at all."""
    assert right("neighbour", run(module, "neighbour", False))


@pytest.mark.parametrize("kernel", ["reverse", "count", "last_block"])
def test_the_same_seed_repeats(module, kernel):
    for seed in range(4):
        results = []
        for _ in range(2):
            with virtualgpu.schedule(seed):
                results.append([run(module, kernel, False), run(module, kernel, False)])
        np.testing.assert_array_equal(results[0], results[1])


def test_seeds_differ(module):
    results = set()
    for seed in SEEDS:
        with virtualgpu.schedule(seed):
            results.add(run(module, "count", False).tobytes())
    assert len(results) > 6


def test_launches_inside_one_schedule_differ(module):
    with virtualgpu.schedule(1):
        results = {run(module, "count", False).tobytes() for _ in range(6)}
    assert len(results) > 3


def test_schedules_nest_and_end():
    with virtualgpu.schedule(1):
        outer = instruments.new_schedule()
        with virtualgpu.schedule(2):
            assert instruments.new_schedule().seed == 2
        assert instruments.new_schedule() is outer
    assert isinstance(instruments.new_schedule(), Lockstep)
    with pytest.raises(ZeroDivisionError), virtualgpu.schedule(1):
        raise ZeroDivisionError
    assert isinstance(instruments.new_schedule(), Lockstep)


def test_blocks_and_warps_run_in_any_order():
    """Who comes first to a counter: over a few seeds, not always the first block or warp."""
    firsts = set()
    for seed in range(10):
        with virtualgpu.schedule(seed):
            order = per_thread(
                "and.b32 %r1, %tid, 31; setp.ne.u32 %p1, %r1, 0; @%p1 exit;"
                "atom.global.add.u32 %r0, [%rd2], 1;",
                np.zeros(1, np.uint32),
                grid=4,
                block=96,
            )
        firsts.add(int(np.flatnonzero(order == 0)[0]) // 32)
    assert len(firsts) >= 5


def test_waves_come_in_any_order():
    """Blocks of different waves, too: a block cannot rely on those before it."""
    firsts = set()
    for seed in range(5):
        with virtualgpu.schedule(seed):
            order = per_thread(
                "setp.ne.u32 %p1, %tid, 0; @%p1 exit;atom.global.add.u32 %r0, [%rd2], 1;",
                np.zeros(1, np.uint32),
                grid=128,
                block=1024,
            )
        firsts.add(int(np.flatnonzero(order == 0)[0]) // 1024 // 32)
    assert len(firsts) >= 2


def test_lanes_of_a_warp_part():
    """A lane's two stores with another lane's load between them: seen by some seed."""
    seen = set()
    for seed in range(20):
        with virtualgpu.schedule(seed):
            out = per_thread(
                """
                mov.u32 %r0, 0; setp.ne.u32 %p1, %tid, 0; @%p1 bra Look;
                st.volatile.global.u32 [%rd2], 1; st.volatile.global.u32 [%rd2], 2; bra Out;
                Look: ld.volatile.global.u32 %r0, [%rd2];
                Out:""",
                np.zeros(1, np.uint32),
                block=32,
            )
        seen |= set(out[1:].tolist())
    assert seen == {0, 1, 2}


@pytest.mark.parametrize("count", [1, 2, 1000, 65536, 65537, 10**6])
def test_every_wave_starts_once(count):
    for schedule in (Lockstep(), Adversarial(3)):
        order = np.fromiter(schedule.waves(count), np.int64)
        np.testing.assert_array_equal(np.sort(order), np.arange(count))
    if count > 2:
        assert (order != np.arange(count)).any()


def test_a_schedule_ends_where_a_later_one_lives_on():
    """That of a test's setup ends before one that a fixture began in it."""
    outer, inner = virtualgpu.schedule(1), virtualgpu.schedule(2)
    outer.__enter__()
    inner.__enter__()
    latest = instruments.new_schedule()
    outer.__exit__(None, None, None)
    assert instruments.new_schedule() is latest
    inner.__exit__(None, None, None)
    assert isinstance(instruments.new_schedule(), Lockstep)


STACK = """.version 8.0
.target sm_90, debug
.address_size 64
.visible .entry k(.param .b64 p) {
 .local .align 8 .b8 depot[32]; .reg .b64 %SP, %SPL, %a; .reg .b32 %r;
 mov.b64 %SPL, depot; cvta.local.u64 %SP, %SPL; ld.param.b64 %a, [p];
 st.b32 [%SP+8], 7; ld.b32 %r, [%SP+8]; st.b32 [%a], %r; st.local.b32 [%SPL], %r;@ ret; }
"""


@pytest.mark.parametrize(("more", "places"), [("", [5]), (" mov.b64 %SP, %a;", [3, 4, 5])])
def test_lanes_part_where_others_may_reach_and_not_on_their_own_stack(more, places):
    """Code for a debugger keeps every variable there; a register that is set twice may be any."""
    assert parse(STACK.replace("@", more)).debug
    body = parse(STACK.replace("@", more)).functions["k"].body
    assert sorted(shared_accesses(body)) == places
