"""A thousand submissions in one run, one in twenty hostile: one verdict each, memory flat.

    python -m lab.evidence.grader_soak               1,000 (10 minutes on two cores)
    python -m lab.evidence.grader_soak --count 40

Memory is sampled while ``gpucourse grade`` runs: of its own process, and of all that it has started
together (proportional set size, so that what forks share is counted once). Flat means: the largest
sample of the last quarter of the verdicts is at most a quarter above that of the second quarter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from lab.benchmarks import report
from lab.benchmarks.grader_class import OURS, Course, deserved, environment

EVERY_SECONDS = 1.0
ALLOWED_GROWTH = 1.25
HOSTILE_EVERY = 20


def megabytes(process: psutil.Process) -> tuple[float, float]:
    """Of the process itself, and of it with all that it has started."""
    own = process.memory_info().rss
    together = 0
    for member in (process, *process.children(recursive=True)):
        try:
            together += member.memory_full_info().pss
        except (psutil.Error, AttributeError):
            continue  # it has just ended, or the system has no such figure
    return own / 1e6, together / 1e6


def watched(course: Course) -> list[tuple[int, float, float]]:
    """Grade the class; verdicts there, memory of the grader, memory of all, once a second."""
    samples = []
    with open(course.folder / "log.txt", "w") as log:
        process = psutil.Popen(
            course.command("trivial"), env=environment(), stdout=log, stderr=subprocess.STDOUT
        )
        while process.poll() is None:
            try:
                there = sum(1 for _ in (course.folder / "verdicts").glob("*/trivial/*.json"))
                samples.append((there, *megabytes(process)))
            except psutil.Error:
                break
            time.sleep(EVERY_SECONDS)
        if process.wait():
            raise RuntimeError((course.folder / "log.txt").read_text()[-2000:])
    return samples


def growth(samples: list[tuple[int, float, float]], count: int, column: int) -> float:
    """Largest sample of the last quarter over the largest of the second quarter."""

    def largest(start: float, end: float) -> float:
        return max(
            (s[column] for s in samples if start * count <= s[0] <= end * count),
            default=float("nan"),
        )

    return largest(0.75, 1.0) / largest(0.25, 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        course = Course(Path(name) / "course", OURS)
        course.trivial_class(options.count, hostile_every=HOSTILE_EVERY)
        began = time.perf_counter()
        samples = watched(course)
        seconds = time.perf_counter() - began
        expected = deserved(course.folder)
        found = {verdict["student"]: verdict["earned"] for verdict in course.verdicts("trivial")}
        kinds = Counter(verdict["kind"] for verdict in course.verdicts("trivial"))
        scores = course.scores("trivial")
    results = {
        "submissions": options.count,
        "hostile": options.count // HOSTILE_EVERY,
        "verdicts": len(found),
        "kinds": dict(kinds),
        "as deserved": found == expected,
        "gradebook agrees": scores == expected,
        "wall s": round(seconds, 1),
        "grader's own MB, largest": round(max(sample[1] for sample in samples)),
        "all processes' MB, largest": round(max(sample[2] for sample in samples)),
        "growth of the grader": round(growth(samples, options.count, 1), 3),
        "growth of all": round(growth(samples, options.count, 2), 3),
    }
    print(json.dumps(results, indent=1))
    if options.count >= 1000:
        print(report.write("grader_soak", results))
        flat = max(results["growth of the grader"], results["growth of all"]) <= ALLOWED_GROWTH
    else:
        flat = True
    return 0 if flat and found == expected == scores else 1


if __name__ == "__main__":
    sys.exit(main())
