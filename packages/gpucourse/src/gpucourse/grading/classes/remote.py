"""Grading process for a remote grader: it reads jobs from standard input and writes verdicts.

    python -m gpucourse.grading.classes.remote

Each line of standard input is a job as JSON, each line of standard output its verdict as JSON. A
cluster worker keeps one such process for each of its threads. The process is separate because a
grader must fork and a Dask worker, which is daemonic, may not. It also cleans up: when the worker
ends, its standard input ends, and the process stops at once with everything that it has started.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path

from gpucourse.grading.classes.batch import FloorError, Grader, Job
from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.submission.ingest import Ingested
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, Verdict, digest


def describe(job: Job, seed: str, limits: Limits, unsafe: bool) -> str:
    """Return a job as one line, without the instructor's notebook (see :func:`order`)."""
    return json.dumps(
        {
            "student": job.student,
            "name": job.source.stem,
            "ingested": asdict(job.ingested),
            "seed": job.seed or seed,
            "detailed": job.detailed,
            "limits": asdict(limits),
            "unsafe": unsafe,
        }
    )


def order(source: str, described: str) -> str:
    """Return the line that a station reads, with the instructor's notebook and a job."""
    return json.dumps({"source": source, "job": described})


class Station:
    """Process that grades the submissions it receives, one at a time, in a warm sandbox."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._graders: dict[tuple, Grader] = {}

    def grade(self, line: str) -> str:
        """Return a verdict for each line, whatever the line contains."""
        given = json.loads(line)
        job = json.loads(given["job"])
        source = self._source(job["name"], given["source"])
        ingested = Ingested(**job["ingested"])
        try:
            grader = self._grader(Limits(**job["limits"]), job["unsafe"])
        except (FloorError, SandboxError) as error:
            return Verdict(
                INFRASTRUCTURE_FAULT, job["name"], job["student"], str(error), seed=job["seed"]
            ).to_json()
        (verdict,) = grader.grade(
            [Job(job["student"], source, ingested, job["seed"], job["detailed"])]
        )
        return verdict.to_json()

    def close(self) -> None:
        for grader in self._graders.values():
            grader.__exit__(None, None, None)

    def _source(self, name: str, text: str) -> Path:
        """Write the notebook to a file, which an oracle reads, and return its path."""
        path = self.folder / digest(text) / f"{name}.ipynb"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return path

    def _grader(self, limits: Limits, unsafe: bool) -> Grader:
        if (limits, unsafe) not in self._graders:
            grader = Grader(hidden=[self.folder], limits=limits, workers=1, unsafe=unsafe)
            self._graders[limits, unsafe] = grader.__enter__()
        return self._graders[limits, unsafe]


def read_orders(orders: queue.SimpleQueue) -> None:
    """Read lines of standard input into `orders`; end this process when standard input ends."""
    for line in sys.stdin:
        orders.put(line)
    # The requesting process has ended. The fork servers end when this process does, and their
    # workers with them.
    os._exit(0)


def main() -> None:
    """Grade jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # standard output carries only verdicts
    orders: queue.SimpleQueue = queue.SimpleQueue()
    threading.Thread(target=read_orders, args=(orders,), daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="gpucourse-station-") as folder:
        station = Station(Path(folder))
        while True:
            verdict = station.grade(orders.get())
            answers.write(json.dumps(verdict) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
