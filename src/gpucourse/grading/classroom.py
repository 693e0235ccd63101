"""A nbgrader course directory: ingest what was submitted, grade it, keep the verdicts.

::

    submitted/STUDENT/ASSIGNMENT/NAME.ipynb   as handed in; never written to
    rebuilt/STUDENT/ASSIGNMENT/NAME.ipynb     what `nbgrader autograde` reads
    verdicts/STUDENT/ASSIGNMENT/NAME.json     one for each

A verdict is used again as long as neither the submission nor the tests have changed; delete the
file to have it graded anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import nbformat

from gpucourse.grading.assignment import Assignment
from gpucourse.grading.batch import Grader, Job
from gpucourse.grading.ingest import Ingested, ingest_file, rebuild
from gpucourse.grading.limits import Limits
from gpucourse.grading.submission import Unreadable, read_bytes
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, Verdict, write_atomically

TIMESTAMP_BYTES = 200


@dataclass(frozen=True)
class Classroom:
    """The folders of one course directory."""

    root: Path

    def sources(self, assignment: str) -> list[Path]:
        """The instructor's notebooks of an assignment."""
        return sorted((self.root / "source" / assignment).glob("*.ipynb"))

    def students(self, assignment: str) -> list[str]:
        """Who has handed in anything for the assignment."""
        folders = (self.root / "submitted").glob(f"*/{assignment}")
        return sorted(folder.parent.name for folder in folders)

    def verdict_path(self, student: str, assignment: str, notebook: str) -> Path:
        return self.root / "verdicts" / student / assignment / f"{notebook}.json"

    def verdict(self, student: str, assignment: str, source: Assignment,
                ingested: Ingested) -> Verdict | None:
        """The stored verdict, if it is of this very work and these very tests."""
        verdict = Verdict.read(self.verdict_path(student, assignment, source.name))
        if (verdict is None or verdict.kind == INFRASTRUCTURE_FAULT
                or verdict.assignment_digest != source.digest
                or verdict.submission_digest != ingested.digest(source)):
            return None
        return verdict

    def ingest(self, assignment: str, students: Iterable[str] | None = None,
               limits: Limits | None = None) -> list[Job]:
        """Rebuild every submission into ``rebuilt/``; jobs for all of them."""
        jobs = []
        sources = [(path, Assignment.load(path)) for path in self.sources(assignment)]
        for student in self.students(assignment) if students is None else students:
            folder = self.root / "submitted" / student / assignment
            target = self.root / "rebuilt" / student / assignment
            for path, source in sources:
                ingested = self._ingest_one(folder, source, limits)
                text = nbformat.writes(rebuild(source, ingested), version=4)
                place = target / f"{source.name}.ipynb"
                if not place.exists() or place.read_text(encoding="utf-8") != text + "\n":
                    write_atomically(place, text + "\n")
                jobs.append(Job(student, path, ingested))
            self._copy_timestamp(folder, target)
        return jobs

    def _ingest_one(self, folder: Path, source: Assignment, limits: Limits | None) -> Ingested:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            fault = "What was submitted is a link, not a folder with the notebook in it."
            return Ingested(dict(source.starters), fault=fault)
        path = folder / f"{source.name}.ipynb"
        if not os.path.lexists(path):
            others = sorted(other.name for other in folder.glob("*.ipynb"))
            fault = f"There is no file '{source.name}.ipynb' in the submission."
            if others:
                fault += f" There is '{others[0][:80]}': give it back its name and submit again."
            return Ingested(dict(source.starters), fault=fault)
        return ingest_file(path, source, limits)

    @staticmethod
    def _copy_timestamp(folder: Path, target: Path) -> None:
        """nbgrader's ``timestamp.txt``, if it is one: a forged one must not stop the class."""
        from nbgrader.utils import parse_utc

        place = target / "timestamp.txt"
        try:
            text = read_bytes(folder / "timestamp.txt", TIMESTAMP_BYTES).decode("ascii").strip()
            parse_utc(text)
        except (Unreadable, ValueError, OverflowError, TypeError):
            place.unlink(missing_ok=True)
            return
        if not place.exists() or place.read_text() != text:
            write_atomically(place, text)

    def grade(self, assignment: str, jobs: list[Job], grader: Callable[[], Grader],
              on_verdict: Callable[[Job, Verdict], None] = lambda job, verdict: None) -> None:
        """Grade the jobs that have no verdict yet; each verdict is written as it arrives."""
        def keep(job: Job, verdict: Verdict) -> None:
            verdict.write(self.verdict_path(job.student, assignment, verdict.notebook))
            on_verdict(job, verdict)

        missing = self.missing(assignment, jobs)
        if missing:
            with grader() as running:
                running.grade(missing, keep)

    def missing(self, assignment: str, jobs: list[Job]) -> list[Job]:
        """Jobs without a usable verdict."""
        sources = {path: Assignment.load(path) for path in {job.source for job in jobs}}
        return [job for job in jobs
                if self.verdict(job.student, assignment, sources[job.source], job.ingested) is None]
