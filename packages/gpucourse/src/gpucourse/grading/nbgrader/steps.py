"""Traits and two preprocessors for nbgrader, which itself is not modified.

``grading/nbgrader_config.py`` calls :func:`configure`. Under ``nbgrader autograde`` this function
first ingests and grades the submissions in parallel. nbgrader then processes the rebuilt notebooks
one by one, and :class:`GradeWithOracle` writes the verdicts as outputs from which nbgrader reads
the points.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Dict, Integer, Unicode
from traitlets.config import Config

from gpucourse.course.regions import NBGRADER_STUB, NBGRADER_TEXT_STUB
from gpucourse.grading.classes.batch import FloorError, Grader, Job
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.limits import limits_from
from gpucourse.grading.nbgrader import highlighting
from gpucourse.grading.nbgrader.filling import fill_in
from gpucourse.grading.nbgrader.gradebook import GradebookWriter
from gpucourse.grading.nbgrader.stale import take_away
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import read_back
from gpucourse.grading.verdict import Verdict
from gpucourse.system.programs import search_path
from gpucourse.wording import many

REBUILT = "rebuilt"
_prepared: set[tuple[str, str]] = set()


def configure(c: Config) -> None:
    """Set every trait, and do the work that must precede nbgrader's work.

    Raises only :class:`.changed_source.CannotFollow`. ``nbgrader_config.py`` then ends the
    command, because nbgrader would continue with its own, unsafe steps.
    """
    os.environ["PATH"] = search_path()  # a new gradebook calls `alembic` without a path
    c.ClearSolutions.code_stub = {"python": "\n".join(NBGRADER_STUB)}
    c.ClearSolutions.text_stub = "\n".join(NBGRADER_TEXT_STUB)
    c.Autograde.autograde_preprocessors = [
        "gpucourse.grading.nbgrader.steps.GradeWithOracle",
        "nbgrader.preprocessors.SaveAutoGrades",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.GenerateFeedback.preprocessors = [
        "nbgrader.preprocessors.GetGrades",
        "gpucourse.grading.nbgrader.feedback.HideTests",
        "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    ]
    # These settings apply to feedback and to formgrader's pages.
    c.HTMLExporter.filters = {"highlight_code": f"{highlighting.__name__}.highlighted"}
    if (generating := _running(c, "GenerateAssignmentApp")) is not None:
        _follow(Classroom(generating[0]), generating[1], c)
    if (giving := _running(c, "GenerateFeedbackApp")) is not None:
        _make_room(*giving, c)
    running = _running(c, "AutogradeApp")
    if running is not None:
        c.CourseDirectory.submitted_directory = REBUILT
        prepare(*running, c)
    else:
        # nbgrader would begin by deleting the graded notebooks.
        c.Autograde.exporter_class = "gpucourse.grading.nbgrader.steps.NotHere"


def _running(c: Config, name: str) -> tuple[Path, str, str] | None:
    """Return directory, assignment and student if nbgrader runs command `name`, else None."""
    from nbgrader import apps
    from traitlets.config import Application

    app = Application.instance() if Application.initialized() else None
    if not isinstance(app, getattr(apps, name)):
        return None
    given = app.cli_config.CourseDirectory
    assignment = app.extra_args[0] if app.extra_args else given.get("assignment_id", "")
    root = given.get("root") or c.CourseDirectory.get("root") or Path.cwd()
    return Path(str(root)).resolve(), str(assignment), str(given.get("student_id", "*"))


def prepare(root: Path, assignment: str, student: str, c: Config) -> None:
    """Ingest and grade an assignment's submissions; once per process."""
    classroom = Classroom(root)
    if not assignment or (str(root), assignment) in _prepared:
        return
    _prepared.add((str(root), assignment))
    students = [name for name in classroom.students(assignment) if student in ("*", name)]
    for sentence in classroom.misnamed(assignment):
        print(sentence, file=sys.stderr)
    traits = c.get("GradeWithOracle", Config())
    try:
        _follow(classroom, assignment, c)
        limits = limits_from(traits.get("limits", {}))
        jobs = classroom.ingest(assignment, students, limits)
        _tell_times(classroom, assignment, students, c)
        classroom.grade(
            assignment,
            jobs,
            lambda: Grader(
                hidden=hidden_folders(root, c),
                limits=limits,
                workers=traits.get("workers", 0),
                unsafe=traits.get("unsafe", False),
                sources=classroom.sources(assignment),
            ),
            report,
        )
    except (FloorError, SandboxError) as error:
        sys.exit(f"Nothing was graded. {error}")
    except Exception as error:
        # nbgrader would only log an exception, and the configuration would be lost.
        sys.exit(f"Nothing was graded: {type(error).__name__}: {error}")


def _follow(classroom: Classroom, assignment: str, c: Config) -> None:
    """Keep a copy of the handout, and update the gradebook to a changed source, with messages."""
    if not classroom.sources(assignment):
        return
    classroom.remember_released(assignment)
    with GradebookWriter(classroom, c) as book:
        for sentence in book.follow(assignment) if book.knows(assignment) else ():
            print(sentence, file=sys.stderr)


def _make_room(root: Path, assignment: str, student: str, c: Config) -> None:
    """Delete outdated feedback, so that nbgrader writes it again."""
    with GradebookWriter(Classroom(root), c) as book:
        if assignment and (stale := take_away(book, root, assignment, student)):
            print(
                f"{many(len(stale), 'page')} made again, because the gradebook has changed: "
                + ", ".join(stale),
                file=sys.stderr,
            )


def _tell_times(classroom: Classroom, assignment: str, students: list[str], c: Config) -> None:
    """Report students whose hand-in time is unknown, and delete their times in the gradebook."""
    with GradebookWriter(classroom, c) as book:
        if not book.knows(assignment):
            return
        for student in students:
            if not classroom.stamp(student, assignment).time:
                book.forget_time(assignment, student)
        for sentence in classroom.untimed(assignment, students, due=book.due(assignment)):
            print(sentence, file=sys.stderr)


def hidden_folders(root: Path, c: Config) -> list[Path]:
    """Return the folders to hide from student code: the course directory and the exchange."""
    exchange = c.Exchange.get("root") if "Exchange" in c else None
    return [root] + ([Path(exchange)] if exchange else [])


def report(job: Job, verdict: Verdict) -> None:
    score = "not graded" if verdict.earned is None else f"{verdict.earned:g}/{verdict.points:g}"
    print(
        f"{job.student}: {verdict.notebook}: {score} {verdict.first_reason()}".strip(),
        file=sys.stderr,
    )


class NotHere(NotebookExporter):
    """Replacement of ``Autograde``'s exporter outside the command ``nbgrader autograde``.

    It is reached from formgrader's button, for example, and refuses before anything is deleted.
    """

    def __init__(self, **options: object) -> None:
        raise RuntimeError(
            "This button cannot grade here, and it has changed nothing. Run `gpucourse grade` in "
            "the course directory; this page then shows the results."
        )


class GradeWithOracle(NbGraderPreprocessor):
    """Replacement of nbgrader's ``Execute`` that runs no cell and writes the verdict."""

    workers = Integer(
        0, help="Number of submissions to grade at a time; 0 means one for each core"
    ).tag(config=True)
    unsafe = Bool(
        False,
        help="Grade although this machine cannot isolate submissions: they can read your files",
    ).tag(config=True)
    limits = Dict(
        help=("Limits of a submission that replace the defaults in gpucourse.grading.limits")
    ).tag(config=True)
    root = Unicode("", help="The course directory; by default the current one").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Fill in the outputs of the test cells.

        Raises RuntimeError if the notebook was not rebuilt or the grader itself failed. The
        submission then stays ungraded, and the others are not affected.
        """
        where = resources["nbgrader"]
        classroom = Classroom(Path(self.root or Path.cwd()).resolve())
        source = classroom.root / "source" / where["assignment"] / f"{where['notebook']}.ipynb"
        assignment = Assignment.load(source)
        try:
            ingested = read_back(nb, assignment)
        except ValueError:
            raise RuntimeError(
                f"{where['student']}: the notebook has not been rebuilt, so nothing was run. Use "
                "the command `nbgrader autograde` in the course directory."
            ) from None
        job = Job(where["student"], source, ingested)
        verdict = classroom.verdict(where["assignment"], job)
        if verdict is None:
            stored = classroom.stored(where["assignment"], job)
            raise RuntimeError(
                f"{where['student']}: the grader failed, not the student: "
                f"{stored.reason if stored else 'no verdict'}. Nothing was recorded; fix the "
                "cause and run `nbgrader autograde` again."
            )
        fill_in(nb, verdict)
        return nb, resources
