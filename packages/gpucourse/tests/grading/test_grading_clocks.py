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

from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime, PropertyFailed
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import clocks
from gpucourse.grading.oracle.clocks import (
    SubmissionClock,
    Thread,
    Usage,
    WorkerClock,
    charged,
    resident_bytes,
)
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.oracle.student import Student
from gpucourse.grading.sandbox.levels import Sandbox
from gpucourse.grading.verdict import GRADED
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
        with contextlib.suppress(psutil.NoSuchProcess):  # the worker that the sandbox tried
            process.cpu_affinity(before[:1])
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    for loop in loops:
        psutil.Process(loop.pid).cpu_affinity(before[:1])
    yield
    for loop in loops:
        loop.kill()
        loop.wait()
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # the same
            process.cpu_affinity(before)


def verdict(sandbox: Sandbox, answer: str, **limits: float):
    return grade(
        toy(),
        submitted(toy(), double=answer),
        sandbox.server,
        SEED,
        replace(sandbox.limits, **limits),
    )


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


@pytest.fixture
def held_up(monkeypatch):
    """Says what the system is to tell of stalls: all of the time, none of it, or nothing."""

    def say(told: str) -> None:
        answers = {"always": time.monotonic, "never": lambda: 0.0, "unknown": lambda: None}
        monkeypatch.setattr(clocks, "stalled", lambda *resources: answers[told]())

    return say


def stopped_worker(sandbox, last_attempt: bool = False, **limits: float) -> None:
    """Ask a worker that is stopped from outside."""
    limits = replace(sandbox.limits, request_seconds=0.5, **limits)
    clock = SubmissionClock(limits, last_attempt=last_attempt)
    student = Student(toy(), submitted(toy()), sandbox.server, limits, clock)
    try:
        assert list(student.call("double", (np.arange(3),))) == [0, 2, 4]
        os.kill(student._talk.worker.pid, signal.SIGSTOP)
        with clock.limit(100):
            student.call("double", (np.arange(3),))
    finally:
        student.close()


VFORK = """
import ctypes
libc = ctypes.CDLL(None)
stack = ctypes.create_string_buffer(1 << 16)
pause = ctypes.cast(libc.pause, ctypes.c_void_p)
libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
# CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM and VFORK: waits, in state D, for one that pauses.
libc.clone(pause, (ctypes.addressof(stack) + (1 << 16)) & ~15, 0x54F00, None)
"""
INDENTED = VFORK.replace("\n", "\n    ")


@pytest.mark.parametrize(
    "answer",
    [
        f"def double(values):{INDENTED}\n    return 0 * values",
        f"{VFORK}\ndef double(values):\n    return 0 * values",
    ],
)
def test_threat_88_a_worker_that_waits_for_ever_without_a_disk(sandbox, answer):
    """Not twenty minutes, twice; and those beside it in the class are graded."""
    told = verdict(sandbox, answer, request_seconds=1.0, wall_seconds=600.0)
    assert told.kind == GRADED, told.reason
    assert [test.passed for test in told.tests] == [False, True]
    assert told.seconds < 300


def test_threat_88_such_a_wait_is_charged_where_nothing_refuses_it():
    waits = subprocess.Popen([sys.executable, "-c", VFORK])
    try:
        before = None
        while before is None or before.threads.get(waits.pid, Thread("", 0, 0)).state != "D":
            before = clocks.usage(waits.pid)
        time.sleep(0.3)
        after = clocks.usage(waits.pid)
        assert after.threads[waits.pid].state == "D"
        standing = 0.0 if after.disk is None else after.disk - before.disk
        assert charged(10.0, before, after) == pytest.approx(10.0 - standing, abs=0.1)
    finally:
        waits.kill()
        waits.wait()


SPINNERS = """
def double(values):
    import os, threading, time
    for lower in (lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)),
                  lambda: os.nice(19)):
        try:
            lower()
        except PermissionError:
            pass
    def spin():
        while True:
            pass
    for _ in range(3):
        threading.Thread(target=spin, daemon=True).start()
    time.sleep(1000)
"""
DOZING = """
def double(values):
    import threading, time
    def doze():
        while True:
            time.sleep(0.05)
    for _ in range(50):
        threading.Thread(target=doze, daemon=True).start()
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    "answer",
    [pytest.param(SPINNERS, marks=pytest.mark.rehearsal), DOZING],
    ids=["idle", "dozing"],
)
def test_threat_97_threads_that_are_seldom_given_a_processor(sandbox, crowded, answer):
    """A fifth of one processor is theirs, less on a busy machine: 2 s take 10 s or more.
    They want little of it, or ask for less."""
    told = verdict(
        sandbox, answer, request_seconds=2.0, request_wall_seconds=300.0, wall_seconds=300.0
    )
    assert "took longer than 2 s" in told.tests[0].reason
    assert told.tests[0].seconds < 200


@pytest.mark.parametrize("told", ["always", "unknown"])
@pytest.mark.parametrize("bound", ["wall_seconds", "request_wall_seconds"])
def test_a_machine_that_does_not_go_on_is_no_fault_of_the_answer_once(
    sandbox, held_up, told, bound
):
    held_up(told)
    with pytest.raises(InfrastructureFault, match=r"did not finish in 2 s.* too busy"):
        stopped_worker(sandbox, **{bound: 2.0})
    with pytest.raises((PropertyFailed, OutOfTestTime)):
        stopped_worker(sandbox, last_attempt=True, **{bound: 2.0})


@pytest.mark.parametrize("bound", ["wall_seconds", "request_wall_seconds"])
def test_a_worker_that_stands_still_on_a_free_machine_is_charged(sandbox, held_up, bound):
    held_up("never")
    with pytest.raises((PropertyFailed, OutOfTestTime)):
        stopped_worker(sandbox, **{bound: 2.0})


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


def threads(*told: tuple[str, float, int]) -> dict[int, Thread]:
    return {number: Thread(*one) for number, one in enumerate(told)}


ASLEEP, BEFORE = ("S", 2.0, 7), threads(("R", 2.0, 7), *[("S", 2.0, 7)] * 50)


@pytest.mark.parametrize(
    ("ran", "now", "seconds"),
    [
        (0.0, [ASLEEP], 1.0),  # it slept
        (1.0, [("R", 2.0, 7)], 1.0),  # it ran
        (3.0, [("R", 2.0, 7)] * 3, 1.0),  # with three threads
        (0.2, [("R", 2.0, 7)], 0.2),  # it ran a little and is still waiting
        (0.2, [("R", 2.1, 8)], 0.9),  # it slept meanwhile, and waits now
        (0.2, [ASLEEP, ("R", 2.1, 7)], 0.9),  # the same: it slept before
        (0.2, [("S", 2.7, 8)], 0.3),  # it waited, and slept a little
        (0.2, [("S", 2.3, 9)] * 50, 0.7),  # fifty dozed, one or the other always waiting
        (0.2, [*[ASLEEP] * 51, ("S", 0.4, 1)], 0.6),  # a new thread waited
        (0.0, [("T", 2.0, 7)], 0.0),  # stopped from outside
        (0.0, [("D", 2.0, 7)], 1.0),  # it waits for no disk: clone() puts a thread into this state
    ],
)
def test_charged(ran, now, seconds):
    before = Usage(10.0, BEFORE, 5.0)
    after = Usage(10.0 + ran, threads(*now), 5.0)
    assert charged(1.0, before, after) == pytest.approx(seconds)


@pytest.mark.parametrize(("disk", "seconds"), [(5.0, 1.0), (5.75, 0.25), (9.0, 0.0), (None, 0.0)])
def test_a_wait_for_a_disk_is_charged_but_for_the_time_that_the_machine_stood_still(disk, seconds):
    after = Usage(10.0, threads(("D", 2.0, 7)), disk)
    assert charged(1.0, Usage(10.0, BEFORE, 5.0), after) == pytest.approx(seconds)


def test_what_the_system_says_of_threads_and_of_stalls():
    told = clocks.usage(os.getpid())
    assert told.threads[os.getpid()].state == "R"
    assert told.threads[os.getpid()].slept > 0
    if os.path.exists("/proc/pressure/cpu"):
        assert clocks.stalled("cpu", "io", "memory") >= clocks.stalled("cpu") >= 0


def test_stalls_where_the_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(clocks, "PRESSURE", str(tmp_path))
    assert clocks.stalled("cpu") is None
    (tmp_path / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n")
    assert clocks.stalled("cpu") == 1.5


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
