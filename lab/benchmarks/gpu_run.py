"""Parent process of a benchmark: it starts workers and saves each of their rows at once."""

from __future__ import annotations

import datetime
import json
import multiprocessing
import time
from collections import deque
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gpucourse.system.atomic import write_atomically
from lab.benchmarks import gpu_worker, report
from lab.benchmarks.gpu_provenance import PACKAGES, state
from lab.benchmarks.gpu_worker import Task
from lab.gpu_check.lesson_run import find_root
from lab.gpu_check.provenance import source_digest

#: Seconds without a message after which a worker counts as lost, and the seconds that it gets after
#: the deadline to finish its current work.
SILENCE, GRACE = 100.0, 25.0
#: Consecutive workers that may end before their first group; a further one would do so too.
HOPELESS = 2
#: The parts of the checkout that are timed.
SOURCE = (
    "packages/virtualgpu/src",
    "packages/gpustandins/src",
    "packages/gpucourse/src",
    "packages/jaxpile/src",
    "course",
    "lab/benchmarks",
)
#: The row with the reason.
STARTS = "machine/start/0"


@dataclass
class Run:
    """State of the parent: remaining work, the worker, and why the last one could not begin."""

    left: deque[Task]
    document: dict
    path: Path | None
    console: Console
    progress: Progress
    bar: TaskID
    task: Task | None = None
    contender: str | None = None
    refused: str = ""
    rows: dict[str, dict] = field(default_factory=dict)

    def keep(self, row: dict) -> None:
        """Save a row at once, in place of an earlier one of the same name."""
        self.rows[row["id"]] = row
        self.document["rows"] = list(self.rows.values())
        save(self.document, self.path)
        said = (
            "error: " + row["error"]
            if "error" in row
            else "untried"
            if "untried" in row
            else "right"
            if self.path is None
            else shortly(row)
        )
        self.console.print(f"{row['id']}: {escape(said)}")

    def hear(self, message: tuple) -> None:
        """Handle one message of :func:`lab.benchmarks.gpu_worker.main`."""
        kind, *rest = message
        if kind == "machine":
            self.document["gpu"] = rest[0]
        elif kind == "begin":
            (self.task,), self.contender = rest, None
            self.progress.update(self.bar, description=f"{self.task.group}, {self.task.size:,}")
        elif kind == "making":
            (self.contender,) = rest
        elif kind == "row":
            self.keep(rest[0])
        elif kind == "done":
            self.left.popleft()
            self.task = self.contender = None
            self.progress.advance(self.bar)

    def lost(self, why: str) -> None:
        """Record what a lost worker was doing, so that the next one leaves it out."""
        if self.task is None:
            return
        group, size = self.task.group, self.task.size
        id = f"{group}/{self.contender or 'timing'}/{size}"
        if "error" not in self.rows.get(id, {}):
            self.keep(
                {
                    "id": id,
                    "group": group,
                    "title": "",
                    "size": size,
                    "contender": self.contender or "",
                    "error": why,
                }
            )
        if self.contender:
            self.left[0] = replace(self.task, without=self.task.without | {self.contender})
        else:
            self.left.popleft()
            self.progress.advance(self.bar)
        self.task = self.contender = None


def source() -> str:
    """Return a digest of the source code that a run times."""
    return source_digest(find_root(), SOURCE)


def earlier(path: Path, name: str, driver: str | None) -> dict | None:
    """Return an earlier run of the same source on the same GPU, or None."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    gpu = found.get("gpu") or {}
    same = (gpu.get("name"), gpu.get("driver"), found.get("source")) == (name, driver, source())
    return found if same else None


def run(
    todo: list[Task],
    trial: bool,
    minutes: float,
    path: Path | None,
    console: Console,
    work=gpu_worker.main,
    before: dict | None = None,
) -> dict:
    """Run all tasks with as many workers as necessary; return the document.

    Each row is saved to ``path`` at once. Rows of an earlier run (``before``) are kept.
    """
    begun = time.time()
    deadline = begun + 60 * minutes
    document: dict = {
        "about": "Times of the course's kernels and of libraries on a GPU, in milliseconds; "
        "written by lab/benchmarks/gpu_bench.py, read by gpucourse.views.results; the "
        "clocks are explained in lab/benchmarks/gpu_measuring.py",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "gpu": None,
        "machine": {k: v for k, v in report.machine().items() if k != "gpu"},
        "versions": report.versions(PACKAGES),
        "source": source(),
        "minutes": None,
        "left_out": [],
        "rows": [],
    }
    if before is not None:
        todo = [task for task in todo if f"{task.group}/{task.size}" in before["left_out"]]
        document["rows"] = [row for row in before["rows"] if row["id"] != STARTS]
        document["gpu"] = before["gpu"]
    gpu_worker.prepare_environment(trial)  # a worker inherits these before it imports anything
    columns = (
        BarColumn(20),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=len(todo))
        here = Run(
            deque(todo),
            document,
            path,
            console,
            progress,
            bar,
            rows={row["id"]: row for row in document["rows"]},
        )
        in_vain = 0
        while here.left and time.time() < deadline and in_vain < HOPELESS:
            stood = len(here.left), here.left[0]
            converse(here, trial, deadline, work)
            changed = not here.left or (len(here.left), here.left[0]) != stood
            in_vain = 0 if changed else in_vain + 1
        if in_vain == HOPELESS:
            here.keep(
                {
                    "id": STARTS,
                    "group": "machine",
                    "title": "",
                    "size": 0,
                    "contender": "start",
                    "error": here.refused,
                }
            )
    document["left_out"] = [f"{task.group}/{task.size}" for task in here.left]
    spent = (before or {}).get("minutes") or 0
    document["minutes"] = round(spent + (time.time() - begun) / 60, 2)
    if document["gpu"]:
        document["gpu"]["state_after"] = state()
    save(document, path)
    return document


def converse(here: Run, trial: bool, deadline: float, work) -> None:
    """Run one worker until it ends or is stopped."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=work, args=(theirs, list(here.left), trial, deadline))
    worker.start()
    theirs.close()
    try:
        why = listen(here, ours, deadline)
    finally:
        if worker.is_alive():
            worker.join(5)
        if worker.is_alive():
            worker.kill()
        worker.join()
    here.lost(why or f"the process ended with status {worker.exitcode}")
    if worker.exitcode and here.left and here.task is None and why is None:
        here.refused = f"the process ended with status {worker.exitcode} before its next group"
        here.console.print(f"A worker ended with status {worker.exitcode}.")


def listen(here: Run, pipe: Connection, deadline: float) -> str | None:
    """Receive a worker's messages; return the reason to stop it, or None at its end."""
    while True:
        patience = min(SILENCE, max(0.0, deadline + GRACE - time.time()))
        if not pipe.poll(patience):
            return (
                "the run's time was up"
                if patience < SILENCE
                else f"no sign of life for {SILENCE:.0f} s"
            )
        try:
            message = pipe.recv()
        except EOFError:
            return None
        if message[0] == "refused":
            here.refused = message[1]
            continue
        if message[0] == "broken":
            return f"the device could not be used any more: {message[1]}"
        here.hear(message)


def shortly(row: dict) -> str:
    """Return a row's most precise median, for the log."""
    from gpucourse.views.results import Row

    found = Row.of(row)
    if not found.clocks:
        return "no times"
    clock = found.clocks[0]
    return f"{found.median(clock):.4g} ms ({clock}, {len(found.samples(clock))} samples)"


def save(document: dict, path: Path | None) -> None:
    """Write the document atomically."""
    if path is not None:
        write_atomically(path, _text(document))


def _text(document: dict) -> str:
    """Return JSON with one line per row, which can be read and compared line by line."""
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in document["rows"])
    head = json.dumps({**document, "rows": []}, indent=1, ensure_ascii=False)
    assert head.endswith('"rows": []\n}')
    return head.removesuffix("[]\n}") + (f"[\n{rows}\n ]\n}}\n" if rows else "[]\n}\n")
