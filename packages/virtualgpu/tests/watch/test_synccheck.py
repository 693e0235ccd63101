"""Barriers that not all threads reach, and masks that are wrong: what is said and where."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import virtualgpu
from messages import assert_tells

virtualgpu.activate(force=True)

from numba import cuda  # noqa: E402

from virtualgpu.findings import Report  # noqa: E402


def check(kernel, grid, block, *arguments) -> Report:
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        kernel[grid, block](
            *[cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        )
    return report


def line(kernel, offset: int) -> int:
    return kernel.py_func.__code__.co_firstlineno + offset


@cuda.jit
def returns_early(x):
    i = cuda.grid(1)
    if i >= x.size:
        return
    cuda.syncthreads()
    x[i] = 1


def test_threads_that_ended_before_the_barrier():
    report = check(returns_early, 3, 64, np.zeros(150, np.int32))
    assert len(report.findings) == 1
    found = report.findings[0]
    assert (found.kind, found.line) == ("barrier", line(returns_early, 5))
    assert found.block == (2, 0, 0)
    assert found.other.thread == (22, 0, 0)
    assert_tells(
        found.message, "42 threads of block 2", f"line {found.line}", "first is 22", "other 22 wait"
    )


def test_one_thread_that_waits_alone_waits_in_the_singular():
    found = check(returns_early, 3, 64, np.zeros(129, np.int32)).findings[0]
    assert "the other one waits" in found.message


def test_a_full_block_is_no_short_one():
    assert check(returns_early, 2, 64, np.zeros(128, np.int32)).ok


@cuda.jit
def two_places(x):
    t = cuda.threadIdx.x
    if t < 40:
        x[t] = 1
        cuda.syncthreads()
    else:
        x[t] = 2
        cuda.syncthreads()


def test_barriers_at_two_places():
    report = check(two_places, 2, 64, np.zeros(64, np.int32))
    barriers = report.of_kind("barrier")
    assert len(barriers) == 1
    found = barriers[0]
    assert {found.line, found.other.line} == {line(two_places, 5), line(two_places, 8)}
    assert {found.thread, found.other.thread} == {(0, 0, 0), (40, 0, 0)}
    assert found.count == 2  # one for each block
    assert "All threads of a block" in found.message


@cuda.jit
def whole_blocks_differ(x):
    if cuda.blockIdx.x == 0:
        x[0] = 1
        cuda.syncthreads()
    else:
        x[1] = 2
        cuda.syncthreads()


def test_blocks_may_take_different_barriers():
    assert check(whole_blocks_differ, 2, 1, np.zeros(2, np.int32)).ok


@cuda.jit
def masked(x, mask):
    t = cuda.threadIdx.x
    cuda.syncwarp(mask[t % 32])
    x[t] = 1


def masks(**lanes: int) -> np.ndarray:
    every = np.full(32, 0xFFFFFFFF, np.uint32)
    for name, mask in lanes.items():
        every[int(name[1:])] = mask
    return every


def test_a_mask_must_name_its_lane():
    report = check(masked, 1, 64, np.zeros(64, np.int32), masks(_7=0xFFFFFF7F))
    found = report.of_kind("barrier")[0]
    assert (found.line, found.thread, found.count) == (line(masked, 3), (7, 0, 0), 2)
    assert_tells(found.message, "0xffffff7f", "own lane", "number 7")


def test_lanes_that_name_each_other_must_agree():
    report = check(masked, 1, 32, np.zeros(32, np.int32), masks(_7=0x000000FF))
    found = report.of_kind("barrier")[0]
    assert (7, 0, 0) in (found.thread, found.other.thread)
    assert "must give the same mask" in found.message


def test_tiles_of_a_warp_may_have_their_own_masks():
    tiles = np.repeat(np.array([0xFF, 0xFF00, 0xFF0000, 0xFF000000], np.uint32), 8)
    assert check(masked, 2, 64, np.zeros(64, np.int32), tiles).of_kind("barrier") == []


@cuda.jit
def sums_of_a_short_warp(x):
    t = cuda.threadIdx.x
    value = x[t]
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    if t == 0:
        x[0] = value


def test_the_full_mask_is_right_for_a_short_warp():
    # PTX waits for the named lanes that are there; 20 threads have no lanes 20 to 31.
    assert check(sums_of_a_short_warp, 1, 20, np.ones(20, np.int32)).ok


@cuda.jit
def some_shuffle(x):
    t = cuda.threadIdx.x
    if t < 8:
        x[t] = cuda.shfl_sync(0xFFFFFFFF, t, 0)


@cuda.jit
def some_vote(x):
    t = cuda.threadIdx.x
    if t < 8:
        x[t] = cuda.ballot_sync(0xFFFFFFFF, t > 2)


@cuda.jit
def some_wait(x):
    t = cuda.threadIdx.x
    if t >= 8:
        return
    cuda.syncwarp()
    x[t] = t


@pytest.mark.parametrize("native", ["always", "never"])
@pytest.mark.parametrize(
    ("kernel", "offset", "what"), [(some_shuffle, 4, "a shuffle"), (some_vote, 4, "a vote")]
)
def test_a_mask_that_names_lanes_which_never_come(kernel, offset, what, native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    report = check(kernel, 3, 64, np.zeros(64, np.int32))
    found = report.of_kind("barrier")
    assert {(one.line, one.thread, one.other.thread) for one in found} == {
        (line(kernel, offset), (0, 0, 0), (8, 0, 0))
    }
    assert f"runs {what} at line" in found[0].message
    assert_tells(found[0].message, "24 lanes", "thread 8")


@pytest.mark.parametrize("native", ["always", "never"])
def test_a_barrier_of_the_warp_may_name_lanes_that_ended(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    assert check(some_wait, 1, 64, np.zeros(64, np.int32)).ok
    with virtualgpu.check() as report:  # Numba's own kernel does
        assert cuda.reduce(lambda a, b: a + b)(np.arange(1000)) == 499_500
    assert report.ok


@pytest.mark.parametrize("native", ["always", "never"])
def test_the_mask_of_those_that_run_it_is_right(native, monkeypatch):
    @cuda.jit
    def few(x):
        t = cuda.threadIdx.x
        mask = cuda.ballot_sync(0xFFFFFFFF, t < 8)
        if t < 8:
            value = x[t]
            for d in (4, 2, 1):  # the last steps read lanes that are not in the mask, and drop it
                value += cuda.shfl_down_sync(mask, value, d)
            if t == 0:
                x[8] = value

    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    assert check(few, 1, 32, np.ones(32, np.int32)).ok


@cuda.jit
def from_a_lane(x, lane):
    t = cuda.threadIdx.x
    if t < 8:
        x[t] = cuda.shfl_sync(0xFF, t, lane)


@cuda.jit
def from_the_last(x, lane):
    t = cuda.threadIdx.x
    x[t] = cuda.shfl_sync(0xFFFFFFFF, t, lane)


@pytest.mark.parametrize("native", ["always", "never"])
def test_a_shuffle_from_a_lane_that_takes_no_part(native, monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", native)
    report = check(from_a_lane, 1, 32, np.zeros(32, np.int32), 20)
    found = report.of_kind("barrier")[0]
    assert (found.line, found.thread, found.count) == (line(from_a_lane, 4), (0, 0, 0), 8)
    assert "takes no part" in found.message
    assert check(from_a_lane, 1, 32, np.zeros(32, np.int32), 7).ok
    # A warp of 20 lanes has no lane 31.
    short = check(from_the_last, 1, 20, np.zeros(20, np.int32), 31)
    assert [one.count for one in short.of_kind("barrier")] == [20]
    assert check(from_the_last, 1, 20, np.zeros(20, np.int32), 19).ok


@cuda.jit
def half_of_the_grid(x):
    grid = cuda.cg.this_grid()
    if cuda.blockIdx.x < 2:
        x[cuda.grid(1)] = 1
        grid.sync()


def test_blocks_that_leave_the_grids_barrier_out():
    report = check(half_of_the_grid, 4, 32, np.zeros(128, np.int32))
    found = report.findings[0]
    assert (found.kind, found.line) == ("barrier", line(half_of_the_grid, 5))
    assert_tells(found.message, "64 threads", "grid.sync()")


COUNTED = r"""
extern "C" __global__ void k(int *out) {
  if (threadIdx.x >= 64) return;  // the barrier asks for 64, and 64 come
  asm volatile("barrier.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = 1;
}
"""


def test_a_barrier_with_a_count_wants_no_more():
    module = virtualgpu.Module.from_cuda(COUNTED)
    for seed in range(5):  # in some orders the others end first
        with virtualgpu.check() as report, virtualgpu.schedule(seed):
            module.launch("k", 1, 128, [np.zeros(64, np.int32)])
        assert report.ok, report


@cuda.jit
def waits_for_ever(x):
    t = cuda.threadIdx.x
    if t == 0:
        cuda.syncthreads()
    else:
        cuda.syncwarp()
        cuda.syncthreads()
    x[t] = 1


def test_a_deadlock_is_raised_and_reported():
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        with pytest.raises(virtualgpu.VirtualGPUError, match="deadlock"):
            waits_for_ever[1, 32](cuda.to_device(np.zeros(32, np.int32)))
    assert [finding.kind for finding in report.findings] == ["deadlock"]
    assert report.findings[0].line in (line(waits_for_ever, 4), line(waits_for_ever, 6))
