"""``gpucourse grade`` for a class, and ``gpucourse regrade``.

A grader runs the jobs, on this machine or on a cluster, and returns verdicts one by one. Only this
process writes them, to ``verdicts/`` and to the gradebook. Submissions with a stored verdict are
not graded again, so the same command continues an interrupted run.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.grading.classes import report
from gpucourse.grading.classes.batch import FloorError, Grader, Job, copied, identical
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.classes.similarity import PUBLISHED, Pair, alike
from gpucourse.grading.limits import limits_from
from gpucourse.grading.oracle.fork_server import with_work
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import Verdict, as_text

if TYPE_CHECKING:
    from gpucourse.grading.nbgrader.gradebook import GradebookWriter

# Exit codes. A class in which nobody has full points still counts as graded.
GRADED, PARTLY_GRADED, NOT_GRADED = 0, 1, 2


# Characters in a course's path that nbgrader's commands interpret as a pattern.
PATTERN = re.compile(r"[\[*?]")


class GraderLike(Protocol):
    """Interface of :class:`~.classes.batch.Grader` and of graders that do the work elsewhere."""

    def __enter__(self) -> GraderLike: ...

    def __exit__(self, *_: object) -> None: ...

    def grade(
        self, jobs: list[Job], on_verdict: Callable[[Job, Verdict], None] = ...
    ) -> list[Verdict]: ...


class NotReady(RuntimeError):
    """Error for a course directory that cannot be graded; the message contains advice."""


@dataclass
class Class:
    """One course directory and the options for grading it.

    `scheduler` is the address of a Dask cluster; if it is empty, this machine grades. If `workers`
    or `unsafe` is not given, the setting in ``nbgrader_config.py`` applies. `similar` requests a
    list of submissions that resemble each other. `unwritten` has a sentence for each verdict that
    could not be written to the gradebook, and `jobs` contains the latest jobs.
    """

    root: Path
    console: Console = field(default_factory=Console)
    workers: int = 0
    unsafe: bool = False
    scheduler: str = ""
    similar: bool = False
    unwritten: list[str] = field(default_factory=list, init=False)
    jobs: list[Job] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        from gpucourse.grading.nbgrader.gradebook import configuration

        self.root = self.root.resolve()
        if PATTERN.search(str(self.root)):
            raise NotReady(
                f"The path {self.root} contains one of the characters [ * ?, which nbgrader reads "
                "as a pattern of names, so it would find nothing. Rename the folder and run the "
                "same command there."
            )
        self.classroom = Classroom(self.root)
        self.config = configuration(self.root)
        try:
            self.limits = limits_from(self.config.GradeWithOracle.get("limits", {}))
        except ValueError as wrong:
            raise NotReady(f"nbgrader_config.py: {wrong}") from None

    def grader(self) -> GraderLike:
        """Return the grader for the jobs."""
        from gpucourse.grading.nbgrader.steps import hidden_folders

        unsafe = self.unsafe or bool(self.config.GradeWithOracle.get("unsafe", False))
        if self.scheduler:
            from gpucourse.grading.classes.cluster import ClusterGrader

            return ClusterGrader(
                self.scheduler, limits=self.limits, unsafe=unsafe, tell=self.console.print
            )
        workers = self.workers or self.config.GradeWithOracle.get("workers", 0)
        return Grader(
            hidden=hidden_folders(self.root, self.config),
            limits=self.limits,
            workers=workers,
            unsafe=unsafe,
            sources=with_work(self.root),
        )

    def assignments(self) -> list[str]:
        """Return the assignments with a submission. Raises NotReady if there is none."""
        names = sorted(path.name for path in (self.root / "source").glob("*") if path.is_dir())
        if not names:
            raise NotReady(
                f"{self.root} is not a course directory, because it has no source/ASSIGNMENT/. "
                "Run the command in grading/, or name the directory: gpucourse grade FOLDER"
            )
        found = [name for name in names if self.classroom.students(name)]
        if not found:
            raise NotReady(
                "There are no submissions yet: collect them with `nbgrader collect ASSIGNMENT`, "
                "or put notebooks into submitted/STUDENT/ASSIGNMENT/"
            )
        return found

    def grade(
        self,
        assignment: str,
        students: list[str] | None = None,
        *,
        again: Callable[[Job, Verdict | None], Job] | None = None,
    ) -> list[Verdict]:
        """Grade one assignment and return the verdicts of all its submissions.

        Work with a stored verdict is not run, unless `again(job, stored verdict)` returns a job to
        run for it. Raises NotReady, FloorError or SandboxError before any submission has been run.
        """
        from gpucourse.grading.nbgrader.changed_source import CannotFollow
        from gpucourse.grading.nbgrader.gradebook import GradebookWriter

        with GradebookWriter(self.classroom, self.config) as book:
            if not book.knows(assignment):
                raise NotReady(
                    f"The gradebook has no entry for '{assignment}' yet. Run: nbgrader "
                    f"generate_assignment {assignment}"
                )
            try:
                changes = book.follow(assignment)
            except CannotFollow as cannot:
                raise NotReady(str(cannot)) from None
            for sentence in changes:
                self.console.print(sentence, style="yellow", markup=False)
            for sentence in self.classroom.misnamed(assignment):
                self.console.print(sentence, style="red", markup=False)
            self.jobs = jobs = self.classroom.ingest(assignment, students, self.limits)
            verdicts = {} if again else self._on_file(assignment, jobs)
            waiting = {
                number: again(job, self.classroom.stored(assignment, job)) if again else job
                for number, job in enumerate(jobs)
                if number not in verdicts
            }
            self._run(assignment, jobs, waiting, verdicts, book)
            for sentence in lacking(jobs):
                self.console.print(sentence, style="yellow", markup=False)
            people = sorted({job.student for job in jobs})
            for sentence in self.classroom.untimed(assignment, people, due=book.due(assignment)):
                self.console.print(sentence, style="yellow", markup=False)
        return [verdicts[number] for number in sorted(verdicts)]

    def _on_file(self, assignment: str, jobs: list[Job]) -> dict[int, Verdict]:
        """Return usable verdicts by job index, the job's own or one for identical work."""
        found: dict[int, Verdict] = {}
        for numbers in identical(jobs):
            own = {
                number: verdict
                for number in numbers
                if (verdict := self.classroom.verdict(assignment, jobs[number])) is not None
            }
            for number in numbers if own else ():
                original, verdict = next(iter(own.items()))
                if number not in own:
                    own[number] = copied(verdict, jobs[original], jobs[number])
                    self.classroom.keep(assignment, jobs[number], own[number])
            found |= own
        return found

    def _run(
        self,
        assignment: str,
        jobs: list[Job],
        waiting: dict[int, Job],
        verdicts: dict[int, Verdict],
        book: GradebookWriter,
    ) -> None:
        """Grade the jobs in `waiting` and write every verdict to the gradebook."""
        places = {id(job): number for number, job in waiting.items()}
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(assignment, total=len(jobs))
            # An interrupted run may have written a verdict but not yet its gradebook row.
            for number, verdict in list(verdicts.items()):
                self._write(book, assignment, jobs[number], verdict)
                progress.advance(task)

            def keep(job: Job, verdict: Verdict) -> None:
                self.classroom.keep(assignment, job, verdict)
                self._write(book, assignment, job, verdict)
                verdicts[places[id(job)]] = verdict
                progress.advance(task)

            if waiting:
                with self.grader() as running:
                    running.grade(list(waiting.values()), keep)

    def _write(self, book: GradebookWriter, assignment: str, job: Job, verdict: Verdict) -> None:
        """Write one submission's row and files; report an error without stopping the others."""
        try:
            book.write(assignment, job, verdict)
        except Exception as error:
            sentence = (
                f"{job.student}: {verdict.notebook}: graded, but not in the gradebook: "
                f"{as_text(f'{type(error).__name__}: {error}')[:300]}. Fix the cause and run the "
                "same command again."
            )
            self.unwritten.append(sentence)
            self.console.print(sentence, style="red", markup=False)


def lacking(jobs: list[Job]) -> list[str]:
    """Return a sentence for each set of missing answer cells, with the students."""
    found: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        if job.ingested.lacks:
            found.setdefault(tuple(job.ingested.lacks), []).append(job.student)
    return [
        f"These students began with an earlier version, without {', '.join(names)}: "
        f"{', '.join(students)}. They get no points for tests of the missing cells: give the "
        "points by hand, or release the assignment again."
        for names, students in found.items()
    ]


def grade_class(
    root: Path, assignments: list[str], console: Console | None = None, **options: Any
) -> int:
    """Grade a class, print the summary and return the exit code."""
    console = console or Console()
    try:
        course = Class(root, console, **options)
        handed_in = course.assignments()
        unknown = set(assignments) - set(handed_in)
        if unknown:
            raise NotReady(
                f"There are no submissions of {', '.join(sorted(unknown))}, only of: "
                + ", ".join(handed_in)
            )
        for sentence in course.classroom.left_alone():
            console.print(sentence, style="yellow", markup=False)
        worst = GRADED
        for assignment in assignments or handed_in:
            verdicts = course.grade(assignment)
            report.show(assignment, verdicts, console)
            pairs: list[Pair] | None = None
            if course.similar:
                pairs = alike(course.jobs, published(root, course.jobs))
            for path in report.write(root / "reports" / assignment, assignment, verdicts, pairs):
                console.print(f"wrote {path.relative_to(root)}", style="dim", markup=False)
            if course.unwritten or any(verdict.earned is None for verdict in verdicts):
                worst = PARTLY_GRADED
    except (NotReady, FloorError, SandboxError, OSError) as error:
        console.print(f"Nothing was graded. {error}", style="red", markup=False)
        return NOT_GRADED
    return worst


def published(root: Path, jobs: list[Job]) -> dict[str, dict[str, str]]:
    """Return public answers by name.

    These are the reference solution and, if the course's source is beside the course directory,
    the answers in other styles from ``right.py``.
    """
    found: dict[str, dict[str, str]] = {}
    for source in dict.fromkeys(job.source for job in jobs):
        assignment = Assignment.load(source)
        solution = {
            cell.grade_id: unwrap_regions(cell.source, SOLUTION) for cell in assignment.solutions
        }
        found[PUBLISHED] = found.get(PUBLISHED, {}) | solution
        other = root.resolve().parent / "course" / "projects" / assignment.name / "right.py"
        if other.is_file():
            for entry in runpy.run_path(str(other))["RIGHT"]:
                found[f"{PUBLISHED}, {entry['name']}"] = solution | entry["cells"]
    return found


def regrade(
    root: Path,
    students: list[str],
    assignment: str = "",
    *,
    explain: bool = False,
    new_seed: bool = False,
    console: Console | None = None,
    **options: Any,
) -> int:
    """Grade again, by default with the stored seed, so that the hidden inputs are the same.

    With `explain` nothing is written; the instructor sees the failed tests and the values on which
    they failed.
    """
    console = console or Console()
    try:
        course = Class(root, console, **options)
        code = GRADED
        for name in [assignment] if assignment else course.assignments():
            there = course.classroom.students(name)
            wanted = [student for student in there if not students or student in students]
            if explain:
                code = max(code, _explain(course, name, wanted))
            elif wanted:
                verdicts = course.grade(
                    name,
                    wanted,
                    again=lambda job, stored: repeated(job, None if new_seed else stored),
                )
                report.show(name, verdicts, console)
                if course.unwritten:
                    code = PARTLY_GRADED
        missing = set(students) - {
            s for name in course.assignments() for s in course.classroom.students(name)
        }
        if missing:
            raise NotReady(f"There is no submission by {', '.join(sorted(missing))}.")
    except (NotReady, FloorError, SandboxError, OSError) as error:
        console.print(f"Not graded again: {error}", style="red", markup=False)
        return NOT_GRADED
    return code


def repeated(job: Job, stored: Verdict | None) -> Job:
    """Return the job with the seed of its stored verdict, if that belongs to the same work.

    Changed work gets a new seed, so that what its author has learned about the old inputs is no
    help.
    """
    if stored is None or stored.submission_digest != job.ingested.digest(job.assignment):
        return replace(job, seed="")
    return replace(job, seed=stored.seed)


def _explain(course: Class, assignment: str, students: list[str]) -> int:
    """Run each submission once more with its seed and explain its result."""
    jobs = course.classroom.ingest(assignment, students, course.limits)
    files = [course.classroom.stored(assignment, job) for job in jobs]
    again = [
        replace(repeated(job, verdict), detailed=True)
        for job, verdict in zip(jobs, files, strict=True)
    ]
    with course.grader() as running:
        found = running.grade(again)
    for stored, now in zip(files, found, strict=True):
        report.explain(stored, now, course.console)
    return GRADED if all(verdict.earned is not None for verdict in found) else PARTLY_GRADED
