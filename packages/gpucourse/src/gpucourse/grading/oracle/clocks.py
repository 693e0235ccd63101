"""Time of a submission: the seconds that it used, not those the machine was busy.

On a machine that grades many at once a right answer waits for a processor, now and then for long.
A submission is therefore charged with

- the processor time of its oracle, and
- the time in which the oracle waits for the student's worker, except while the worker itself
  waited for a processor: then with the processor time that it got (:func:`charged`).

So a loop that never ends is charged with every second that it runs, and a worker that sleeps with
every second that it sleeps. A worker is taken to have waited as long as that of its threads which
waited longest, not as long as all of them together: of fifty that doze one is always waiting.

Two bounds are by the clock on the wall, whatever the system says of threads: one for each request,
:attr:`Limits.request_wall_seconds`, and one for the submission, :attr:`Limits.wall_seconds`.
Time beyond them is charged to the submission, because an answer can make threads that seem to be
kept from running. Only if the system says that processes stood still for want of processors, disks
or memory (pressure stalls, :func:`stalled`) is the machine at fault: then the submission is graded
once more, and charged whatever it takes (``last_attempt``).

Where the system does not tell (no Linux, no /proc) every second of waiting is charged.
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

# Interval between looks at a worker; a look takes 2 ms with 40 threads.
TICK = 0.25
# States of a thread (proc(5)). Runnable: waiting for a processor, or on one. Stopped from outside:
# no worker can do it to itself, as process 1 of its own table.
RUNNABLE, STOPPED = "R", frozenset("Tt")
# Waiting for a disk, and the only state in which such a wait counts.
DISK = "D"
# A machine is held up that had processes standing still for so much of the time.
HELD_UP_SHARE = 0.5
PRESSURE = "/proc/pressure"


@dataclass(frozen=True, slots=True)
class Thread:
    """Facts from the system about a thread.

    Attributes
    ----------
    state : str
    waited : float
        Seconds that it has waited for a processor, as far as it got one since (the kernel counts a
        wait when it ends; Documentation/scheduler/sched-stats.rst).
    slept : int
        How often it gave up its processor by itself.
    """

    state: str
    waited: float
    slept: int


@dataclass(frozen=True, slots=True)
class Usage:
    """Facts from the system about a process at one moment.

    Attributes
    ----------
    processor : float
        Seconds that all its threads, also those that ended, have run.
    threads : dict of int to Thread
    disk : float or None
        Seconds that the machine stood still for disks and memory; None where it does not say.
    """

    processor: float
    threads: dict[int, Thread] = field(default_factory=dict)
    disk: float | None = None


def usage(pid: int) -> Usage | None:
    """Return the usage of a process; None if the system does not tell, or it has ended."""
    threads = {}
    try:
        for number in os.listdir(f"/proc/{pid}/task"):
            # A thread may end between the lines.
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

    See Documentation/accounting/psi.rst; None where the system does not tell.
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
    """Return the memory that a process holds now, by default this one; 0 if unknown."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _fields(path: str) -> list[str]:
    """Return the fields of a ``stat`` file behind the name.

    The name may hold blanks and parentheses.
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
        # A thread can be put into this state for ever without a disk.
        if before.disk is None or after.disk is None:
            return passed
        return min(passed, after.disk - before.disk)
    if then is None:
        return now.waited
    if now.state == then.state == RUNNABLE and now.slept == then.slept:
        return passed  # it ran or waited all the time; how long, a wait that lasts does not say
    return now.waited - then.waited


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment by the clock on the wall, and how long the machine had been held up until then."""

    at: float
    stalled: float | None

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), stalled("cpu", "io", "memory"))

    def passed(self) -> float:
        """Return the seconds since then."""
        return time.monotonic() - self.at

    def held_up(self) -> bool:
        """Return True if processes were stalled for much of the time since then.

        Also True where the system does not tell.
        """
        now = Moment.now()
        if now.stalled is None or self.stalled is None:
            return True
        return now.stalled - self.stalled >= HELD_UP_SHARE * (now.at - self.at)


class SubmissionClock:
    """The seconds that one submission has been charged with.

    Parameters
    ----------
    last_attempt
        Whether all that is beyond the bounds of the wall's clock is charged, because the
        submission was graded once before on a machine that was held up.

    Attributes
    ----------
    waiting : float
        The part that was spent waiting for the student's workers.
    """

    def __init__(self, limits: Limits, *, last_attempt: bool = False) -> None:
        self.limits = limits
        self.last_attempt = last_attempt
        self._aside: float | None = None
        self.restart()

    def restart(self, held: int = 0) -> None:
        """Charge again from nothing; `held` bytes of this process are another's."""
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
        """Charge this process's work inside the context to another clock."""
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
        """Handle an exceeded wall-clock bound.

        Raises InfrastructureFault if the machine was held up since then and the submission can be
        graded once more.
        """
        if not self.last_attempt and since.held_up():
            raise InfrastructureFault(
                f"{seconds:g} s were not enough on this machine, of which the submission used "
                f"{self.spent():.0f} s. The machine is too busy: grade with fewer workers, or "
                "again later"
            )

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raise OutOfTestTime in the main thread once `seconds` more have been charged.

        MemoryError once this process holds more than ``limits.oracle_bytes``. Once the submission
        has had ``limits.wall_seconds``, all its time is used up (:meth:`overrun`). Python loses
        what is raised inside an object's ``__del__`` or a callback of the collector: the clock
        rings again every ``TICK`` until it is heard, and of a lost OutOfTestTime nothing is
        printed.
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
        # One clock may be looked at inside the limit of another.
        _, every = signal.setitimer(signal.ITIMER_REAL, max(min(seconds, TICK), 0.01), TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, every, every)
            sys.unraisablehook = hook


class WorkerClock:
    """Charges a submission with the time that its oracle waits for one worker.

    It looks at the worker only every ``TICK`` of such time, over as many requests as that takes:
    a test makes hundreds.

    Attributes
    ----------
    waited : float
        Seconds, by the clock on the wall, that the oracle has waited for it.
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
        """Charge the worker for the time of one request, inside the context."""
        self.run()
        try:
            yield Request(self, self.submission.waiting, self.waited, Moment.now())
        finally:
            self.stop()

    def run(self) -> None:
        """Start: the oracle waits for the worker from now on."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """Stop: the worker waits for the oracle from now on."""
        if self._since is not None:
            passed = time.monotonic() - self._since
            self._passed += passed
            self.waited += passed
            self._since = None

    def charge(self) -> None:
        """Charge the time since the last call, if it is worth a look."""
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
        What the submission had been charged with, and its oracle had waited for the worker, before.
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
