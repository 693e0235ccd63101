"""Answers that never end, exit or give what nobody can use: what a check says, and that it ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from numba import njit

from gpucourse.exercises import bounds
from gpucourse.exercises.checks import Lesson, read_exercises
from gpucourse.exercises.outcomes import Outcome

CHECKS = '''
from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.compiled_loops import ended
import numpy as np

@exercise("sum", hints=("one", "two"))
def sum_of(answer):
    """The sum is right."""
    got = answer(np.arange(3))
    require(got.sum() == 3, f"the sum is {got[0]}")

@exercise("compiled", hints=("one", "two"))
def compiled(answer):
    """It ends."""
    require(ended(answer, 3) == 3, "it gives something else")

@exercise("says", hints=("one", "two"))
def says(answer):
    """Never right."""
    require(False, f"this is {answer}")

@exercise("steps", hints=("one", "two"))
def steps(answer):
    """Done."""
    for _ in range(8):
        answer()
        require(True, "")
'''


@pytest.fixture(scope="module")
def lesson(tmp_path_factory) -> Lesson:
    """Read from a file, as a lesson's checks are: none of its lines is the learner's."""
    path = tmp_path_factory.mktemp("01_small_steps") / "checks.py"
    path.write_text(CHECKS)
    return Lesson("01_small_steps", read_exercises(path))


@pytest.fixture
def hurry(monkeypatch):
    monkeypatch.setattr(bounds, "SECONDS", 0.2)
    monkeypatch.setattr(bounds, "TICK", 0.05)


@pytest.fixture
def heard(lesson):
    """What the check says of an answer; nothing of the bound is left behind."""

    def outcome(answer, name="sum") -> Outcome:
        before = signal.getsignal(signal.SIGALRM), sys.gettrace()
        said = lesson.outcome(name, answer)
        assert (signal.getsignal(signal.SIGALRM), sys.gettrace()) == before
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        return said

    return outcome


def _spins(values):
    while True:
        pass


def _catches_all(values):
    while True:
        try:
            time.sleep(0.001)
        except:  # noqa: E722
            pass


def _sleeps(values):
    time.sleep(1e6)


@pytest.mark.parametrize("answer", [_spins, _catches_all, _sleeps])
def test_an_answer_that_never_ends_is_stopped_at_a_line_of_its_own(hurry, heard, answer):
    said = heard(answer)
    assert said.message == "your code was still running after 0.2 s, so the check stopped it"
    assert "test_bounds.py line" in said.look


def test_a_compiled_loop_that_never_ends_is_stopped(hurry, heard):
    @njit
    def never_ends(k):
        while k > 0:
            k = k % 7 + 1
        return k

    assert "still running" in heard(never_ends, "compiled").message


def test_a_compiled_function_that_ends_gives_what_it_gives(heard):
    @njit
    def same(k):
        return k

    assert heard(same, "compiled").passed


def test_what_goes_on_has_no_bound(hurry, heard):
    assert heard(lambda: time.sleep(0.05), "steps").passed


def test_outside_of_the_main_thread_there_is_no_bound(lesson):
    said: list[Outcome] = []
    thread = threading.Thread(target=lambda: said.append(lesson.outcome("sum", np.array)))
    thread.start()
    thread.join()
    assert said[0].passed


@pytest.mark.parametrize("error", [SystemExit("by"), KeyboardInterrupt("by"), GeneratorExit("by")])
def test_an_answer_that_ends_the_program_does_not(heard, error):
    def ends(values):
        raise error

    assert heard(ends).message == f"{type(error).__name__}: by"


def raises(number, frame):
    raise KeyboardInterrupt


@pytest.mark.parametrize("handler", [signal.default_int_handler, raises, partial(raises)])
def test_who_interrupts_a_check_means_it(heard, handler):
    def interrupted(values):
        while True:  # one that comes while Python collects is lost
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            heard(interrupted)
    finally:
        signal.signal(signal.SIGINT, before)


def test_of_a_megabyte_the_beginning_is_printed(heard, capsys):
    def prints(values):
        print("x" * 1_000_000)
        return values

    assert heard(prints).passed
    out = capsys.readouterr().out
    assert len(out) < 10_200
    assert out.endswith("… this check printed 990,001 more characters\n")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "returns None, which the check cannot use (AttributeError: 'NoneType'"),
        ("text", "returns 'text' (str), which the check cannot use"),
        (
            np.array(4.0),
            "returns an array of float64 with the shape (), which the check cannot use",
        ),
        (np.array([3, None]), "an array of object with the shape (2,), which the check cannot use"),
        ((k for k in range(3)), "(generator), which the check cannot use"),
        (float("nan"), "returns nan (float), which the check cannot use"),
    ],
)
def test_what_cannot_be_used_is_named(heard, value, words):
    said = heard(lambda values: value)
    assert not said.passed
    assert words in said.message
    assert said.look == "the `return` of your function: what should it return?"


def test_what_is_no_function_is_named(heard):
    assert heard(3.5).message == "this is 3.5 (float), not a function"
    assert len(heard("x" * 10_000).message) < 100


def test_an_error_in_the_answer_itself_is_told_as_it_is(heard):
    said = heard(lambda values: values.nothing)
    assert said.message.startswith("AttributeError: 'numpy.ndarray' object has no attribute")
    assert "test_bounds.py line" in said.look


def test_a_message_with_a_value_of_the_learners_is_cut(heard):
    said = heard("x" * 1_000_000, "says")
    assert len(said.message) == 2_000 and said.message.endswith("…")
