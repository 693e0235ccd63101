"""Submissions per minute of the course's grader and of stock nbgrader, in one run.

    python -m lab.benchmarks.grader_throughput             classes of 100 (20 minutes on two cores)
    python -m lab.benchmarks.grader_throughput --count 10  smaller ones; printed, not written

Both grade the same class into a gradebook, each with its own command and including its start:

- trivial notebooks: plain Python and four asserts; what a grader itself costs;
- the first project: the same submissions, hidden tests and virtual GPU on both sides, solutions
  and known-wrong answers in turn.

Stock nbgrader grades one submission after the other, so 40 submissions of the class are enough for
its rate. They are more than one round of the project's known-wrong answers.

Then the course's grader runs alone with 1 and with 2 submissions at a time. Ratios are those of
wall times. The processor time of the whole machine is also given, because stock nbgrader uses
about one core. Run the benchmark on a machine that does nothing else, where Python may save its
compiled modules (PYTHONDONTWRITEBYTECODE is not set).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import psutil

from gpucourse.grading.classes.batch import default_workers
from lab.benchmarks import report
from lab.benchmarks.grader_class import OURS, STOCK, Course

PROJECT = "01_fill_a_histogram"
STOCK_COUNT = 40


def measured(course: Course, assignment: str, *options: str) -> dict:
    """Grade a class and time it; all submissions must be graded."""
    before, began = processor_seconds(), time.perf_counter()
    course.grade(assignment, *options)
    wall = time.perf_counter() - began
    graded = len(course.scores(assignment))
    found = {
        "submissions": graded,
        "wall s": round(wall, 1),
        "processor s of the machine": round(processor_seconds() - before, 1),
        "submissions per minute": round(60 * graded / wall, 1),
        "mean score": round(sum(course.scores(assignment).values()) / max(graded, 1), 3),
    }
    if course.kind == OURS:
        found["where the time goes"] = where_the_time_goes(course, assignment, wall, options)
    return found


def processor_seconds() -> float:
    """Return the whole machine's processor time, as a fork server's children are not ours.

    Processes with a positive niceness are not counted, because they do not belong to this
    benchmark.
    """
    used = psutil.cpu_times()
    return used.user + used.system


def where_the_time_goes(course: Course, assignment: str, wall: float, options) -> dict:
    """Return seconds of wall time per stage, divided among the submissions that ran together."""
    workers = (
        int(options[options.index("--workers") + 1])
        if "--workers" in options
        else (default_workers())
    )
    verdicts = list(course.verdicts(assignment))
    oracle = sum(verdict["seconds"] for verdict in verdicts)
    tests = sum(test["seconds"] for verdict in verdicts for test in verdict["tests"])
    return {
        "tests: compiling, launching, checking": round(tests / workers, 1),
        "rest of the oracle: sandbox, set-up cells": round((oracle - tests) / workers, 1),
        "start, ingest, gradebook, waiting": round(wall - oracle / workers, 1),
        "mean s of a submission": round(oracle / max(len(verdicts), 1), 2),
    }


def compared(folder: Path, name: str, count: int, assignment: str) -> dict:
    """Grade one class with both graders and return the times."""
    found = {}
    for kind in (OURS, STOCK):
        course = Course(folder / f"{name}-{kind}", kind)
        getattr(course, f"{name}_class")(count if kind == OURS else min(count, STOCK_COUNT))
        found[kind] = measured(course, assignment)
        print(name, kind, json.dumps(found[kind]), flush=True)
    found["ratio"] = round(
        found[OURS]["submissions per minute"] / found[STOCK]["submissions per minute"], 1
    )
    print(name, "ratio", found["ratio"], flush=True)
    return found


def scaling(folder: Path, name: str, count: int, assignment: str) -> dict:
    """Grade with one and with two submissions at a time and return the times."""
    found = {}
    for workers in (1, 2):
        course = Course(folder / f"scale-{name}-{workers}", OURS)
        getattr(course, f"{name}_class")(count)
        found[f"{workers} at a time"] = measured(course, assignment, "--workers", str(workers))
        print(name, workers, json.dumps(found[f"{workers} at a time"]), flush=True)
    one, two = (found[f"{n} at a time"]["wall s"] for n in (1, 2))
    found["speed-up"] = round(one / two, 2)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="submissions per class")
    parser.add_argument("--only", choices=["trivial", "project", "scaling"])
    options = parser.parse_args()
    results: dict = {}
    with tempfile.TemporaryDirectory(prefix="throughput-") as name:
        folder = Path(name)
        if options.only in (None, "trivial"):
            results["trivial"] = compared(folder, "trivial", options.count, "trivial")
        if options.only in (None, "project"):
            results["project 1"] = compared(folder, "project", options.count, PROJECT)
        if options.only in (None, "scaling"):
            results["scaling, trivial"] = scaling(folder, "trivial", options.count, "trivial")
            results["scaling, project 1"] = scaling(
                folder, "project", max(2, options.count // 4), PROJECT
            )
    print(json.dumps(results, indent=1))
    if options.count == 100 and options.only is None:
        print(report.write("grader_throughput", results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
