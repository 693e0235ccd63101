"""What the race check says, and its limits.

What it finds in kernels as people write them is in ``test_labelled.py``, whether its rules are
right in ``test_racecheck_judge.py``.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda, int32  # noqa: E402

from ptx_lab import per_thread  # noqa: E402
from virtualgpu.errors import BarrierError  # noqa: E402
from virtualgpu.findings import Report  # noqa: E402
from virtualgpu.observers import race_loop, racecheck  # noqa: E402


def check(kernel, grid, block, *arguments, seed: int | None = None) -> Report:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = [cuda.to_device(a) if isinstance(a, np.ndarray) else a for a in arguments]
        with virtualgpu.check() as report:
            if seed is None:
                kernel[grid, block](*values)
            else:
                with virtualgpu.schedule(seed):
                    kernel[grid, block](*values)
    return report


@cuda.jit
def turned(x, out):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[cuda.grid(1)] = s[63 - t]


TURNED = turned.py_func.__code__.co_firstlineno


def test_message_names_both_threads_lines_and_the_element():
    report = check(turned, 2, 64, np.arange(64, dtype=np.int32), np.zeros(128, np.int32))
    assert len(report.findings) == 1
    race = report.findings[0]
    assert race.kind == "race"
    assert race.kernel == "turned"
    assert race.filename == __file__
    assert (race.line, race.other.line) == (TURNED + 4, TURNED + 5)
    assert race.block == race.other.block
    assert race.thread[0] == 63 - race.other.thread[0]
    assert race.count == 128
    element = race.thread[0]
    assert race.message == (
        f"race: thread {race.thread} of block 0 writes 4 bytes of shared memory "
        f"(element {element} of a shared array of 64 elements of 4 bytes) at line {TURNED + 4} "
        f"while thread {race.other.thread} of the same block reads them at line {TURNED + 5}, and "
        "nothing orders the two: put cuda.syncthreads() between")
    text = str(report)
    assert "s[t] = x[t]" in text
    assert "out[cuda.grid(1)] = s[63 - t]" in text
    assert "(128 times in this launch)" in text


@cuda.jit
def counted(total):
    total[0] += 1


def test_a_lost_update_is_advised_to_be_atomic():
    report = check(counted, 2, 64, np.zeros(1, np.int32))
    assert len(report.findings) == 1
    assert report.findings[0].line == report.findings[0].other.line
    assert "at the same line" in report.findings[0].message
    assert "cuda.atomic" in report.findings[0].message


@cuda.jit
def tree_without_barrier(x):
    t = cuda.threadIdx.x
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            x[t] += x[t + step]
        step //= 2


@cuda.jit
def tallied(bins, counts):
    counts[bins[cuda.grid(1)]] += 1


def test_reading_what_neighbours_write_on_one_line_is_advised_a_barrier():
    for seed in (None, 1):
        report = check(tree_without_barrier, 1, 64, np.zeros(64, np.int32), seed=seed)
        race = next(f for f in report.findings if f.line == f.other.line)
        assert "put cuda.syncthreads()" in race.message, seed
        assert "atomic" not in race.message, seed
        assert "local variable" in race.message, seed


def test_an_update_at_an_index_that_was_looked_up_is_advised_to_be_atomic():
    bins = np.arange(64, dtype=np.int32) % 7
    for seed in (None, 1):
        report = check(tallied, 1, 64, bins, np.zeros(7, np.int32), seed=seed)
        assert all("use cuda.atomic" in finding.message for finding in report.findings), seed
        assert report.findings


@cuda.jit
def greatest(x, best):
    i = cuda.grid(1)
    if x[i] > best[0]:
        best[0] = x[i]


@cuda.jit
def until_enough(x, best):
    i = cuda.grid(1)
    seen = best[0] * 2 + 1
    if seen < 2000:
        best[0] = x[i]


def test_a_test_and_a_write_are_advised_to_be_one_step():
    x = np.arange(128, dtype=np.int64)
    for kernel, blocks in ((greatest, 1), (greatest, 2), (until_enough, 1)):
        report = check(kernel, blocks, 64, x, np.full(1, -1))
        apart = [found for found in report.findings if found.line != found.other.line]
        assert apart, kernel
        for found in apart:
            assert "use cuda.atomic.max (or min, or compare_and_swap)" in found.message, kernel
            assert "syncthreads" not in found.message and "second launch" not in found.message


@cuda.jit
def looks_elsewhere(x, out):
    """What is tested is another thread's element: a barrier is missing, no atomic."""
    t = cuda.threadIdx.x
    if x[t ^ 33] > 5:
        x[t] = 1


def test_a_test_of_another_element_is_advised_a_barrier():
    report = check(looks_elsewhere, 1, 64, np.arange(64), np.zeros(64))
    assert report.findings
    assert all("put cuda.syncthreads()" in found.message for found in report.findings)


@cuda.jit
def other_blocks(x, out):
    i = cuda.grid(1)
    x[i] = i
    cuda.syncthreads()
    out[i] = x[127 - i]


def test_blocks_are_told_that_no_barrier_spans_them():
    report = check(other_blocks, 2, 64, np.zeros(128, np.int32), np.zeros(128, np.int32))
    assert len(report.findings) == 1
    race = report.findings[0]
    assert race.block != race.other.block
    assert f"of block {race.other.block}" in race.message
    assert "no barrier spans the blocks of a launch" in race.message


@cuda.jit
def exchanged(x, out):
    t = cuda.threadIdx.x
    x[t] = t
    out[t] = x[t ^ 1]


def test_behind_a_barrier_the_thread_that_is_named_is_of_another_block():
    """Its own block's updates come before: a read of a total that all blocks still add to."""

    @cuda.jit
    def normalise(values, total):
        i = cuda.grid(1)
        cuda.atomic.add(total, 0, values[i])
        cuda.syncthreads()
        values[i] /= total[0]

    with virtualgpu.check() as report:
        normalise[4, 64](cuda.to_device(np.ones(256)), cuda.to_device(np.zeros(1)))
    (finding,) = report.findings
    assert finding.block != finding.other.block
    assert "of the same block" not in finding.message
    assert "wait for another launch" in finding.message


def test_a_neighbour_added_in_place_is_advised_a_barrier_on_that_line():
    """`tile[t] += tile[t - d]`: my own read of tile[t] is not the one that races."""

    @cuda.jit
    def scan(values, sums):
        tile = cuda.shared.array(128, int32)
        t = cuda.threadIdx.x
        tile[t] = values[t]
        cuda.syncthreads()
        distance = 1
        while distance < 128:
            if t >= distance:
                tile[t] += tile[t - distance]
            cuda.syncthreads()
            distance *= 2
        sums[t] = tile[t]

    with virtualgpu.check() as report:
        scan[1, 128](cuda.to_device(np.ones(128, np.int32)), cuda.device_array(128, np.int32))
    (finding,) = report.findings
    assert finding.other.thread is not None and finding.other.thread != finding.thread
    assert "by way of a local variable" in finding.message


def test_lanes_of_a_warp_hear_of_syncwarp():
    report = check(exchanged, 1, 32, np.zeros(32, np.int32), np.zeros(32, np.int32))
    assert "cuda.syncwarp()" in report.findings[0].message


@cuda.jit
def read_by_all(x, out):
    i = cuda.grid(1)
    out[i] = x[0]
    if i == 0:
        x[0] = 1


def test_the_other_party_of_many_readers_is_never_the_writer_itself():
    # Thread 0 is the first reader, and the writer.
    report = check(read_by_all, 2, 64, np.zeros(1, np.int32), np.zeros(128, np.int32))
    race = report.findings[0]
    assert (race.block, race.thread) == ((0, 0, 0), (0, 0, 0))
    assert (race.other.block, race.other.thread) != (race.block, race.thread)


def test_launches_are_judged_apart_and_one_fault_of_several_is_told_once():
    x = cuda.to_device(np.zeros(128, np.int32))
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        counted[1, 1](x)
        counted[1, 1](x)
        assert report.ok
        counted[1, 2](x)
        counted[1, 3](x)
    (finding,) = report.findings
    assert (finding.launch, finding.launches) == (3, {3, 4})
    assert report.launches == 4
    assert str(report).startswith("4 launches: 1 finding\n")
    assert str(report).endswith(f"({finding.count} times in 2 launches)")


@cuda.jit
def counted_elsewhere(x):
    x[0] += 1
    x[1] += 1


def test_other_places_and_kernels_are_faults_of_their_own():
    x = cuda.to_device(np.zeros(128, np.int32))
    with warnings.catch_warnings(), virtualgpu.check() as report:
        warnings.simplefilter("ignore")
        for _ in range(30):
            counted[1, 2](x)
            counted_elsewhere[1, 2](x)
    assert [len(finding.launches) for finding in report.findings] == [30, 30, 30]
    assert len({(finding.kernel, finding.line) for finding in report.findings}) == 3


def test_nested_checks_both_hear():
    with virtualgpu.check() as outer:
        inner = check(counted, 1, 64, np.zeros(1, np.int32))
    assert len(inner.findings) == len(outer.findings) == 1


def test_nothing_launched_is_no_success():
    with virtualgpu.check() as report:
        pass
    assert "no kernel was launched" in str(report)


def test_a_parameter_is_its_threads_own():
    """By a literal address, which the fuzzer's case 9068 had: no allocation is there."""
    with virtualgpu.check() as report:
        found = per_thread("st.param.b32 [8], %gid; ld.param.b32 %r0, [8];",
                           variables=".local .align 8 .b8 frame[16];")
    assert report.ok and (found == np.arange(32)).all()


def test_every_strong_access_has_records_to_write_to(monkeypatch):
    """Those of `cp.async.mbarrier.arrive` were missing: fuzz case 133677 wrote past an array."""
    seen = []
    run = racecheck.Racecheck._run

    def watched(self, state, access, site, area, *rest):
        done = run(self, state, access, site, area, *rest)
        seen.append((access.strong, area.has_strong))
        return done

    monkeypatch.setattr(racecheck.Racecheck, "_run", watched)
    with virtualgpu.check(), pytest.raises(BarrierError):
        per_thread("cp.async.mbarrier.arrive.shared.b64 [tile];", grid=3, block=1,
                   before=".shared .align 8 .b8 tile[64];")
    assert seen == [(True, True)]


# -- limits -------------------------------------------------------------------------------------


def test_the_clock_starts_again_without_false_alarms(monkeypatch):
    arrays = [np.zeros(128, np.int32), np.zeros(128, np.int32), np.array([30])]
    monkeypatch.setattr(race_loop, "MAXIMUM_TIME", racecheck._time.now + 40)
    before = racecheck._time.generation
    with virtualgpu.check() as around:
        for seed in (None, 1, 2):
            assert check(many_rounds, 2, 64, *arrays, seed=seed).ok
    assert around.ok, around
    assert racecheck._time.generation > before
    assert not check(counted, 1, 64, np.zeros(1, np.int32)).ok


@cuda.jit
def many_rounds(x, out, rounds):
    t, start = cuda.threadIdx.x, cuda.blockIdx.x * 64
    for k in range(rounds[0]):
        x[start + t] = k
        cuda.syncthreads()
        out[start + t] += x[start + 63 - t]
        cuda.syncthreads()


def test_more_threads_than_a_record_can_name_are_not_checked(monkeypatch):
    monkeypatch.setattr(race_loop, "MAXIMUM_THREAD", 100)
    report = check(counted, 2, 64, np.zeros(1, np.int32))
    assert report.ok
    assert "races were not looked for" in str(report)
