"""Every project's solution at full marks, with 200 seeds: no hidden input fails a right answer.

    python -m benchmarks.grader_seeds              (15 minutes a project on two cores)
    python -m benchmarks.grader_seeds --seeds 2
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from pathlib import Path

from benchmarks import report
from gpucourse.grading.assignment import Assignment
from gpucourse.grading.batch import Grader, Job
from gpucourse.grading.demo import solved
from gpucourse.grading.ingest import ingest_cells
from gpucourse.grading.limits import Limits

SOURCES = Path(__file__).parents[1] / "grading" / "source"


def seed(project: str, number: int) -> str:
    """As secret seeds look, and the same again in the next run."""
    return hashlib.sha256(f"{project} {number}".encode()).hexdigest()[:32]


def graded(path: Path, count: int) -> dict:
    """The solution of one project under `count` seeds."""
    assignment = Assignment.load(path)
    ingested = ingest_cells(solved(assignment)["cells"], assignment, Limits())
    jobs = [Job(f"seed {number}", path, ingested, seed(path.stem, number))
            for number in range(count)]
    failures = []
    began = time.perf_counter()
    with Grader(own_work=True) as grader:
        verdicts = grader.grade(jobs)
    for verdict in verdicts:
        if verdict.earned != verdict.points:
            failures.append({"seed": verdict.seed, "earned": verdict.earned,
                             "reason": verdict.first_reason()})
            print(path.stem, failures[-1], flush=True)
    return {
        "runs": len(verdicts), "at full marks": len(verdicts) - len(failures),
        "points": verdicts[0].points, "failures": failures,
        "median s of a run": round(statistics.median(v.seconds for v in verdicts), 2),
        "wall s": round(time.perf_counter() - began, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args()
    results = {}
    for path in sorted(SOURCES.glob("*/*.ipynb")):
        results[path.stem] = graded(path, options.seeds)
        print(path.stem, json.dumps(results[path.stem]), flush=True)
    if options.seeds >= 200:
        print(report.write("grader_seeds", results))
    return 1 if any(found["failures"] for found in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
