"""Fuzz the virtual GPU with random and mutated PTX.

``python -m evidence.fuzz --cases 1000000`` runs cases 0 to 999,999 in worker processes and
writes ``benchmarks/results/fuzz.json`` as it goes; stopped and started again, it tries what failed
once more and goes on where it was. ``--show NUMBER`` prints a case. A failure is an exception that
is not one of ``virtualgpu.errors``, a worker that dies or hangs, or memory that changed outside
every allocation; the command ends with status 1 where there was one.
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
from pathlib import Path

from benchmarks.report import machine, versions
from gpucourse.system.atomic import write_atomically

CHUNK = 2000  # cases per worker process: what a worker leaks is bounded by its life
# Seconds without a line from a worker: it hangs.
PATIENCE = float(os.environ.get("FUZZ_PATIENCE", "60"))
START = 60.0  # seconds that a worker may take to start: it compiles its corpus
RESULTS = Path("benchmarks/results/fuzz.json")


class Run:
    """What is known so far, and the file it is kept in."""

    def __init__(self, path: Path, cases: int, chunk: int):
        self.path, self.cases, self.chunk = path, cases, chunk
        self.done: set[int] = set()  # chunks
        self.ended: Counter[str] = Counter()
        self.failures: dict[str, str] = {}
        self.slowest = (0.0, -1)
        self.seconds = 0.0
        self.lock = threading.Lock()
        if path.exists():
            known = json.loads(path.read_text())
            if known["chunk"] == chunk:
                self.done = {c for a, b in known["chunks_done"] for c in range(a, b)}
                self.ended.update(known["outcomes"])
                self.failures = known["failures"]
                self.slowest = tuple(known["slowest_case"])
                self.seconds = known["worker_seconds"]

    def left(self) -> list[int]:
        return [c for c in range(-(-self.cases // self.chunk)) if c not in self.done]

    def save(self) -> None:
        spans: list[list[int]] = []
        for chunk in sorted(self.done):
            if spans and spans[-1][1] == chunk:
                spans[-1][1] += 1
            else:
                spans.append([chunk, chunk + 1])
        total = sum(self.ended.values())
        record = {
            "what": "random and mutated PTX against the virtual GPU",
            "command": f"python -m evidence.fuzz --cases {self.cases}",
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
        """Run the cases that failed: one that no longer does counts as what it is now."""
        for number in list(self.failures):
            ended, failures, _ = run_cases(int(number), int(number) + 1)
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
    ran = run_cases(chunk * run.chunk, min((chunk + 1) * run.chunk, run.cases))
    run.add(*ran, time.monotonic() - started, chunk)


def run_cases(begin: int, stop: int) -> tuple[Counter[str], dict[str, str], tuple[float, int]]:
    """How the cases ended, which failed and why, and the slowest with its seconds.

    Where a worker dies, a new one goes on after the case that killed it.
    """
    ended: Counter[str] = Counter()
    failures, slowest, at = {}, (0.0, -1), begin
    while at < stop:
        worker = subprocess.Popen(
            [sys.executable, "-m", "evidence.fuzz.worker", str(at), str(stop)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=_pump, args=(worker.stdout, lines), daemon=True).start()
        threading.Thread(target=_pump, args=(worker.stderr, errors := queue.SimpleQueue()),
                         daemon=True).start()
        current, why = at - 1, ""
        while True:
            try:
                line = lines.get(timeout=PATIENCE if current >= at else START + PATIENCE)
            except queue.Empty:
                worker.send_signal(signal.SIGKILL)
                why = f"no end after {PATIENCE:g} s"
                break
            if line is None:
                break
            sign, number, *rest = line.split(" ", 5)
            current = int(number)
            if sign == "<":
                _, how, seconds, said = rest
                ended[how] += 1
                slowest = max(slowest, (float(seconds), current))
                if how == "FAILED":
                    failures[number] = said.strip()
                at = current + 1
        code = worker.wait()
        if at < stop:
            if current < at:
                heard = "".join(iter(lambda: errors.get(timeout=5), None))
                raise RuntimeError(f"the worker does not start:\n{heard}")
            why = why or (f"killed by {signal.Signals(-code).name}" if code < 0
                          else f"worker ended with status {code}")
            ended["FAILED"] += 1
            failures[str(current)] = why
            at = current + 1
    return ended, failures, slowest


def _pump(stream, lines: queue.SimpleQueue) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--chunk", type=int, default=CHUNK)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print a case and stop")
    options = parser.parse_args()
    if options.show is not None:
        from evidence.fuzz import worker

        case = worker.make(options.show)
        print(case.text)
        print({k: v for k, v in vars(case).items() if k != "text"}, file=sys.stderr)
        print(*worker.outcome(case, worker.Bench(), options.show), file=sys.stderr)
        return 0
    run = Run(options.results, options.cases, options.chunk)
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
            print(f"\r{sum(run.ended.values()):,} cases, {len(run.failures)} failed", end="",
                  file=sys.stderr, flush=True)

    workers = [threading.Thread(target=work) for _ in range(max(1, options.jobs))]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    if broken:
        print(broken[0], file=sys.stderr)
        return 2
    run.save()
    print(f"\n{options.results}: {dict(run.ended)}", file=sys.stderr)
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
