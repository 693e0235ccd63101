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
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from gpucourse.grading.classes.batch import Grader, Job
from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import Ingested, ingest_file, rebuild
from gpucourse.grading.submission.reading import Unreadable, read_bytes
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, Verdict, as_text
from gpucourse.system.atomic import PRIVATE, write_atomically

# nbgrader's own files beside the notebook: a time, and 128 hexadecimal digits.
STAMPS = ("timestamp.txt", "submission_secret.txt")
STAMP_BYTES = 200
# What a date, a time and the name of a time zone are written with. dateutil takes a path for a
# zone too, and reads the file.
TIME = re.compile(r"[A-Za-z0-9:.,+ -]{1,60}")
# nbgrader's pages put a student's name into HTML and into a script as it is: no name that could end
# either, and none that cannot be shown (control and direction characters, halves of surrogates).
# Its feedback looks for folders by patterns, in which []*? mean others.
STUDENT = re.compile(
    "[^][*?<>&\"'`\\\\\x00-\x1f\x7f-\x9f"
    "\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


def copy_stamps(folder: Path, target: Path) -> None:
    """Copy nbgrader's ``timestamp.txt`` and ``submission_secret.txt``, or put others in place.

    Both are written on the student's machine. nbgrader stops on a time that it cannot read, and
    cannot release anybody's feedback when one submission lacks either. So the time of the folder
    stands in for a bad time, and a random secret for a missing one.
    """
    from nbgrader.utils import parse_utc

    def read(name: str) -> str:
        return read_bytes(folder / name, STAMP_BYTES).decode("ascii").strip()

    try:
        time = read("timestamp.txt")
        if not TIME.fullmatch(time):
            raise ValueError
        parse_utc(time)
    except Exception:  # whatever a parser of dates thinks of; it is never the class's concern
        handed_in = datetime.fromtimestamp(os.lstat(folder).st_mtime, UTC)
        time = handed_in.strftime("%Y-%m-%d %H:%M:%S.%f UTC")
    _update(target / "timestamp.txt", time)
    try:
        _update(target / "submission_secret.txt", read("submission_secret.txt"))
    except (Unreadable, ValueError):
        if not (target / "submission_secret.txt").exists():
            _update(target / "submission_secret.txt", secrets.token_hex(64))


def _update(path: Path, text: str) -> None:
    """Write `text` unless it is there already."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomically(path, text, PRIVATE)


@dataclass(frozen=True)
class Classroom:
    """The folders of one course directory."""

    root: Path

    def sources(self, assignment: str) -> list[Path]:
        """The instructor's notebooks of an assignment."""
        return sorted((self.root / "source" / assignment).glob("*.ipynb"))

    def students(self, assignment: str) -> list[str]:
        """Who has handed in anything for the assignment, under a name that can be shown."""
        return [name for name in self._folders(assignment) if STUDENT.fullmatch(name)]

    def misnamed(self, assignment: str) -> list[str]:
        """A sentence for each submission that is left out because of its folder's name."""
        return [f"submitted/{name!a}: not graded. nbgrader would take the name for HTML or for a "
                "pattern, or cannot show it: rename it."
                for name in self._folders(assignment) if not STUDENT.fullmatch(name)]

    def _folders(self, assignment: str) -> list[str]:
        folders = (self.root / "submitted").glob(f"*/{assignment}")
        return sorted(folder.parent.name for folder in folders)

    def verdict_path(self, student: str, assignment: str, notebook: str) -> Path:
        return self.root / "verdicts" / student / assignment / f"{notebook}.json"

    def verdict(self, assignment: str, job: Job) -> Verdict | None:
        """The stored verdict, if it is of this very work and these very tests."""
        verdict = self.stored(assignment, job)
        if (verdict is None or verdict.kind == INFRASTRUCTURE_FAULT
                or verdict.assignment_digest != job.assignment.digest
                or verdict.submission_digest != job.digest):
            return None
        return verdict

    def ingest(self, assignment: str, students: Iterable[str] | None = None,
               limits: Limits | None = None) -> list[Job]:
        """Rebuild every submission into ``rebuilt/``; jobs for all of them.

        What the grader cannot do with one submission is that one's fault of the grader
        (:attr:`.Ingested.failed`); the others are rebuilt all the same.
        """
        jobs = []
        sources = [(path, Assignment.load(path)) for path in self.sources(assignment)]
        for student in self.students(assignment) if students is None else students:
            try:
                taken = self._rebuilt(student, assignment, sources, limits)
            except Exception as error:
                failed = f"the submission could not be taken in: {type(error).__name__}: {error}"
                taken = [Ingested(dict(source.starters), failed=failed) for _, source in sources]
            jobs += [Job(student, path, ingested)
                     for (path, _), ingested in zip(sources, taken, strict=True)]
        return jobs

    def _rebuilt(self, student: str, assignment: str, sources: list[tuple[Path, Assignment]],
                 limits: Limits | None) -> list[Ingested]:
        """One submission, rebuilt; what was taken of it for each of the notebooks."""
        folder = self.root / "submitted" / student / assignment
        target = self.root / "rebuilt" / student / assignment
        taken = []
        for _, source in sources:
            ingested = self._ingest_one(folder, source, limits)
            text = nbformat.writes(rebuild(source, ingested), version=4)
            _update(target / f"{source.name}.ipynb", text + "\n")
            taken.append(ingested)
        copy_stamps(folder, target)
        return taken

    def _ingest_one(self, folder: Path, source: Assignment, limits: Limits | None) -> Ingested:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            fault = "What was submitted is a link, not a folder with the notebook in it."
            return Ingested(dict(source.starters), fault=fault)
        path = folder / f"{source.name}.ipynb"
        if not os.path.lexists(path):
            others = sorted(other.name for other in folder.glob("*.ipynb"))
            fault = f"There is no file '{source.name}.ipynb' in the submission."
            if others:
                fault += (f" There is '{as_text(others[0])[:80]}': give it back its name and "
                          "submit again.")
            return Ingested(dict(source.starters), fault=fault)
        return ingest_file(path, source, limits)

    def grade(self, assignment: str, jobs: list[Job], grader: Callable[[], Grader],
              on_verdict: Callable[[Job, Verdict], None] = lambda job, verdict: None) -> None:
        """Grade the jobs that have no verdict yet; each verdict is written as it arrives."""
        def keep(job: Job, verdict: Verdict) -> None:
            self.keep(assignment, job, verdict)
            on_verdict(job, verdict)

        missing = self.missing(assignment, jobs)
        if missing:
            with grader() as running:
                running.grade(missing, keep)

    def keep(self, assignment: str, job: Job, verdict: Verdict) -> None:
        """Write one verdict."""
        verdict.write(self.verdict_path(job.student, assignment, verdict.notebook))

    def stored(self, assignment: str, job: Job) -> Verdict | None:
        """The verdict on file of a job, of whatever work and tests."""
        return Verdict.read(self.verdict_path(job.student, assignment, job.source.stem))

    def missing(self, assignment: str, jobs: list[Job]) -> list[Job]:
        """Jobs without a usable verdict."""
        return [job for job in jobs if self.verdict(assignment, job) is None]
