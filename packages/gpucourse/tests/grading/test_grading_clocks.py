"""A busy machine costs no points, and an answer that wastes time is stopped all the same."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest

from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import clocks
from gpucourse.grading.oracle.clocks import (
    SubmissionClock,
    Usage,
    WorkerClock,
    charged,
    resident_bytes,
)
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.oracle.student import Student
from gpucourse.grading.sandbox.levels import Sandbox
from grading_toy import submitted, toy

SEED = "0123456789abcdef" * 2

# A quarter of a second of work for each of the four calls of a test.
WORKING = """
def double(values):
    import time
    end = time.process_time() + 0.25
    while time.process_time() < end:
        pass
    return 2 * values
"""
SLEEPING = WORKING.replace("while time.process_time() < end", "time.sleep(100)\n    while False")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
def crowded(sandbox):
    """All workers on one processor, with four endless loops of others."""
    # Without bubblewrap the process that forks the workers is the one that was started.
    started = psutil.Process(sandbox._process.pid)
    processes = [started, *started.children(recursive=True)]
    before = processes[0].cpu_affinity()
    for process in processes:
        process.cpu_affinity(before[:1])
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    for loop in loops:
        psutil.Process(loop.pid).cpu_affinity(before[:1])
    yield
    for loop in loops:
        loop.kill()
        loop.wait()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # of the worker that the sandbox tried
            process.cpu_affinity(before)


def verdict(sandbox: Sandbox, answer: str, **limits: float):
    return grade(toy(), submitted(toy(), double=answer), sandbox.server, SEED,
                 replace(sandbox.limits, **limits))


def test_an_answer_is_not_charged_for_what_others_take(sandbox, crowded):
    """A fifth of a processor, or half where the system gives each session an equal share: the four
    calls, 1 s of work, take 1.7 to 5 s on the wall."""
    told = verdict(sandbox, WORKING, request_seconds=0.6, test_seconds=1.5)
    assert told.earned == told.points, told.to_json()
    # It did have to wait: else this would prove nothing.
    assert told.tests[0].seconds > 1.5


def test_a_loop_is_stopped_on_a_busy_machine_too(sandbox, crowded):
    told = verdict(sandbox, WORKING.replace("+ 0.25", "+ 100"), request_seconds=0.5)
    assert "took longer than 0.5 s" in told.tests[0].reason
    assert told.tests[0].seconds < 90


def test_sleep_is_charged(sandbox):
    told = verdict(sandbox, SLEEPING, request_seconds=1.0)
    assert "took longer than 1 s" in told.tests[0].reason
    assert 1.0 < told.tests[0].seconds < 90


def test_a_machine_that_does_not_go_on_is_no_fault_of_the_answer(sandbox):
    limits = replace(sandbox.limits, request_seconds=0.5, wall_seconds=2.0)
    clock = SubmissionClock(limits)
    student = Student(toy(), submitted(toy()), sandbox.server, limits, clock)
    try:
        assert list(student.call("double", (np.arange(3),))) == [0, 2, 4]
        os.kill(student._talk.worker.pid, signal.SIGSTOP)
        with clock.limit(100), pytest.raises(InfrastructureFault, match="too busy") as fault:
            student.call("double", (np.arange(3),))
    finally:
        student.close()
    assert "2 s were not enough" in str(fault.value)


def test_the_oracle_is_charged_with_its_processor_time():
    clock = SubmissionClock(Limits())
    with clock.limit(0.3):
        time.sleep(0.8)
    with pytest.raises(OutOfTestTime), clock.limit(0.3):
        run_for(5.0)
    assert 0.3 <= clock.spent() < 2
    # Off again, and the earlier handler of the alarm is back.
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Lingers:
    """An object whose end takes a while, and may fail."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def __del__(self) -> None:
        run_for(0.5)
        if self.fails:
            raise ValueError("at the end of an object")


def test_a_clock_that_rings_where_python_loses_it_rings_again(monkeypatch):
    """Inside ``__del__`` an exception goes to ``sys.unraisablehook`` alone."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))
    with pytest.raises(OutOfTestTime), SubmissionClock(Limits()).limit(0.2):
        run_for(5.0, Lingers())
    assert told == []
    with SubmissionClock(Limits()).limit(5.0):
        Lingers(fails=True)
    assert told == [ValueError]
    Lingers(fails=True)
    assert told == [ValueError, ValueError]


def run_for(seconds: float, *ends: object) -> None:
    """Work for so many seconds, once what was handed over has ended."""
    del ends
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(("ran", "waited", "held_up", "seconds"), [
    (0.0, 0.0, False, 1.0),  # it slept
    (1.0, 0.0, True, 1.0),  # it ran
    (3.0, 0.0, True, 1.0),  # with three threads
    (0.2, 0.0, True, 0.2),  # it ran a little and is still waiting
    (0.2, 0.7, False, 0.3),  # it waited, and slept a little
    (0.2, 5.0, False, 0.2),  # five threads waited, each for all the time
    (0.0, -0.5, False, 1.0),  # a thread that had waited has ended
])
def test_charged(ran, waited, held_up, seconds):
    before = Usage(10.0, 2.0, True)
    after = Usage(10.0 + ran, 2.0 + waited, held_up)
    assert charged(1.0, before, after) == pytest.approx(seconds)


def test_where_the_system_does_not_tell_all_waiting_is_charged(monkeypatch):
    assert clocks.usage(2**22 + 1) is None  # above the largest number of a process
    clock = SubmissionClock(Limits(request_seconds=5.0))
    worker = WorkerClock(clock, None)
    with worker.request() as request:
        time.sleep(0.4)
        assert request.left() < 4.7
    assert clock.waiting >= 0.4


def test_threat_90_a_clock_aside_stands_still_and_another_inside_rings():
    """As the reference solution is timed inside a test of the student's."""
    own, other = SubmissionClock(Limits()), SubmissionClock(Limits())
    with own.limit(0.5), own.aside():
        before = own.spent()
        with pytest.raises(OutOfTestTime), other.limit(0.3):
            burn(60.0)
        assert own.spent() == before
        with other.limit(5.0):
            burn(0.5)  # twice what the clock aside had left
        assert own.spent() == before
    assert own.spent() < 0.3
    with own.limit(0.2):
        with own.aside(), other.limit(5.0):
            burn(0.4)
        with pytest.raises(OutOfTestTime):  # the outer limit still rings
            burn(60.0)


def test_threat_90_what_others_hold_is_not_counted():
    clock = SubmissionClock(replace(Limits(), oracle_bytes=1 << 20))
    with pytest.raises(MemoryError), clock.limit(5.0):
        burn(1.0)
    clock.restart(resident_bytes() + (100 << 20))
    with clock.limit(5.0):
        burn(0.6)


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
