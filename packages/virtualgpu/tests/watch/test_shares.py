"""What the busiest thread of a launch did, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, int32  # noqa: E402

from virtualgpu.watch.counters import Counters  # noqa: E402


def profile(kernel, grid, block, *arguments) -> Counters:
    there = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with virtualgpu.profile() as result:
        kernel[grid, block](*there)
    return result.launches[0].counters


@cuda.jit
def strided(values, out):
    i = cuda.grid(1)
    total = 0
    for k in range(i, values.size, cuda.gridsize(1)):
        total += values[k]
    if i < out.size:
        out[i] = total


@cuda.jit
def alone(values, out):
    if cuda.grid(1) == 0:
        total = 0
        for k in range(values.size):
            total += values[k]
        out[0] = total


@cuda.jit
def through_shared(values, out):
    place = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    place[t] = values[t]
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(out, 0, place[1])


@pytest.mark.parametrize(
    ("n", "grid", "block", "most", "at_work"),
    [
        (256, 2, 64, 2 + 1, 128),
        (257, 2, 64, 3 + 1, 128),
        (100, 2, 64, 1 + 1, 128),  # threads without a value store all the same
        (0, 1, 32, 1, 32),
    ],
)
def test_the_busiest_thread_of_an_even_launch(n, grid, block, most, at_work):
    counters = profile(strided, grid, block, np.ones(n, np.int32), np.zeros(128, np.int32))
    assert counters.busiest_accesses == most
    assert counters.threads_at_work == at_work


def test_a_thread_alone_has_every_access():
    counters = profile(alone, 4, 64, np.ones(500, np.int32), np.zeros(1, np.int32))
    assert counters.busiest_accesses == counters.global_loads + counters.global_stores == 501
    assert counters.threads_at_work == 1
    assert counters.busiest_instructions > 500
    # The other 255 run the guard and end.
    others = counters.thread_instructions - counters.busiest_instructions
    assert others % 255 == 0 and others // 255 < 20


def test_shared_memory_and_atomics_count():
    counters = profile(through_shared, 1, 64, np.ones(64, np.int32), np.zeros(1, np.int32))
    assert counters.busiest_accesses == 4  # load, store, load, atomic
    assert counters.threads_at_work == 64


@cuda.jit
def in_three_stretches(out):
    """Block 0: nothing; a load of thread 0 and two of thread 40; one of 0. Block 1: a barrier less
    would do."""
    t = cuda.threadIdx.x
    cuda.syncthreads()
    if cuda.blockIdx.x == 0:
        if t == 0:
            out[0] = 1
        if t == 40:
            out[1] = 1
            out[2] = 1
    cuda.syncthreads()
    if t == 0:
        out[3 + cuda.blockIdx.x] = 1


def test_the_span_adds_up_the_busiest_warps_between_barriers():
    counters = profile(in_three_stretches, 2, 64, np.zeros(5, np.int32))
    assert counters.span_accesses == 1 + 2 + 1  # the first barrier, thread 40, thread 0
    assert counters.busiest_accesses == 2
    assert counters.busiest_instructions < counters.span_instructions


@cuda.jit
def before_and_after_a_barrier(out):
    out[cuda.grid(1)] = 1
    cuda.syncthreads()
    out[cuda.grid(1)] = 2


def test_what_the_same_lanes_do_before_and_after_a_barrier_is_told_apart():
    """Both stores behind the barrier would make 3: the stretch before it costs 1 at least."""
    counters = profile(before_and_after_a_barrier, 2, 64, np.zeros(128, np.int32))
    assert (counters.busiest_accesses, counters.span_accesses) == (2, 2)


@cuda.jit
def lanes_in_turns(out):
    for lane in range(32):
        if cuda.laneid == lane:
            out[cuda.grid(1)] = 1
        cuda.syncwarp()


@cuda.jit
def lanes_together(out):
    out[cuda.grid(1)] = 1


@pytest.mark.parametrize(("kernel", "span"), [(lanes_together, 1), (lanes_in_turns, 32)])
def test_lanes_that_take_turns_are_no_warp_at_work(kernel, span):
    counters = profile(kernel, 2, 64, np.zeros(128, np.int32))
    assert (counters.busiest_accesses, counters.span_accesses) == (1, span)


def test_more_blocks_than_run_at_once():
    """A wave has its own counts; threads of the same number in it are not one."""
    threads = 1024 * 300
    out = np.zeros(threads, np.int32)
    counters = profile(strided, 300, 1024, np.ones(threads, np.int32), out)
    assert (counters.busiest_accesses, counters.threads_at_work) == (2, threads)
    assert counters.busiest_instructions * threads == counters.thread_instructions


def test_launches_together_keep_the_largest():
    total = Counters(busiest_accesses=3, span_instructions=5, threads_at_work=2)
    total.add(Counters(busiest_accesses=2, span_instructions=9, threads_at_work=4))
    assert (total.busiest_accesses, total.span_instructions, total.threads_at_work) == (3, 9, 6)


@pytest.mark.parametrize("seed", range(3))
def test_another_order_of_threads_does_the_same_work(seed):
    values, out = np.ones(256, np.int32), np.zeros(128, np.int32)
    with virtualgpu.schedule(seed):
        counters = profile(strided, 2, 64, values, out)
    assert (counters.busiest_accesses, counters.threads_at_work) == (3, 128)
