"""Parallel grading of many submissions, with one oracle process for each submission.

The oracle of a submission is forked from a server that has the virtual GPU loaded. The oracle ends
after its verdict, so no state of one submission reaches the next. Every submission gets a verdict.
An oracle that dies or hangs is an infrastructure fault: the submission is graded once more, and it
never gets a zero for that reason.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

from gpucourse.grading.contract import InfrastructureFault
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.clocks import resident_bytes
from gpucourse.grading.oracle.fork_server import heavy_imports, warm_up
from gpucourse.grading.sandbox.levels import FLOOR, ForkServer, Sandbox, at_least
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import Ingested
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, Verdict, clamp
from virtualgpu import processors

# This limit is above the oracle's own total limit, which the oracle enforces itself.
GRACE_SECONDS = 60.0
ATTEMPTS = 2
# Interval between checks of the oracles' memory; each oracle also checks its own.
LOOK_SECONDS = 1.0
# Limit on the bytes of a verdict; the course's verdicts have about 10 kB.
LONGEST_VERDICT = 1 << 24


def new_seed() -> str:
    """Return a secret seed for a grading run: 128 random bits as hexadecimal text."""
    return secrets.token_hex(16)


def grade_in_child(
    connection: Connection,
    job: Job,
    assignment: Assignment,
    server: ForkServer,
    seed: str,
    last_attempt: bool = False,
) -> None:
    """Grade one job in an oracle process and send the verdict back as JSON."""
    from gpucourse.grading.oracle.grader import grade
    from virtualgpu.api import keep_no_code_on_disk

    os.setpgid(0, 0)
    keep_no_code_on_disk()  # no machine code from a folder that others can write to
    # Garbage collection among the server's objects would copy their pages, which takes 150 ms.
    gc.freeze()
    server, oracle = confined(connection, server)
    verdict = grade(
        assignment, job.ingested, server, seed, detailed=job.detailed, last_attempt=last_attempt
    )
    verdict.oracle, verdict.student = oracle, job.student
    # The pipe is broken because the grader was killed; another run will grade this submission.
    with contextlib.suppress(BrokenPipeError):
        connection.send_bytes(verdict.to_json().encode())
    connection.close()


def confined(connection: Connection, server: ForkServer) -> tuple[ForkServer, str]:
    """Drop this process's rights for good; return a fork server and the protections in place."""
    from gpucourse.grading.oracle import checked_device
    from gpucourse.grading.oracle.confined import confine

    server = server.connected()
    assert server.channel is not None
    keep = {connection.fileno(), server.channel.fileno()}
    if server.limits.gpu:
        # This starts a process, which an oracle may not do later. Grading reports the reason for a
        # failure.
        with contextlib.suppress(InfrastructureFault):
            checked_device.name()
        keep |= checked_device.gpu_process().descriptors
    record = os.environ.get(checked_device.RECORD)
    return server, confine(server.limits, server.hidden, tuple(keep), (record,) if record else ())


def default_workers() -> int:
    """Return the number of submissions to grade at a time, one per available core.

    A container's CPU quota is taken into account.
    """
    return max(1, int(processors.usable()))


@dataclass(frozen=True)
class Job:
    """One notebook to grade.

    A job holds the path of the source, not the source, so that it stays small.

    `seed` is the seed of an earlier run, to repeat that run; by default the current run's seed is
    used. `detailed` adds hidden values to the reasons of failed tests, for the instructor.
    """

    student: str
    source: Path
    ingested: Ingested
    seed: str = ""
    detailed: bool = False

    @property
    def assignment(self) -> Assignment:
        return Assignment.load(self.source)

    @property
    def digest(self) -> str:
        """Digest that is equal for work that must get the same verdict under the same seed."""
        return self.ingested.digest(self.assignment)


def identical(jobs: list[Job]) -> list[list[int]]:
    """Return the indices of all jobs, grouped by identical work."""
    groups: dict[tuple, list[int]] = {}
    for number, job in enumerate(jobs):
        key = job.source, job.digest, job.seed, job.detailed
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def copied(verdict: Verdict, original: Job, job: Job) -> Verdict:
    """Copy the verdict for identical work, with the notices about this job's own file."""
    if job is original:
        return verdict
    own = [
        *job.ingested.notices,
        *(notice for notice in verdict.notices if notice not in original.ingested.notices),
    ]
    return replace(verdict, student=job.student, notices=own, of_the_file=len(job.ingested.notices))


def fault(job: Job, reason: str, seed: str, isolation: str = "") -> Verdict:
    """Return the infrastructure fault for a failure of the grader or of a layer below it."""
    return Verdict(
        INFRASTRUCTURE_FAULT,
        job.assignment.name,
        job.student,
        reason,
        seed=job.seed or seed,
        submission_digest=job.digest,
        assignment_digest=job.assignment.digest,
        isolation=isolation,
    )


def vouched(verdict: Verdict, job: Job, seed: str, isolation: str) -> Verdict:
    """Copy a verdict, with student, seed and possible points from our own records.

    An oracle must not decide whose work it graded or how many points were possible. Raises
    ValueError for a verdict on other work.
    """
    assignment = job.assignment
    tests = [(cell.grade_id, cell.points) for cell in assignment.tests]
    if verdict.kind != INFRASTRUCTURE_FAULT and tests != [
        (outcome.test, outcome.points) for outcome in verdict.tests
    ]:
        raise ValueError("a verdict on other tests")
    outcomes = (
        []
        if verdict.kind == INFRASTRUCTURE_FAULT
        else [
            replace(outcome, earned=clamp(outcome.earned, points))
            for outcome, (_, points) in zip(verdict.tests, tests, strict=True)
        ]
    )
    return replace(
        verdict,
        notebook=assignment.name,
        student=job.student,
        tests=outcomes,
        seed=job.seed or seed,
        submission_digest=job.digest,
        assignment_digest=assignment.digest,
        isolation=isolation,
    )


@dataclass
class _Running:
    job: Job
    process: multiprocessing.process.BaseProcess
    connection: Connection
    deadline: float
    attempt: int
    sandbox: Sandbox | None


class FloorError(RuntimeError):
    """Error on a machine whose isolation is too weak for other people's code."""


class Grader:
    """Parallel grader for one machine, used as a context manager.

    Parameters
    ----------
    hidden
        Folders that student code must not see, such as the course directory and the exchange.
    own_work
        True if the code is the user's own; then every isolation level is accepted.
    unsafe
        True to grade even below the lowest accepted isolation level.
    sources
        The instructor's notebooks, if known. Their imports are done once, before the forks.
    """

    def __init__(
        self,
        *,
        hidden: Iterable[Path] = (),
        limits: Limits | None = None,
        workers: int = 0,
        own_work: bool = False,
        unsafe: bool = False,
        level: str | None = None,
        sources: Iterable[Path] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.imports = heavy_imports(sources)
        self.workers = workers or default_workers()
        self.seed = new_seed()
        hidden = list(hidden)
        self._make_sandbox: Callable[[], Sandbox] = lambda: Sandbox(
            hidden, self.limits, level, self.imports
        )
        self._sandbox = self._make_sandbox()
        self._no_floor = own_work or unsafe
        self._context = multiprocessing.get_context("forkserver")

    def __enter__(self) -> Grader:
        # The two fork servers import their libraries at the same time.
        warm_up(self.imports)
        self._sandbox.__enter__()
        if not self._no_floor and not at_least(self.level):
            self._sandbox.close()
            raise FloorError(
                f"This machine isolates code only at level '{self.level}'; other people's work "
                f"needs '{FLOOR}' or better. Install bubblewrap (Debian and Ubuntu: apt install "
                "bubblewrap) or allow user namespaces. To grade anyway, although the submissions "
                "can then read your files, set GradeWithOracle.unsafe or pass --unsafe."
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.close()

    @property
    def level(self) -> str:
        """Isolation level that was reached."""
        return self._sandbox.level

    def grade(
        self,
        jobs: Iterable[Job],
        on_verdict: Callable[[Job, Verdict], None] = lambda job, verdict: None,
    ) -> list[Verdict]:
        """Grade `jobs` and return their verdicts in order; call `on_verdict` for each one.

        Identical work is run only once, and its verdict is copied.
        """
        jobs = list(jobs)
        copies = {numbers[0]: numbers for numbers in identical(jobs)}
        verdicts: dict[int, Verdict] = {}
        for first, verdict in self._run([(number, jobs[number]) for number in copies]):
            for number in copies[first]:
                verdicts[number] = copied(verdict, jobs[first], jobs[number])
                on_verdict(jobs[number], verdicts[number])
        return [verdicts[number] for number in range(len(jobs))]

    def _run(self, waiting: list[tuple[int, Job]]) -> Iterator[tuple[int, Verdict]]:
        """Run up to `workers` oracles at a time; yield each job's index and verdict.

        The next oracles are started before a verdict is yielded, so that they run while the caller
        writes it (50 ms).
        """
        queue = [(index, job, 1) for index, job in waiting]
        running: dict[int, _Running] = {}
        finished: list[tuple[int, Verdict]] = []
        try:
            while queue or running:
                while queue and len(running) < self.workers:
                    index, job, attempt = queue.pop(0)
                    running[index] = self._start(job, attempt)
                yield from finished
                finished = []
                nearest = min(entry.deadline for entry in running.values())
                wait(
                    [entry.connection for entry in running.values()],
                    timeout=min(LOOK_SECONDS, max(0.0, nearest - time.monotonic())),
                )
                for index, entry in list(running.items()):
                    verdict = self._collect(entry)
                    if verdict is None:
                        continue
                    del running[index]
                    if verdict.kind == INFRASTRUCTURE_FAULT and entry.attempt < ATTEMPTS:
                        queue.append((index, entry.job, entry.attempt + 1))
                    else:
                        finished.append((index, verdict))
            yield from finished
        finally:
            for entry in running.values():
                self._stop(entry)

    def _start(self, job: Job, attempt: int) -> _Running:
        ours, theirs = self._context.Pipe(duplex=False)
        sandbox = None
        server = self._sandbox.server
        if not self._sandbox.shared:
            # Workers of one fork server could see each other, so each submission gets its own
            # server.
            sandbox = self._make_sandbox()
            server = sandbox.__enter__().server
        process = self._context.Process(
            target=grade_in_child,
            daemon=True,
            args=(theirs, job, job.assignment, server, job.seed or self.seed, attempt == ATTEMPTS),
        )
        process.start()
        theirs.close()
        deadline = time.monotonic() + self.limits.wall_seconds + GRACE_SECONDS
        return _Running(job, process, ours, deadline, attempt, sandbox)

    def _collect(self, entry: _Running) -> Verdict | None:
        """Return the verdict of an oracle that has ended or timed out; None while it runs."""
        if entry.connection.poll(0):
            try:
                text = entry.connection.recv_bytes(LONGEST_VERDICT).decode()
                verdict = vouched(Verdict.from_json(text), entry.job, self.seed, self.level)
            except (EOFError, OSError, ValueError):
                entry.process.join(5)
                verdict = self._fault(entry, f"the oracle ended with {entry.process.exitcode}")
        elif resident_bytes(entry.process.pid or 0) > 2 * self.limits.oracle_bytes:
            verdict = self._fault(entry, "the oracle used more memory than allowed and was stopped")
        elif time.monotonic() >= entry.deadline:
            verdict = self._fault(entry, "the oracle did not finish in time and was stopped")
        else:
            return None
        self._stop(entry)
        return verdict

    def _fault(self, entry: _Running, reason: str) -> Verdict:
        return fault(entry.job, reason, self.seed, self.level)

    def _stop(self, entry: _Running) -> None:
        with contextlib.suppress(OSError):
            entry.connection.close()
        if entry.process.is_alive():
            entry.process.join(2)
        if entry.process.is_alive():
            entry.process.kill()
            entry.process.join()
        entry.process.close()
        if entry.sandbox is not None:
            entry.sandbox.close()
