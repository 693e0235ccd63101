"""An nbgrader course directory, with its submissions and their stored verdicts.

::

    submitted/STUDENT/ASSIGNMENT/NAME.ipynb   as submitted; never written to
    rebuilt/STUDENT/ASSIGNMENT/NAME.ipynb     what `nbgrader autograde` reads
    verdicts/STUDENT/ASSIGNMENT/NAME.json     one for each versions/ASSIGNMENT/NAME/*.ipynb
    what was handed out, today and before

A verdict is reused as long as neither the submission nor the tests have changed. To grade a
submission again, delete the file with its verdict.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat

from gpucourse.grading.classes.batch import Grader, Job
from gpucourse.grading.classes.timestamps import (
    TIMESTAMP,
    Stamp,
    copy_stamps,
    stamp,
    update,
)
from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.finding import find
from gpucourse.grading.submission.ingest import Ingested, ingest_file, rebuild
from gpucourse.grading.submission.versions import Version, others, remember
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, Verdict, as_text

# nbgrader's pages insert a student's name unescaped into HTML and into a script. A name must
# therefore not contain characters that could end either of them, nor characters that cannot be
# displayed (control and direction characters, lone surrogates). nbgrader's commands also interpret
# a name as a pattern of file names: feedback for "a [x]" is written for nobody, with exit status 0.
STUDENT = re.compile(
    "[^<>&\"'`[*?\\\\\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]+"
)


@dataclass(frozen=True)
class Classroom:
    """The folders of one course directory."""

    root: Path

    def sources(self, assignment: str) -> list[Path]:
        """Return the instructor's notebooks of an assignment."""
        return sorted((self.root / "source" / assignment).glob("*.ipynb"))

    def students(self, assignment: str) -> list[str]:
        """Return the students with work for the assignment, under names that can be shown."""
        return [name for name in self._folders(assignment) if STUDENT.fullmatch(name)]

    def misnamed(self, assignment: str) -> list[str]:
        """Return a sentence for each submission that is left out because of its folder's name."""
        return [
            f"submitted/{name!a}: not graded. nbgrader cannot show the name, or reads it as HTML "
            "or as a pattern of names. Rename the folder (no < > & \" ' ` \\ [ * ?)."
            for name in self._folders(assignment)
            if not STUDENT.fullmatch(name)
        ]

    def left_alone(self) -> list[str]:
        """Return sentences about files in ``submitted/`` that belong to no assignment.

        Files of one kind share a sentence. Another sentence lists names that may be one student's.
        """
        known = {path.name for path in (self.root / "source").glob("*/")}
        place = "put it into submitted/STUDENT/ASSIGNMENT/"
        found: dict[str, list[str]] = {}
        people: dict[str, list[str]] = {}
        for student in sorted((self.root / "submitted").glob("[!.]*")):
            if not student.is_dir():
                found.setdefault(f"in no student's folder: {place}", []).append(student.name)
                continue
            one = unicodedata.normalize("NFKC", student.name).casefold().strip()
            people.setdefault(one, []).append(student.name)
            for path in sorted(student.glob("[!.]*")):
                if not path.is_dir():
                    why = f"not in an assignment's folder: {place}"
                elif path.name not in known:
                    why = (
                        f"there is no source/{path.name}/: the folder is another course's, or "
                        "its name is misspelt"
                    )
                else:
                    continue
                found.setdefault(why, []).append(f"{student.name}/{path.name}")
        said = [
            f"Ignored in submitted/: {', '.join(names)} ({why})." for why, names in found.items()
        ]
        said += [
            f"One student or several? {', '.join(map(repr, names))}: each is graded. If they are "
            "one student's, move the files into one folder."
            for names in people.values()
            if len(names) > 1
        ]
        return [as_text(sentence) for sentence in said]

    def _folders(self, assignment: str) -> list[str]:
        folders = (self.root / "submitted").glob(f"*/{assignment}")
        return sorted(folder.parent.name for folder in folders)

    def verdict_path(self, student: str, assignment: str, notebook: str) -> Path:
        return self.root / "verdicts" / student / assignment / f"{notebook}.json"

    def stamp(self, student: str, assignment: str) -> Stamp:
        """Return the hand-in time of a submission, or the reason why it is unknown."""
        folder = self.root / "submitted" / student / assignment
        return stamp(folder, self._refused(student, assignment))

    def untimed(self, assignment: str, students: Iterable[str], *, due: bool) -> list[str]:
        """Return one sentence for each reason why hand-in times are unknown, with its students.

        A missing ``timestamp.txt`` is reported only if the assignment has a due date (`due`).
        """
        found: dict[str, list[str]] = {}
        for student in students:
            told = self.stamp(student, assignment)
            if told.why and (
                due or os.path.lexists(self.root / "submitted" / student / assignment / TIMESTAMP)
            ):
                found.setdefault(told.why, []).append(student)
        return [
            f"Hand-in time unknown, so no lateness is counted: {', '.join(who)} ({why})."
            for why, who in found.items()
        ]

    def _refused(self, student: str, assignment: str) -> Path:
        return self.root / "verdicts" / student / assignment / "refused_time.txt"

    def verdict(self, assignment: str, job: Job) -> Verdict | None:
        """Return the stored verdict if it belongs to the same work and the same tests.

        The same answers may have been submitted in a different file, so notices about the file are
        taken from the present one.
        """
        verdict = self.stored(assignment, job)
        if (
            verdict is None
            or verdict.kind == INFRASTRUCTURE_FAULT
            or verdict.assignment_digest != job.assignment.digest
            or verdict.submission_digest != job.digest
        ):
            return None
        kept = verdict.notices[verdict.of_the_file :]
        return replace(
            verdict, notices=[*job.ingested.notices, *kept], of_the_file=len(job.ingested.notices)
        )

    def ingest(
        self, assignment: str, students: Iterable[str] | None = None, limits: Limits | None = None
    ) -> list[Job]:
        """Rebuild every submission into ``rebuilt/`` and return a job for each notebook.

        If the grader itself fails on one submission, the failure is stored in its job
        (:attr:`.Ingested.failed`), and the other submissions are still rebuilt.
        """
        jobs = []
        sources = [(path, Assignment.load(path)) for path in self.sources(assignment)]
        self.remember_released(assignment)
        kept = self.root / "versions" / assignment
        versions = {
            source.name: others(kept, source.name, source.released) for _, source in sources
        }
        for student in self.students(assignment) if students is None else students:
            try:
                taken = self._rebuilt(student, assignment, sources, limits, versions)
            except Exception as error:
                failed = f"the submission could not be rebuilt: {type(error).__name__}: {error}"
                taken = [Ingested(dict(source.starters), failed=failed) for _, source in sources]
            jobs += [
                Job(student, path, ingested)
                for (path, _), ingested in zip(sources, taken, strict=True)
            ]
        return jobs

    def remember_released(self, assignment: str) -> None:
        """Keep a copy of the current handout in ``versions/``.

        One copy is the notebook that nbgrader has generated. The other is derived from the source,
        because learners may have received it in another way.
        """
        for path in self.sources(assignment):
            generated = self.root / "release" / assignment / path.name
            remember(
                self.root / "versions" / assignment,
                path.stem,
                [
                    *([nbformat.read(generated, as_version=4)] if generated.is_file() else []),
                    Assignment.load(path).released,
                ],
            )

    def _rebuilt(
        self,
        student: str,
        assignment: str,
        sources: list[tuple[Path, Assignment]],
        limits: Limits | None,
        versions: dict[str, list[Version]],
    ) -> list[Ingested]:
        """Rebuild one submission; return the answers taken from each of its notebooks."""
        folder = self.root / "submitted" / student / assignment
        target = self.root / "rebuilt" / student / assignment
        taken = []
        names = {path.name for path, _ in sources}
        for _, source in sources:
            ingested = self._ingest_one(folder, source, names, limits, versions[source.name])
            text = nbformat.writes(rebuild(source, ingested), version=4)
            update(target / f"{source.name}.ipynb", text + "\n")
            # The pictures are shown to a person; the grader does not need them.
            ingested.pictures = {}
            taken.append(ingested)
        copy_stamps(folder, target, self._refused(student, assignment))
        return taken

    def _ingest_one(
        self,
        folder: Path,
        source: Assignment,
        names: Collection[str],
        limits: Limits | None,
        versions: list[Version],
    ) -> Ingested:
        found = find(folder, source, names, limits or Limits())
        if found.path is None:
            return Ingested(dict(source.starters), fault=found.fault)
        ingested = ingest_file(found.path, source, limits, versions)
        ingested.notices += [found.remark] if found.remark else []
        return ingested

    def grade(
        self,
        assignment: str,
        jobs: list[Job],
        grader: Callable[[], Grader],
        on_verdict: Callable[[Job, Verdict], None] = lambda job, verdict: None,
    ) -> None:
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
        verdict = replace(verdict, of_the_file=len(job.ingested.notices))
        verdict.write(self.verdict_path(job.student, assignment, verdict.notebook))

    def stored(self, assignment: str, job: Job) -> Verdict | None:
        """Return a job's stored verdict, even if it belongs to other work or other tests."""
        return Verdict.read(self.verdict_path(job.student, assignment, job.source.stem))

    def missing(self, assignment: str, jobs: list[Job]) -> list[Job]:
        """Return the jobs without a usable verdict."""
        return [job for job in jobs if self.verdict(assignment, job) is None]
