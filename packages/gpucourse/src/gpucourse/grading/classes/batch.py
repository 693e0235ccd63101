"""Many submissions: one oracle process for each, several at a time, nothing lost.

The oracle of a submission is forked from a server that has the virtual GPU loaded; it is thrown
away afterwards, so nothing of one submission reaches the next. Whatever happens to it, the
submission gets a verdict: an oracle that dies or hangs is an infrastructure fault, tried again
once and never a zero.
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

# Above the oracle's own total, which it keeps itself.
GRACE_SECONDS = 60.0
ATTEMPTS = 2
# Interval between checks of the oracles' memory; each oracle also checks its own.
LOOK_SECONDS = 1.0
# Bytes of a verdict; one of the course's has 10 kB.
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
    """Grade in an oracle process. The verdict goes back as JSON text."""
    from gpucourse.grading.oracle.grader import grade
    from virtualgpu.api import keep_no_code_on_disk

    os.setpgid(0, 0)
    keep_no_code_on_disk()  # no machine code from a folder that other processes of the user write
    # Collecting garbage among the server's objects would copy their pages, in 150 ms.
    gc.freeze()
    server, oracle = confined(connection, server)
    verdict = grade(
        assignment, job.ingested, server, seed, detailed=job.detailed, last_attempt=last_attempt
    )
    verdict.oracle, verdict.student = oracle, job.student
    # A broken pipe: the grader was killed, and another run will do the work.
    with contextlib.suppress(BrokenPipeError):
        connection.send_bytes(verdict.to_json().encode())
    connection.close()


def confined(connection: Connection, server: ForkServer) -> tuple[ForkServer, str]:
    """Drop this process's rights for good; return a lasting fork server, and the rights left."""
    from gpucourse.grading.oracle import checked_device
    from gpucourse.grading.oracle.confined import confine

    server = server.connected()
    assert server.channel is not None
    keep = {connection.fileno(), server.channel.fileno()}
    if server.limits.gpu:
        # It starts a process, which an oracle may not later. Why it cannot, grading says.
        with contextlib.suppress(InfrastructureFault):
            checked_device.name()
        keep |= checked_device.gpu_process().descriptors
    record = os.environ.get(checked_device.RECORD)
    return server, confine(server.limits, server.hidden, tuple(keep), (record,) if record else ())


def default_workers() -> int:
    """Return the number of submissions to grade at a time: the cores this process may use.

    A container's quota counts too.
    """
    return max(1, int(processors.usable()))


@dataclass(frozen=True)
class Job:
    """One notebook to grade. The source is named by its path, so that a job stays small.

    `seed` is that of an earlier run, to repeat it; by default the run's own. `detailed` adds hidden
    values to what failed, for the instructor.
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
        """Equal for work that must get the same verdict under the same seed."""
        return self.ingested.digest(self.assignment)


def identical(jobs: list[Job]) -> list[list[int]]:
    """Return the numbers of all jobs, grouping those whose verdict must be the same."""
    groups: dict[tuple, list[int]] = {}
    for number, job in enumerate(jobs):
        key = job.source, job.digest, job.seed, job.detailed
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def copied(verdict: Verdict, original: Job, job: Job) -> Verdict:
    """Copy the verdict of identical work; remarks on the file itself stay each one's own."""
    if job is original:
        return verdict
    own = [
        *job.ingested.notices,
        *(notice for notice in verdict.notices if notice not in original.ingested.notices),
    ]
    return replace(verdict, student=job.student, notices=own, of_the_file=len(job.ingested.notices))


def fault(job: Job, reason: str, seed: str, isolation: str = "") -> Verdict:
    """Return the verdict where the grader failed, or something below it."""
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
    """Copy a verdict, taking student, seed and points to earn from our own records.

    An oracle has no say in whose work it was and what could be earned. Raises ValueError for a
    verdict on something else.
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
    """Error on a machine that cannot isolate other people's code well enough."""


class Grader:
    """Grades submissions in parallel on one machine. A context manager.

    Parameters
    ----------
    hidden
        Folders that student code must not see: the course directory, the exchange.
    own_work
        The code is the user's own: no floor on the isolation level.
    unsafe
        Grade below the floor all the same.
    sources
        The instructor's notebooks, if known: what they import is imported once, before the forks.
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
                "bubblewrap) or allow user namespaces. To grade all the same, knowing that the "
                "submissions can read your files: set GradeWithOracle.unsafe, or --unsafe."
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._sandbox.close()

    @property
    def level(self) -> str:
        """The isolation level that was reached."""
        return self._sandbox.level

    def grade(
        self,
        jobs: Iterable[Job],
        on_verdict: Callable[[Job, Verdict], None] = lambda job, verdict: None,
    ) -> list[Verdict]:
        """Grade `jobs` and return their verdicts in order; call `on_verdict` for each one.

        Identical work is run once and its verdict copied.
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
        """Keep `workers` oracles going; yield each job's number and verdict.

        The next ones are started before a verdict is yielded, so that they run while the caller
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
            # Workers of one fork server could see each other: one server per submission.
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
        """Return the verdict of an oracle that has finished, failed or run out of time.

        None while it runs.
        """
        if entry.connection.poll(0):
            try:
                text = entry.connection.recv_bytes(LONGEST_VERDICT).decode()
                verdict = vouched(Verdict.from_json(text), entry.job, self.seed, self.level)
            except (EOFError, OSError, ValueError):
                entry.process.join(5)
                verdict = self._fault(entry, f"the oracle ended with {entry.process.exitcode}")
        elif resident_bytes(entry.process.pid or 0) > 2 * self.limits.oracle_bytes:
            verdict = self._fault(entry, "the oracle held more memory than it may and was stopped")
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
