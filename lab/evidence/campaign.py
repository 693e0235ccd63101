"""Numbered trials in worker processes, with a file from which the next run continues.

A worker is a module that runs as ``python -m WORKER FIRST STOP``. It writes ``> NUMBER`` before
each trial and ``< NUMBER [SECONDS, ENDED, WHY]`` after it. The list is JSON: the seconds, the
number of cases by outcome, and the reason if the outcome is ``FAILED``, which counts as one case.
A worker that dies or hangs also counts as a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gpucourse.system.atomic import write_atomically
from lab.benchmarks.report import machine, versions

# Seconds without a line after which a worker counts as hung. Busy machines take five times a
# trial's own time.
PATIENCE = float(os.environ.get("FUZZ_PATIENCE", "180"))
START = 60.0  # seconds that a worker may take to start, when it compiles its corpus


class Run:
    """State of a campaign, and the file in which it is saved."""

    def __init__(self, worker: str, what: str, command: str, path: Path, trials: int, chunk: int):
        self.worker, self.what, self.command = worker, what, command
        self.path, self.trials, self.chunk = path, trials, chunk
        self.done: set[int] = set()  # chunk numbers
        self.ended: Counter[str] = Counter()
        self.failures: dict[str, str] = {}
        self.slowest = (0.0, -1)
        self.seconds = 0.0
        self.lock = threading.Lock()
        if path.exists():
            known = json.loads(path.read_text())
            if known.get("chunk") == chunk:
                self.done = {c for a, b in known["chunks_done"] for c in range(a, b)}
                self.ended.update(known["outcomes"])
                self.failures = known["failures"]
                self.slowest = tuple(known["slowest_case"])
                self.seconds = known["worker_seconds"]

    def left(self) -> list[int]:
        return [c for c in range(-(-self.trials // self.chunk)) if c not in self.done]

    def save(self) -> None:
        spans: list[list[int]] = []
        for chunk in sorted(self.done):
            if spans and spans[-1][1] == chunk:
                spans[-1][1] += 1
            else:
                spans.append([chunk, chunk + 1])
        total = sum(self.ended.values())
        record = {
            "what": self.what,
            "command": self.command,
            "trials": sum(min(self.chunk, self.trials - chunk * self.chunk) for chunk in self.done),
            "cases": total,
            "failed": len(self.failures),
            "outcomes": dict(self.ended.most_common()),
            "cases_per_worker_second": round(total / self.seconds, 1) if self.seconds else 0,
            "slowest_case": list(self.slowest),
            "failures": self.failures,
            "worker_seconds": round(self.seconds, 1),
            "chunk": self.chunk,
            "chunks_done": spans,
            "machine": machine(),
            "date": time.strftime("%Y-%m-%d"),
            "versions": versions(),
        }
        write_atomically(self.path, json.dumps(record, indent=1) + "\n")

    def try_again(self) -> None:
        """Repeat the failed cases.

        A case that no longer fails is counted with its new outcome.
        """
        for number in list(self.failures):
            ended, failures, _ = run_trials(self.worker, int(number), int(number) + 1)
            if not failures:
                del self.failures[number]
                self.ended.subtract(["FAILED"])
                self.ended.update(ended)
        self.ended = +self.ended
        self.save()

    def add(self, ended: Counter, failures: dict, slowest: tuple, seconds: float, chunk: int):
        with self.lock:
            self.ended.update(ended)
            self.failures.update(failures)
            self.slowest = max(self.slowest, slowest)
            self.seconds += seconds
            self.done.add(chunk)
            self.save()


def run_chunk(run: Run, chunk: int) -> None:
    started = time.monotonic()
    ran = run_trials(run.worker, chunk * run.chunk, min((chunk + 1) * run.chunk, run.trials))
    run.add(*ran, time.monotonic() - started, chunk)


def run_trials(
    worker: str, begin: int, stop: int
) -> tuple[Counter[str], dict[str, str], tuple[float, int]]:
    """Return the cases' outcomes, the failed trials with reasons, and the slowest's seconds.

    If a worker dies, a new one continues after the trial that killed it.
    """
    ended: Counter[str] = Counter()
    failures, slowest, at = {}, (0.0, -1), begin
    while at < stop:
        process = subprocess.Popen(
            [sys.executable, "-m", worker, str(at), str(stop)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        threading.Thread(
            target=_pump, args=(process.stderr, errors := queue.SimpleQueue()), daemon=True
        ).start()
        current, why = at - 1, ""
        while True:
            try:
                line = lines.get(timeout=PATIENCE if current >= at else START + PATIENCE)
            except queue.Empty:
                process.send_signal(signal.SIGKILL)
                why = f"no end after {PATIENCE:g} s"
                break
            if line is None:
                break
            sign, number, *rest = line.split(" ", 2)
            current = int(number)
            if sign == "<":
                seconds, how, why_failed = json.loads(rest[0])
                ended.update(how)
                slowest = max(slowest, (seconds, current))
                if "FAILED" in how:
                    failures[number] = why_failed
                at = current + 1
        code = process.wait()
        if at < stop:
            if current < at:
                heard = "".join(iter(lambda: errors.get(timeout=5), None))
                raise RuntimeError(f"the worker did not start:\n{heard}")
            why = why or (
                f"killed by {signal.Signals(-code).name}"
                if code < 0
                else f"worker ended with status {code}"
            )
            ended["FAILED"] += 1
            failures[str(current)] = why
            at = current + 1
    return ended, failures, slowest


def _pump(stream, lines: queue.SimpleQueue) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def main(
    worker: str,
    words: str,
    about: str,
    what: str,
    trials: int,
    chunk: int,
    show: Callable[[int], object] | None = None,
) -> int:
    """Run a campaign with the options of its command line; return the exit status.

    ``what`` is the plural noun for a trial, and ``about`` describes the campaign in its file.
    ``show`` runs and prints one trial, for ``--show NUMBER``.
    """
    command = f"python -m {worker.removesuffix('.worker')}"
    parser = argparse.ArgumentParser(
        prog=command, description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(f"--{what}", type=int, default=trials, dest="trials")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--chunk", type=int, default=chunk, help="trials per worker process")
    parser.add_argument(
        "--results", type=Path, default=Path(f"lab/results/{command.split('.')[-1]}.json")
    )
    if show:
        parser.add_argument(
            "--show", type=int, metavar="NUMBER", help="run and print one trial, then stop"
        )
    options = parser.parse_args()
    if show and options.show is not None:
        show(options.show)
        return 0
    command = f"{command} --{what} {options.trials}"
    run = Run(worker, about, command, options.results, options.trials, options.chunk)
    return go_on(run, options.jobs)


def go_on(run: Run, jobs: int) -> int:
    """Run the remaining chunks; return the exit status, which is 1 if a case failed."""
    run.try_again()
    todo: queue.SimpleQueue = queue.SimpleQueue()
    for chunk in run.left():
        todo.put(chunk)

    broken: list[str] = []

    def work() -> None:
        while not broken:
            try:
                run_chunk(run, todo.get_nowait())
            except queue.Empty:
                return
            except RuntimeError as error:
                broken.append(str(error))
            print(
                f"\r{sum(run.ended.values()):,} cases, {len(run.failures)} failed",
                end="",
                file=sys.stderr,
                flush=True,
            )

    workers = [threading.Thread(target=work) for _ in range(max(1, jobs))]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    if broken:
        print(broken[0], file=sys.stderr)
        return 2
    run.save()
    print(f"\n{run.path}: {dict(run.ended)}", file=sys.stderr)
    return 1 if run.failures else 0
