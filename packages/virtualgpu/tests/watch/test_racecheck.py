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
from virtualgpu.watch import race_loop, racecheck  # noqa: E402


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
        f"(s[{element}] of 64) at line {TURNED + 4} while thread {race.other.thread} of the same "
        f"block reads them at line {TURNED + 5}, and nothing orders the two: put "
        "cuda.syncthreads() between"
    )
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
    assert "be done in another launch" in finding.message


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
    assert "into a local variable" in finding.message


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
        found = per_thread(
            "st.param.b32 [8], %gid; ld.param.b32 %r0, [8];",
            variables=".local .align 8 .b8 frame[16];",
        )
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
        per_thread(
            "cp.async.mbarrier.arrive.shared.b64 [tile];",
            grid=3,
            block=1,
            before=".shared .align 8 .b8 tile[64];",
        )
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
    assert "was not checked for races" in str(report)


# -- a compare-and-swap that begins with a plain read ---------------------------------------------

SWAPS = """extern "C" __global__ void k(unsigned long long *p, double *out) {{
  unsigned long long old = {read}, assumed;
  {before}
  do {{
    assumed = old;
    old = atomicCAS(p + threadIdx.x % 4, assumed,
                    __double_as_longlong(1.0 + __longlong_as_double(assumed)));
  }} while (assumed != old);
  {after}
}}"""


def swaps(read: str = "p[threadIdx.x % 4]", before: str = "", after: str = ""):
    text = SWAPS.format(read=read, before=before, after=after)
    values, out = np.zeros(4, np.uint64), np.zeros(128)
    with virtualgpu.check() as report:
        virtualgpu.Module.from_cuda(text).launch("k", 2, 64, [values, out])
    return report, values.view(np.float64)


def test_the_read_before_a_compare_and_swap_of_the_word_races_with_no_other_swap():
    """CUDA C++ Programming Guide, "Atomic Functions": a wrong value costs another round."""
    report, values = swaps()
    assert report.ok, report
    assert (values == 32).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"read": "p[threadIdx.x % 4 ^ 1]"},
        {"before": "if (old == 7) return;"},
        {"before": "out[threadIdx.x + 64 * blockIdx.x] = __longlong_as_double(old);"},
        {"after": "p[threadIdx.x % 4] = 0;"},
    ],
    ids=["another word", "who decides", "who stores it", "a plain store too"],
)
def test_a_read_that_does_more_than_try_is_a_race(changes):
    report, _ = swaps(**changes)
    assert {finding.kind for finding in report.findings} == {"race"}


@cuda.jit
def told_done(x, done, first, k):
    if x[cuda.grid(1)] > 5:
        done[0] = 1
    done[1] = first[k] * 2


@cuda.jit
def told_who(x, last, first, k):
    i = cuda.grid(1)
    last[0] = i
    last[1] = first[k + i % 2]
    last[2] = x[i]


@cuda.jit
def told_from_own_memory(out):
    mine = cuda.local.array(2, int32)
    i = cuda.grid(1)
    mine[i & 1] = i
    out[0] = mine[0]


@pytest.mark.parametrize("ones", [False, True])
def test_a_store_of_one_value_whatever_the_data_is_a_race_that_says_so(ones):
    """What the program says, not the data: all stores of told_who are equal where ``ones``."""
    x = np.ones(64, np.int32) * 9 if ones else np.arange(64, dtype=np.int32)
    first = np.ones(2, np.int32) if ones else np.arange(2, dtype=np.int32)
    same = check(told_done, 2, 32, x, np.zeros(2, np.int32), first, 1)
    assert len(same.of_kind("race")) == len(same.findings) == 2
    assert all("all threads store the same value here" in one.message for one in same.findings)
    other = check(told_who, 2, 32, x, np.zeros(3, np.int32), first, 0)
    other.findings += check(told_from_own_memory, 2, 32, np.zeros(1, np.int32)).findings
    assert len(other.of_kind("race")) == 4
    assert not any("same value" in one.message for one in other.findings)


@cuda.jit
def flag_that_a_block_takes_back(x, flag):
    if x[cuda.grid(1)] > 5:
        flag[0] = 1
    cuda.syncthreads()
    if cuda.grid(1) == 40:
        flag[0] = 0


@cuda.jit
def first_come(flag, came):
    i = cuda.grid(1)
    if flag[0] == 0:
        flag[0] = 1
        came[i] = 1


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_equal_values_do_not_make_a_race_harmless(seed):
    """Why a store of one value is no note: what is read or stored besides depends on the order
    (docs/decisions/22)."""
    x, flag = np.full(64, 9, np.int32), np.zeros(1, np.int32)
    for report in (
        check(flag_that_a_block_takes_back, 2, 32, x, flag, seed=seed),
        check(first_come, 2, 32, flag, np.zeros(64, np.int32), seed=seed),
    ):
        assert report.of_kind("race")


@cuda.jit
def scan_with_barriers_that_are_not_called(x):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads  # noqa: B018
    step = 1
    while step < 64:
        if t >= step:
            s[t] += s[t - step]
        cuda.syncthreads  # noqa: B018
        step *= 2
    x[t] = s[t]


@cuda.jit
def warp_barrier_that_is_not_called(x, out):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp  # noqa: B018
    out[t] = s[31 - t]


def test_a_barrier_without_its_parentheses_is_named():
    """From a forum: the kernel names the barrier, and nothing said that it does not call it."""
    ones = np.ones(64, np.int32)
    first = scan_with_barriers_that_are_not_called.py_func.__code__.co_firstlineno
    findings = check(scan_with_barriers_that_are_not_called, 1, 64, ones).findings
    assert findings
    for one in findings:
        assert f"line {first + 5} names cuda.syncthreads without ()" in one.message
    first = warp_barrier_that_is_not_called.py_func.__code__.co_firstlineno
    [one] = check(warp_barrier_that_is_not_called, 1, 32, ones[:32], ones[:32]).findings
    assert f"line {first + 5} names cuda.syncwarp without ()" in one.message
    [one] = check(turned, 1, 64, ones, ones).findings
    assert "without ()" not in one.message


def test_a_report_at_the_end_of_a_cell_is_shown_in_its_words():
    from IPython.lib.pretty import pretty

    report = check(turned, 1, 64, np.ones(64, np.int32), np.ones(64, np.int32))
    assert pretty(report) == str(report) != repr(report)
