"""What nbgrader is given: traits, and two preprocessors. nbgrader itself is not changed.

``grading/nbgrader_config.py`` calls :func:`configure`. Under ``nbgrader autograde`` that first
ingests and grades what was submitted, in parallel; nbgrader then goes through the rebuilt
notebooks one by one and :class:`GradeWithOracle` writes the verdicts where nbgrader looks for a
grade.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, Integer, Unicode
from traitlets.config import Config

from gpucourse.course.regions import NBGRADER_STUB, NBGRADER_TEXT_STUB
from gpucourse.grading.classes.batch import FloorError, Grader, Job
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.submission.assignment import TEST, Assignment, role_of
from gpucourse.grading.submission.ingest import read_back
from gpucourse.grading.verdict import STUDENT_FAULT, TestOutcome, Verdict
from gpucourse.system.programs import search_path

REBUILT = "rebuilt"
_prepared: set[tuple[str, str]] = set()


def configure(c: Config) -> None:
    """Set every trait. Never raises: nbgrader would go on with its own, unsafe steps."""
    os.environ["PATH"] = search_path()  # a new gradebook needs `alembic`, by its bare name
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
    running = _autograding(c)
    if running is not None:
        c.CourseDirectory.submitted_directory = REBUILT
        prepare(*running, c)


def _autograding(c: Config) -> tuple[Path, str, str] | None:
    """Course directory, assignment and student if this is ``nbgrader autograde``, else None."""
    from nbgrader.apps import AutogradeApp
    from traitlets.config import Application

    app = Application.instance() if Application.initialized() else None
    if not isinstance(app, AutogradeApp):
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
        jobs = classroom.ingest(assignment, students)
        classroom.grade(
            assignment, jobs,
            lambda: Grader(hidden=hidden_folders(root, c), workers=traits.get("workers", 0),
                           unsafe=traits.get("unsafe", False),
                           sources=classroom.sources(assignment)),
            report,
        )
    except (FloorError, SandboxError) as error:
        sys.exit(f"Nothing was graded. {error}")
    except Exception as error:
        # An exception would only be logged, and the configuration lost with it.
        sys.exit(f"Nothing was graded: {type(error).__name__}: {error}")


def hidden_folders(root: Path, c: Config) -> list[Path]:
    """What student code must not see: the course, and the exchange with others' work."""
    exchange = c.Exchange.get("root") if "Exchange" in c else None
    return [root] + ([Path(exchange)] if exchange else [])


def report(job: Job, verdict: Verdict) -> None:
    score = "not graded" if verdict.earned is None else f"{verdict.earned:g}/{verdict.points:g}"
    print(f"{job.student}: {verdict.notebook}: {score} {verdict.first_reason()}".strip(),
          file=sys.stderr)


def outputs_for(outcome: TestOutcome) -> list[NotebookNode]:
    """Outputs from which :func:`nbgrader.utils.determine_grade` reads exactly our points.

    An error output earns 0, an ``execute_result`` the number in it, no such output everything.
    """
    if outcome.passed:
        return [new_output("stream", name="stdout", text="Passed.\n")]
    if outcome.earned <= 0:
        lines = outcome.reason.splitlines() or ["failed"]
        return [new_output("error", ename="Failed", evalue=lines[0], traceback=lines)]
    return [
        new_output("stream", name="stdout", text=outcome.reason + "\n"),
        new_output("execute_result", data={"text/plain": repr(float(outcome.earned))},
                   execution_count=None),
    ]


def fill_in(notebook: NotebookNode, verdict: Verdict) -> None:
    """Outputs of the test cells, and what feedback shows besides; the seed stays where it is."""
    outcomes = {outcome.test: outcome for outcome in verdict.tests}
    for cell in notebook.cells:
        if role_of(cell) == TEST:
            cell.outputs = outputs_for(outcomes[cell.metadata.nbgrader.grade_id])
    notebook.metadata.gpucourse["verdict_notices"] = verdict.notices
    if verdict.kind == STUDENT_FAULT:
        notebook.metadata.gpucourse["nothing_ran"] = verdict.reason
    notebook.metadata.gpucourse["isolation"] = verdict.isolation


class GradeWithOracle(NbGraderPreprocessor):
    """In place of nbgrader's ``Execute``: runs nothing in the notebook, writes the verdict."""

    workers = Integer(0, help="Submissions graded at a time; 0: one for each core").tag(config=True)
    unsafe = Bool(
        False,
        help="Grade although this machine cannot isolate submissions: they can read your files",
    ).tag(config=True)
    root = Unicode("", help="The course directory; by default the current one").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        """Fill in the outputs of the test cells.

        Raises RuntimeError, which leaves the submission ungraded and the others unharmed, for a
        notebook that was not rebuilt and where the grader itself failed.
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
                f"{stored.reason if stored else 'no verdict'}. Nothing was recorded; mend the "
                "cause and run `nbgrader autograde` again."
            )
        fill_in(nb, verdict)
        return nb, resources
