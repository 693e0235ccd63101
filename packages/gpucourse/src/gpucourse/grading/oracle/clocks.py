"""Clocks that charge a submission for its own time and not for the machine's other load.

When a machine grades many submissions at once, a correct answer sometimes waits long for a
processor. A submission is therefore charged with

- the processor time of its oracle, and
- the time in which the oracle waits for the student's worker. If the worker itself waited for a
  processor, its processor time is charged instead (:func:`charged`).

An endless loop is therefore charged for every second that it runs, and a sleeping worker for every
second that it sleeps. The waiting time of a worker is the longest waiting time of any of its
threads and not their sum, because among fifty mostly idle threads one is always waiting.

Two limits use the wall clock, whatever the system reports about threads: one for each request,
:attr:`Limits.request_wall_seconds`, and one for the submission, :attr:`Limits.wall_seconds`. Time
beyond them is charged to the submission, because an answer can create threads that only appear to
be kept from running. The machine is at fault only if the system reports that processes stalled for
lack of processors, disks or memory (pressure stalls, :func:`stalled`). The submission is then
graded once more, and charged for all its time (``last_attempt``).

If the system does not report these times (no Linux, no /proc), every second of waiting is charged.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime
from gpucourse.grading.limits import Limits

# Interval between measurements of a worker; one takes 2 ms with 40 threads.
TICK = 0.25
# States of a thread (proc(5)). A runnable thread runs or waits for a processor. A stopped one was
# stopped from outside, because a worker, as process 1 of its own process table, cannot stop itself.
RUNNABLE, STOPPED = "R", frozenset("Tt")
# Waiting for a disk, the only such state in which waiting is not charged.
DISK = "D"
# A machine counts as delayed if its processes stalled for at least this share of the time.
HELD_UP_SHARE = 0.5
PRESSURE = "/proc/pressure"


@dataclass(frozen=True, slots=True)
class Thread:
    """The system's data on a thread.

    Attributes
    ----------
    state : str
    waited : float
        Seconds that it has waited for a processor. The kernel adds a wait when it ends, so a wait
        in progress is missing (Documentation/scheduler/sched-stats.rst).
    slept : int
        Number of times that it gave up its processor voluntarily.
    """

    state: str
    waited: float
    slept: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The system's data on a process at one moment.

    Attributes
    ----------
    processor : float
        Seconds that all its threads have run, including those that have ended.
    threads : dict of int to Thread
    disk : float or None
        Seconds that the machine's processes stalled for disks and memory; None if unknown.
    """

    processor: float
    threads: dict[int, Thread] = field(default_factory=dict)
    disk: float | None = None


def usage(pid: int) -> Usage | None:
    """Return the usage of a process; None if it has ended or the system does not report it."""
    threads = {}
    try:
        for number in os.listdir(f"/proc/{pid}/task"):
            # A thread may end between these reads.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                folder = f"/proc/{pid}/task/{number}"
                state = _fields(f"{folder}/stat")[0]
                with open(f"{folder}/schedstat") as file:
                    waited = int(file.read().split()[1]) / 1e9
                with open(f"{folder}/status") as file:
                    slept = int(file.read().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
                threads[int(number)] = Thread(state, waited, slept)
        fields = _fields(f"/proc/{pid}/stat")
    except (OSError, IndexError, ValueError):
        return None
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, the 14th and 15th of proc(5)
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), threads, stalled("io", "memory"))


def stalled(*resources: str) -> float | None:
    """Return the seconds since boot in which some process waited for these resources.

    See Documentation/accounting/psi.rst; None if the system does not report them.
    """
    seconds = 0.0
    for resource in resources:
        try:
            with open(f"{PRESSURE}/{resource}") as file:
                seconds += int(file.readline().rpartition("total=")[2]) / 1e6
        except (OSError, ValueError):
            return None
    return seconds


def resident_bytes(process: int | str = "self") -> int:
    """Return the memory that a process uses now, by default this one; 0 if unknown."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _fields(path: str) -> list[str]:
    """Return the fields after the name in a ``stat`` file.

    The name itself may contain blanks and parentheses.
    """
    with open(path) as file:
        return file.read().rpartition(")")[2].split()


def charged(passed: float, before: Usage | None, after: Usage | None) -> float:
    """Return the part of `passed` seconds to charge to a process with this usage."""
    if before is None or after is None:
        return passed
    ran = min(passed, after.processor - before.processor)
    waited = max(
        (
            _waited(passed, before.threads.get(number), thread, before, after)
            for number, thread in after.threads.items()
        ),
        default=0.0,
    )
    return max(ran, passed - waited)


def _waited(passed: float, then: Thread | None, now: Thread, before: Usage, after: Usage) -> float:
    """Return the time for which one thread was kept from running."""
    if now.state in STOPPED:
        return passed
    if now.state == DISK:
        # A thread can be kept in this state indefinitely without a disk.
        if before.disk is None or after.disk is None:
            return passed
        return min(passed, after.disk - before.disk)
    if then is None:
        return now.waited
    if now.state == then.state == RUNNABLE and now.slept == then.slept:
        return passed  # it ran or waited all the time, and a wait in progress is not reported
    return now.waited - then.waited


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall-clock moment, with the time that the machine had stalled until then."""

    at: float
    stalled: float | None

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), stalled("cpu", "io", "memory"))

    def passed(self) -> float:
        """Return the seconds since this moment."""
        return time.monotonic() - self.at

    def held_up(self) -> bool:
        """Return True if processes were stalled for much of the time since this moment.

        Also True if the system does not report stalls.
        """
        now = Moment.now()
        if now.stalled is None or self.stalled is None:
            return True
        return now.stalled - self.stalled >= HELD_UP_SHARE * (now.at - self.at)


class SubmissionClock:
    """Clock of the seconds that are charged to one submission.

    Parameters
    ----------
    last_attempt
        True if time beyond the wall-clock limits is charged in any case, because the submission
        was graded before on a delayed machine.

    Attributes
    ----------
    waiting : float
        The part spent waiting for the student's workers.
    """

    def __init__(self, limits: Limits, *, last_attempt: bool = False) -> None:
        self.limits = limits
        self.last_attempt = last_attempt
        self._aside: float | None = None
        self.restart()

    def restart(self, held: int = 0) -> None:
        """Restart from zero.

        `held` is the number of bytes of this process that do not count as the submission's memory.
        """
        self._held = held
        self.waiting = 0.0
        self._processor = time.process_time()
        self._began = Moment.now()

    def spent(self) -> float:
        """Return the seconds charged so far."""
        now = time.process_time() if self._aside is None else self._aside
        return now - self._processor + self.waiting

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Exclude this process's work inside the context from this clock."""
        self._aside = began = time.process_time()
        try:
            yield
        finally:
            self._processor += time.process_time() - began
            self._aside = None

    @property
    def left(self) -> float:
        """Seconds until the submission as a whole has taken too long."""
        return self.limits.total_seconds - self.spent()

    def overrun(self, since: Moment, seconds: float) -> None:
        """Handle an exceeded wall-clock limit.

        Raises InfrastructureFault if the machine was delayed since then and the submission can be
        graded once more.
        """
        if not self.last_attempt and since.held_up():
            raise InfrastructureFault(
                f"the submission did not finish in {seconds:g} s, of which it used "
                f"{self.spent():.0f} s. The machine is too busy: grade with fewer workers, or "
                "try again later"
            )

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raise OutOfTestTime in the main thread once `seconds` more have been charged.

        Raises MemoryError if this process uses more than ``limits.oracle_bytes``. After
        ``limits.wall_seconds``, all the submission's time counts as used (:meth:`overrun`). Python
        discards exceptions raised in ``__del__`` or in a callback of the garbage collector, so the
        timer fires again every ``TICK`` until its exception takes effect. A discarded
        OutOfTestTime is not printed.
        """
        end = self.spent() + seconds

        def ring(*_: object) -> None:
            if self.spent() >= end:
                raise OutOfTestTime
            if resident_bytes() > self.limits.oracle_bytes + self._held:
                raise MemoryError
            if self._began.passed() >= self.limits.wall_seconds:
                self.overrun(self._began, self.limits.wall_seconds)
                self.waiting += max(0.0, self.left)
                raise OutOfTestTime

        def lost(unraisable: sys.UnraisableHookArgs) -> None:
            if unraisable.exc_type is not OutOfTestTime:
                hook(unraisable)

        hook, sys.unraisablehook = sys.unraisablehook, lost
        before = signal.signal(signal.SIGALRM, ring)
        # The limit of one clock may be nested inside the limit of another.
        _, every = signal.setitimer(signal.ITIMER_REAL, max(min(seconds, TICK), 0.01), TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, every, every)
            sys.unraisablehook = hook


class WorkerClock:
    """Clock of the time that an oracle waits for one worker, which it charges to the submission.

    It measures the worker only once per ``TICK`` of this time, across requests, because a test
    makes hundreds of requests.

    Attributes
    ----------
    waited : float
        Wall-clock seconds that the oracle has waited for the worker.
    """

    def __init__(self, submission: SubmissionClock, pid: int | None) -> None:
        self.submission = submission
        self.pid = pid
        self.waited = 0.0
        self._usage = self._look()
        self._passed = 0.0
        self._since: float | None = None

    @contextlib.contextmanager
    def request(self) -> Iterator[Request]:
        """Charge the time of one request, inside the context."""
        self.run()
        try:
            yield Request(self, self.submission.waiting, self.waited, Moment.now())
        finally:
            self.stop()

    def run(self) -> None:
        """Start counting: the oracle waits for the worker."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """Stop counting: the worker waits for the oracle."""
        if self._since is not None:
            passed = time.monotonic() - self._since
            self._passed += passed
            self.waited += passed
            self._since = None

    def charge(self) -> None:
        """Charge the time since the last charge, once it amounts to one ``TICK``."""
        self.stop()
        self.run()
        if self._passed >= TICK:
            now = self._look()
            self.submission.waiting += charged(self._passed, self._usage, now)
            self._passed, self._usage = 0.0, now

    def _look(self) -> Usage | None:
        return None if self.pid is None else usage(self.pid)


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a worker.

    Attributes
    ----------
    charged, waited : float
        The clocks' readings at the start of the request: seconds charged to the submission for
        waiting, and seconds that the oracle had waited for this worker.
    began : Moment
    """

    clock: WorkerClock
    charged: float
    waited: float
    began: Moment

    def left(self) -> float:
        """Return the seconds that the worker has left. Raises InfrastructureFault."""
        self.clock.charge()
        submission = self.clock.submission
        limits = submission.limits
        taken = submission.waiting - self.charged
        waited = self.clock.waited - self.waited
        if waited >= limits.request_wall_seconds:
            submission.overrun(self.began, limits.request_wall_seconds)
            submission.waiting += max(0.0, waited - taken)
            return 0.0
        return min(
            limits.request_seconds - taken, limits.request_wall_seconds - waited, submission.left
        )
