"""What a submission's time is: the seconds that it used, not those that the machine was busy.

On a machine that grades many at once a right answer waits for a processor, now and then for long.
A submission is therefore charged with

- the processor time of its oracle, and
- the time in which the oracle waits for the student's worker, except while the worker itself
  waited for a processor: then with the processor time that it got (:func:`charged`).

So a loop that never ends is charged with every second that it runs, and a worker that sleeps with
every second that it sleeps. Only :attr:`Limits.wall_seconds` is a bound by the clock on the wall;
passing it says that the machine is too slow or too busy, which is no fault of the answer.

Where the system does not tell (no Linux, no /proc) every second of waiting is charged.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime
from gpucourse.grading.limits import Limits

# How often a worker is looked at: 1 ms for one with 40 threads.
TICK = 0.25
# States of a thread (proc(5)) in which it is not its own doing that it makes no progress: runnable,
# waiting for a disk, stopped from outside.
HELD_UP = frozenset("RDTt")


@dataclass(frozen=True, slots=True)
class Usage:
    """What the system says of a process at one moment.

    Attributes
    ----------
    processor : float
        Seconds that all its threads, also those that ended, have run.
    waited : float
        Seconds that its present threads have waited for a processor, as far as they got one since
        (the kernel counts a wait when it ends; Documentation/scheduler/sched-stats.rst).
    held_up : bool
        Whether a thread is running or kept from running now.
    """

    processor: float
    waited: float
    held_up: bool


def usage(pid: int) -> Usage | None:
    """The usage of a process; None where the system does not tell, or the process has ended."""
    waited, held_up = 0.0, False
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            # A thread may end between the two lines.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                state = _fields(f"/proc/{pid}/task/{thread}/stat")[0]
                with open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                    waited += int(file.read().split()[1]) / 1e9
                held_up |= state in HELD_UP
        fields = _fields(f"/proc/{pid}/stat")
    except (OSError, IndexError, ValueError):
        return None
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, the 14th and 15th of proc(5)
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), waited, held_up)


def resident_bytes(pid: int | str = "self") -> int:
    """Memory that a process, this one, holds now; 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _fields(path: str) -> list[str]:
    """What stands in a file ``stat`` behind the name, which may hold blanks and parentheses."""
    with open(path) as file:
        return file.read().rpartition(")")[2].split()


def charged(passed: float, before: Usage | None, after: Usage | None) -> float:
    """Of `passed` seconds, those that a process with this usage before and after answers for."""
    if before is None or after is None:
        return passed
    ran = min(passed, after.processor - before.processor)
    waited = passed if after.held_up else max(0.0, after.waited - before.waited)
    return max(ran, passed - waited)


class SubmissionClock:
    """The seconds that one submission has been charged with.

    Attributes
    ----------
    waiting : float
        The part that was spent waiting for the student's workers.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._aside: float | None = None
        self.restart()

    def restart(self, held: int = 0) -> None:
        """Charge anew from nothing; `held` bytes of this process are another's."""
        self._held = held
        self.waiting = 0.0
        self._processor = time.process_time()
        self._wall_end = time.monotonic() + self.limits.wall_seconds

    def spent(self) -> float:
        """Charged seconds so far."""
        now = time.process_time() if self._aside is None else self._aside
        return now - self._processor + self.waiting

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What this process does meanwhile is charged to another clock."""
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

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raise OutOfTestTime in the main thread once `seconds` more have been charged.

        MemoryError once this process holds more than ``limits.oracle_bytes``, and
        InfrastructureFault once the submission has had ``limits.wall_seconds``. Python loses what
        is raised inside an object's ``__del__`` or a callback of the collector: the clock rings
        again every ``TICK`` until it is heard, and of a lost OutOfTestTime nothing is printed.
        """
        end = self.spent() + seconds

        def ring(*_: object) -> None:
            if self.spent() >= end:
                raise OutOfTestTime
            if resident_bytes() > self.limits.oracle_bytes + self._held:
                raise MemoryError
            if time.monotonic() >= self._wall_end:
                raise InfrastructureFault(
                    f"{self.limits.wall_seconds:g} s were not enough on this machine, of which the "
                    f"submission used {self.spent():.0f} s: the machine is too busy; grade with "
                    "fewer workers, or once more later")

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
    """

    def __init__(self, submission: SubmissionClock, pid: int | None) -> None:
        self.submission = submission
        self.pid = pid
        self._usage = self._look()
        self._passed = 0.0
        self._since: float | None = None

    @contextlib.contextmanager
    def request(self) -> Iterator[Request]:
        """While the worker serves one request."""
        self.run()
        try:
            yield Request(self, self.submission.waiting)
        finally:
            self.stop()

    def run(self) -> None:
        """The oracle waits for the worker from now on."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """The worker waits for the oracle from now on."""
        if self._since is not None:
            self._passed += time.monotonic() - self._since
            self._since = None

    def charge(self) -> None:
        """Charge what has passed since the last time, if it is worth a look."""
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
    """One request to a worker."""

    clock: WorkerClock
    began: float

    def left(self) -> float:
        """Seconds that the worker still has for it."""
        self.clock.charge()
        submission = self.clock.submission
        taken = submission.waiting - self.began
        return min(submission.limits.request_seconds - taken, submission.left)
