"""The class of ``gpucourse demo``, graded without nbgrader, on the GPU or the virtual GPU.

    python -m lab.gpu_check.grading_run RESULT.jsonl --device gpu

It grades the reference solutions, every known-wrong answer and every damaged file of every
project. The seed is the same on every device, so the hidden inputs are too. A row is written for
each submission as it is graded, and a submission that already has a row is not graded again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from lab.gpu_check import jobs
from lab.gpu_check.lesson_run import find_root
from lab.gpu_check.rows import AGREES, DIFFERS, FAILS, Row, append, read, write
from virtualgpu.devices.real.process import GPU, VIRTUAL

#: Not secret, because two runs must be comparable.
SEED = "67707563" * 4
LAUNCHES = "launches of graded kernels"
_ENDLESS = "never finishes"


def grade_class(result: Path, device: str, workers: int = 0) -> None:
    """Grade all submissions; rows are written to ``result`` one by one."""
    from gpucourse.grading.classes.batch import Grader, Job
    from gpucourse.grading.commands.demo import damaged, mismatch, wrong_answers
    from gpucourse.grading.limits import Limits
    from gpucourse.grading.oracle import checked_device
    from gpucourse.grading.submission.assignment import Assignment
    from gpucourse.grading.submission.ingest import ingest_file

    root = find_root()
    known = read(result)
    write(result, known)
    graded = {row.what for row in known}
    with tempfile.TemporaryDirectory(prefix="gpucourse-class-") as name:
        folder = Path(name)
        people, submitted = {}, []
        for source in sorted((root / "grading" / "source").glob("*/*.ipynb")):
            assignment = Assignment.load(source)
            wrong = root / "course" / "projects" / source.stem / "wrong.py"
            for person in damaged(assignment, wrong) + wrong_answers(assignment, wrong):
                if f"{source.stem}/{person.student}" in graded:
                    continue
                path = folder / source.stem / person.student / source.name
                path.parent.mkdir(parents=True)
                path.write_text(person.content, encoding="utf-8")
                student = f"{source.stem}/{person.student}"
                people[student] = assignment, person
                submitted.append(Job(student, source, ingest_file(path, assignment), seed=SEED))
        record = result.with_suffix("")
        record.mkdir(exist_ok=True)
        # The fork server of the oracles passes its environment on.
        os.environ[checked_device.RECORD] = str(record)
        os.environ.setdefault(checked_device.KIND, GPU)

        def keep(job, verdict) -> None:
            assignment, person = people[job.student]
            bad = mismatch(person, assignment, verdict, verdict.earned)
            failed = verdict.earned is None
            figures = {
                "earned": verdict.earned,
                "points": verdict.points,
                "device": verdict.device,
                "isolation": verdict.isolation,
                "seconds": verdict.seconds,
                "reasons": {one.test: one.reason for one in verdict.tests if one.reason},
            }
            row = Row(job.student, FAILS if failed else DIFFERS if bad else AGREES, bad, figures)
            append(result, row)

        # All submissions are the course's own, so nothing has to be isolated here.
        limits = replace(Limits(), gpu=device != VIRTUAL)
        if submitted:
            with Grader(
                own_work=True,
                workers=workers,
                limits=limits,
                sources=sorted({job.source for job in submitted}),
            ) as grader:
                grader.grade(submitted, keep)
        if device != VIRTUAL and not any(row.what.endswith(LAUNCHES) for row in known):
            append(result, _launches(checked_device.read_record(record)))


def _launches(lines: list[dict]) -> Row:
    """Return one row for all launches of the class that ran on the GPU."""
    from virtualgpu.devices.comparison import FINE

    counts = Counter(line["verdict"] for line in lines)
    bad = [line for line in lines if line["verdict"] not in FINE]
    detail = "; ".join(f"{line['launch']}: {line['detail']}" for line in bad[:10])
    figures = dict(counts) | {"worst": max((line["worst"] for line in lines), default=0.0)}
    return Row(f"{len(lines):,} {LAUNCHES}", DIFFERS if bad else AGREES, detail, figures)


def same_reasons(there: list[Row], here: list[Row]) -> list[Row]:
    """Return the GPU run's rows, marked as different if the virtual GPU's score or reasons differ.

    For an answer that never finishes, all reasons count as equal, because the load of the machine
    decides whether the processor time or the wall time runs out first.
    """
    ours = {row.what: row for row in here}
    found = []
    for row in there:
        other = ours.get(row.what)
        if other is not None and row.verdict == AGREES and "reasons" in other.figures:
            for name in ("earned", "reasons"):
                if not _alike(row.figures[name], other.figures[name]):
                    row = replace(
                        row,
                        verdict=DIFFERS,
                        detail=f"{name}: {row.figures[name]} on "
                        f"the GPU, {other.figures[name]} on the virtual GPU",
                    )
                    break
        found.append(row)
    return found


def _alike(one: object, other: object) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one == other
    return one.keys() == other.keys() and all(
        one[test] == other[test] or (_ENDLESS in one[test] and _ENDLESS in other[test])
        for test in one
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--device", choices=(GPU, VIRTUAL), default=GPU)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    jobs.end_with_parent()
    grade_class(given.result, given.device, given.workers)


if __name__ == "__main__":
    main()
