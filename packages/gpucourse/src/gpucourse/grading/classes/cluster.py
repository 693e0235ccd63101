"""Grading on a Dask cluster, with the same verdicts as on one machine.

``gpucourse grade --scheduler ADDRESS`` connects to a running cluster. It may have been started
with ``dask scheduler`` and ``dask worker``, as a LocalCluster, with dask-jobqueue under Slurm or
with dask-kubernetes. Every worker needs this package and its own sandbox; use one thread per
worker process. If workers advertise a resource ``GPU``, each submission takes one.

Only text is sent: the instructor's notebook, a job as JSON and the verdict as JSON. Dask pickles
only the name of one function and strings, so no student data is ever unpickled. The text contains
hidden tests and the run's seed, so use a cluster that only you can reach, or enable TLS in Dask.

Dask reassigns the submissions of a lost worker to another worker. A submission whose workers were
lost three times is tried once more and then reported as an infrastructure fault, never as a zero.
"""

from __future__ import annotations

import atexit
import json
import queue
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gpucourse.grading.classes.batch import ATTEMPTS, Job, copied, fault, identical, new_seed
from gpucourse.grading.classes.remote import describe, order
from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, Verdict

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 20

# Stations of this cluster worker that wait for a job.
_idle: queue.LifoQueue = queue.LifoQueue()


def grade_text(source: str, described: str) -> str:
    """Grade one job, given as text, in a worker of the cluster; return the verdict as text.

    Raises RuntimeError if the station died; Dask then tries again on another worker.
    """
    try:
        station = _idle.get_nowait()
    except queue.Empty:
        station = subprocess.Popen(
            [sys.executable, "-m", "gpucourse.grading.classes.remote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        atexit.register(station.kill)
    try:
        station.stdin.write(order(source, described) + "\n")
        station.stdin.flush()
        verdict: str = json.loads(station.stdout.readline())
    except (OSError, ValueError):
        station.kill()
        station.wait()
        raise RuntimeError("the process that grades on this worker has died") from None
    except BaseException:
        # Dask has cancelled the task half-way: the next task would read its verdict.
        station.kill()
        raise
    _idle.put(station)
    return verdict


def as_text(source: str) -> str:
    """Return a task that holds the instructor's notebook.

    Dask can create the task again if its result is lost.
    """
    return source


class ClusterGrader:
    """Grader on a Dask cluster, with the interface of :class:`.batch.Grader`.

    `tell` is called with a sentence if the work has to wait for a worker to connect. Raises
    SandboxError, with advice, if Dask is not installed or the scheduler does not answer.
    """

    def __init__(
        self,
        address: str,
        *,
        limits: Limits | None = None,
        unsafe: bool = False,
        seed: str = "",
        tell: Callable[[str], object] = print,
    ) -> None:
        self.address = address
        self.tell = tell
        self.limits = limits or Limits()
        self.unsafe = unsafe
        self.seed = seed or new_seed()
        self._client: Client | None = None

    def __enter__(self) -> ClusterGrader:
        try:
            from distributed import Client
        except ImportError:
            raise SandboxError("grading on a cluster needs Dask: pip install distributed") from None
        try:
            self._client = Client(self.address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SandboxError(
                f"no Dask scheduler answers at {self.address}: {error}. Start one with `dask "
                "scheduler`, and `dask worker ADDRESS --nthreads 1` on each machine."
            ) from None
        if not self._workers():
            # This is no error: a cluster with adaptive scaling starts workers when there is work.
            self.tell(
                f"The scheduler at {self.address} has no worker yet; grading starts when a worker "
                f"connects: dask worker {self.address} --nthreads 1"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._connected.close()

    @property
    def _connected(self) -> Client:
        assert self._client is not None
        return self._client

    def grade(
        self,
        jobs: Iterable[Job],
        on_verdict: Callable[[Job, Verdict], None] = lambda job, verdict: None,
    ) -> list[Verdict]:
        """Grade `jobs` and return their verdicts in order; call `on_verdict` for each one.

        Identical work is run only once, and its verdict is copied.
        """
        from distributed import as_completed

        jobs = list(jobs)
        texts = {
            path: self._connected.submit(as_text, path.read_text(encoding="utf-8"), pure=False)
            for path in {job.source for job in jobs}
        }
        verdicts: dict[int, Verdict] = {}
        run = secrets.token_hex(4)
        resources = self._resources()

        def submit(numbers: list[int], attempt: int) -> Future:
            job = jobs[numbers[0]]
            future = self._connected.submit(
                grade_text,
                texts[job.source],
                describe(job, self.seed, self.limits, self.unsafe),
                pure=False,
                retries=ATTEMPTS,
                resources=resources,
                key=f"gpucourse-{run}-{numbers[0]}-{attempt}",
            )
            running[future.key] = numbers, attempt
            return future

        running: dict[object, tuple[list[int], int]] = {}
        arriving = as_completed(
            [submit(numbers, 1) for numbers in identical(jobs)], loop=self._connected.loop
        )
        for future in arriving:
            numbers, attempt = running.pop(future.key)
            first = jobs[numbers[0]]
            verdict = self._verdict(future, first)
            if verdict.kind == INFRASTRUCTURE_FAULT and attempt < ATTEMPTS:
                arriving.add(submit(numbers, attempt + 1))
                continue
            for number in numbers:
                verdicts[number] = copied(verdict, first, jobs[number])
                on_verdict(jobs[number], verdicts[number])
            # Release the result: the scheduler need not keep verdicts that have arrived.
            future.release()
        return [verdicts[number] for number in range(len(jobs))]

    def _resources(self) -> dict[str, int] | None:
        return (
            {"GPU": 1} if any("GPU" in worker["resources"] for worker in self._workers()) else None
        )

    def _workers(self) -> list[dict]:
        """Return the scheduler's information on each of its workers."""
        return list(self._connected.scheduler_info(n_workers=-1)["workers"].values())

    def _verdict(self, future: Future, job: Job) -> Verdict:
        """Return the verdict, or an infrastructure fault that describes the other reply."""
        try:
            return Verdict.from_json(future.result())
        except Exception as error:
            return fault(
                job,
                f"the cluster returned no verdict: {type(error).__name__}: {error}"[:500],
                self.seed,
            )
