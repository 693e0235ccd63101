"""Trial launches: copies, checkers, other orders, counts."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda  # noqa: E402

from gpucourse.exercises.checks import CheckFailed  # noqa: E402
from gpucourse.exercises.trials import (  # noqa: E402
    LEFTOVER,
    counted,
    held,
    in_words,
    launched,
    require_close,
    require_equal,
)
from kernels_to_see import add_racing, double, double_unguarded  # noqa: E402
from virtualgpu.errors import MemoryAccessError  # noqa: E402


@cuda.jit
def draw_tickets(next_ticket, drawn_by):
    drawn_by[cuda.atomic.add(next_ticket, 0, 1)] = cuda.grid(1)


def test_the_results_come_back_and_the_arguments_stay_as_they_were():
    values, out = np.arange(5.0), np.zeros(5)
    after = launched(double, 2, 4, values, out)
    assert np.array_equal(after[1], 2 * values)
    assert not out.any()


def test_numbers_are_handed_through():
    @cuda.jit
    def fill(out, value):
        out[cuda.grid(1)] = value

    assert (launched(fill, 1, 4, np.zeros(4), 2.5)[0] == 2.5).all()


@pytest.fixture
def jagged():
    """Two events' worth of numbers, and a kernel that counts them event by event."""
    import awkward as ak

    from lecture_cells import without_gpu

    without_gpu()
    ak.numba.register_and_check()

    @cuda.jit(extensions=[ak.numba.cuda])
    def lengths(events, out):
        i = cuda.grid(1)
        if i < len(events):
            out[i] = len(events[i])

    return lengths, ak.Array([[1.0, 2.0], [], [3.0]])


def test_awkward_arrays_go_to_the_device_and_come_back_as_given(jagged):
    lengths, events = jagged
    after = launched(lengths, 1, 32, events, np.full(3, LEFTOVER))
    assert after[0] is events
    assert after[1].tolist() == [2, 0, 1]
    assert counted(lengths, 1, 32, events, np.zeros(3)).global_stores == 3


def test_a_finding_fails_the_check_and_names_both_places():
    with pytest.raises(CheckFailed) as failed:
        launched(add_racing, 1, 64, np.ones(64), np.zeros(1))
    assert failed.value.message.startswith("race: ")
    assert failed.value.look.count("kernels_to_see.py line") == 2
    assert "`total[0] += values[i]` (thread 0 of block 0)" in failed.value.look


def test_threads_that_have_ended_are_no_place_to_look_at():
    @cuda.jit
    def some_leave(out):
        if cuda.threadIdx.x < 32:
            cuda.syncthreads()
            out[cuda.threadIdx.x] = 1

    with pytest.raises(CheckFailed) as failed:
        launched(some_leave, 1, 64, np.zeros(64))
    assert "32 threads of block 0 ended" in failed.value.message
    assert failed.value.look.count(" line ") == 1
    assert "unknown" not in failed.value.look


def test_errors_of_the_machine_are_raised():
    with pytest.raises(MemoryAccessError):
        launched(double_unguarded, 2, 64, np.ones(100), np.zeros(100))


def test_an_answer_that_depends_on_the_order_fails_the_check():
    arguments = (np.zeros(1, np.int64), np.zeros(512, np.int64))
    with pytest.raises(CheckFailed, match="depends on the order"):
        launched(draw_tickets, 8, 64, *arguments, seeds=range(12))
    launched(draw_tickets, 8, 64, *arguments, seeds=())


@pytest.mark.parametrize("wrong", [len, None, 3, double[1, 2]])
def test_what_is_no_kernel_is_told_so(wrong):
    with pytest.raises(CheckFailed, match=r"not a kernel|already has its brackets"):
        launched(wrong, 1, 1)


def test_counts_are_those_of_one_launch():
    assert counted(double, 1, 64, np.ones(64), np.zeros(64)).global_stores == 64


def test_counts_of_a_kernel_that_fails_end_at_the_failure():
    assert counted(double_unguarded, 2, 64, np.ones(100), np.zeros(100)).global_stores == 0
    assert counted(len, 1, 1).warp_instructions == 0


def test_comparing_names_the_first_element_that_differs():
    require_equal(np.arange(3), np.arange(3), "case", "look")
    with pytest.raises(CheckFailed, match="case, element 1 is 5, not 1"):
        require_equal(np.array([0, 5, 6]), np.arange(3), "case", "look")
    with pytest.raises(CheckFailed, match="case, element 2 was never written"):
        require_equal(np.array([0, 1, LEFTOVER]), np.arange(3), "case", "look")


def test_comparing_shows_the_digits_that_differ():
    with pytest.raises(CheckFailed, match=r"element 0 is 0\.100000001, not 0\.1\b"):
        require_equal(np.array([0.1], np.float32).astype(float), np.array([0.1]), "case", "look")


@pytest.mark.parametrize(
    ("got", "message"),
    [
        ([0.5, 0.2], r"case, time\[1\] is 0\.2, not 0\.1\n.*: look"),
        (
            [LEFTOVER, 0.1],
            r"case, time\[0\] was never written\n.*: which thread handles this element\?",
        ),
        ([0.5, np.float32(0.1)], r"time\[1\] is 0\.100000001, .*\n.*rounded to float32"),
        ([0.5], r"case, the answer has the shape \(1,\), not \(2,\)"),
    ],
)
def test_comparing_floats_names_the_first_that_is_not_close(got, message):
    expected = np.array([0.5, 0.1])
    require_close(expected * (1 + 1e-10), expected, "case", "look", rtol=1e-9)
    with pytest.raises(CheckFailed, match=message):
        require_close(np.array(got, float), expected, "case", "look", rtol=1e-9, place="time[{}]")


def test_who_waits_is_told_how_many_numbers_there_are_not_rows():
    arguments = (np.ones((5, 100)), np.ones(5), 3, np.ones(0))
    assert in_words("row_sums", 5, 32, arguments) == "row_sums[5, 32] on arrays of 500, 5"


@pytest.mark.parametrize(
    ("found", "expected", "says"),
    [
        (-542.0, 457.0, "is -542 (it was -999 before the launch"),
        (1001.0, 2000.0, "is 1001 (it was -999 before the launch"),
        (-999.0, 457.0, "was never written"),
        (450.0, 457.0, "is 450"),
        (-450.0, -457.0, "is -450"),
    ],
)
def test_a_result_that_is_added_to_what_stood_there_says_what_that_was(found, expected, says):
    assert held(found, expected).startswith(says)
    assert ("before" in held(found, expected)) == ("before" in says)


def test_a_loop_left_in_every_thread_is_told_before_its_race():
    @cuda.jit
    def loop(values, out):
        for i in range(out.size):
            out[i] = values[i] + 1

    with pytest.raises(CheckFailed) as failed:
        launched(loop, 2, 32, np.arange(50.0), np.zeros(50))
    assert "each of 64 threads writes 50 times" in str(failed.value)
    assert "race" not in str(failed.value) and "loop" in failed.value.look


def test_a_race_of_threads_that_share_the_work_stays_a_race():
    @cuda.jit
    def beside(values, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i // 2] = values[i]

    with pytest.raises(CheckFailed, match="race: "):
        launched(beside, 2, 32, np.arange(50.0), np.zeros(50))
