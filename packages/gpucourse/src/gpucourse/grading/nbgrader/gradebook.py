"""Writer of nbgrader's gradebook and of the graded notebooks that nbgrader keeps.

``nbgrader autograde`` does the same from the same verdicts, at half a second each; this module is
fast enough for a class of hundreds. It writes the same gradebook rows and files (a test compares
them), so formgrader, feedback and export work as usual.

Manual scores, extra credit and comments are never changed. As in nbgrader, a cell with a manual
score is marked for review when its work is graded again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import find_all_files, parse_utc
from traitlets.config import Config, PyFileConfigLoader

from gpucourse.grading.classes.batch import Job
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.classes.timestamps import STAMPS, TIMESTAMP
from gpucourse.grading.nbgrader import changed_source
from gpucourse.grading.nbgrader.filling import fill_in
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import rebuild
from gpucourse.grading.submission.versions import Version
from gpucourse.grading.verdict import Verdict
from gpucourse.system.atomic import write_atomically
from gpucourse.system.programs import search_path

CONFIGURATION = "nbgrader_config.py"
# nbgrader uses this mode, because graded notebooks must not be edited.
PERMISSIONS = 0o444


def configuration(root: Path) -> Config:
    """Return the settings of the course directory's ``nbgrader_config.py``; empty without one.

    The file may name plug-ins in its own folder, which is therefore appended to the import path.
    """
    if not (root / CONFIGURATION).is_file():
        return Config()
    if str(root) not in sys.path:
        sys.path.append(str(root))
    return PyFileConfigLoader(CONFIGURATION, path=str(root)).load_config()


@contextlib.contextmanager
def one_transaction(gradebook: Gradebook) -> Iterator[None]:
    """Commit all nbgrader changes in the context together at the end, or none of them.

    nbgrader's calls commit one by one, which takes 20 ms each on a disk that syncs its writes.
    """
    session = gradebook.db()
    session.commit = session.flush
    try:
        yield
    except BaseException:
        del session.commit
        session.rollback()
        raise
    del session.commit
    session.commit()


class GradebookInUse(OSError):
    """Error for a gradebook that cannot be read or written now; the message contains advice."""


def _told(error: BaseException | None) -> GradebookInUse | None:
    """Return the database's own error as a sentence for the teacher; None for any other error."""
    from sqlalchemy.exc import OperationalError

    if not isinstance(error, OperationalError):
        return None
    said = str(error.orig)
    if "locked" in said:
        return GradebookInUse(
            "Another program has locked the gradebook. Close it (another gpucourse grade, a "
            "viewer of gradebook.db), and run the same command again. Stored verdicts are kept."
        )
    return GradebookInUse(
        f"The gradebook cannot be used: {said}. Fix the cause, and run the same command again. "
        "Stored verdicts are kept."
    )


class GradebookWriter:
    """Writer of the verdicts of a course directory, one submission after the other.

    Use it as a context manager. Each notebook is written in one transaction, so that an
    interrupted run leaves only complete rows. Writing a verdict again changes nothing.
    """

    def __init__(self, classroom: Classroom, config: Config) -> None:
        self.classroom = classroom
        self.config = cast(Config, config.copy())
        self.config.CourseDirectory.root = str(classroom.root)
        self.course = CourseDirectory(config=self.config)
        # per notebook: grade_id → locked, source and checksum, as generate_assignment stored them
        self._kept: dict[tuple[str, str], dict[str, tuple[bool, str, str]]] = {}

    def __enter__(self) -> GradebookWriter:
        os.environ["PATH"] = search_path()  # for a new gradebook
        try:
            self.gradebook = Gradebook(self.course.db_url, self.course.course_id)
        except Exception as error:
            if told := _told(error):
                raise told from error
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.gradebook.close()
        if told := _told(error):
            raise told from error

    def knows(self, assignment: str) -> bool:
        """Return True if ``nbgrader generate_assignment`` has been run for the assignment."""
        try:
            return bool(self.gradebook.find_assignment(assignment).notebooks)
        except MissingEntry:
            return False

    def due(self, assignment: str) -> bool:
        """Return True if the assignment has a due date, so that work can be late."""
        return self.gradebook.find_assignment(assignment).duedate is not None

    def follow(self, assignment: str) -> list[str]:
        """Update the gradebook to the assignment's source; return sentences about the changes.

        Raises :class:`.changed_source.CannotFollow`, with nothing written.
        """
        sentences, copy = [], ""
        for path in self.classroom.sources(assignment):
            source = Assignment.load(path)
            try:
                notebook = self.gradebook.find_notebook(source.name, assignment)
            except MissingEntry:
                sentences.append(
                    f"{source.name}: the gradebook has no entry for this notebook. Run: nbgrader "
                    f"generate_assignment {assignment} --force"
                )
                continue
            if changed_source.recorded(notebook) == changed_source.wanted(source, self.config):
                continue
            copy = copy or changed_source.copied(self.course.db_url)
            with one_transaction(self.gradebook):
                told = changed_source.follow(self.gradebook, assignment, source, self.config)
            generated = self.classroom.root / "release" / assignment / path.name
            released = (
                Version.of(nbformat.read(generated, as_version=4))
                if (generated.is_file())
                else None
            )
            sentences.append(
                f"{source.name} has changed since the gradebook was made: "
                + ("; ".join(told) or "a detail that does not change grades")
                + ". The gradebook was updated"
                + (f" (copy of the old one: {copy})" if copy else "")
                + ", and work with changed tests is graded again. "
                + changed_source.advice(assignment, source, released)
            )
        return sentences

    def forget_time(self, assignment: str, student: str) -> None:
        """Delete the stored hand-in time: nbgrader's own command would keep an earlier one."""
        with contextlib.suppress(MissingEntry):
            self.gradebook.find_submission(assignment, student).timestamp = None
            self.gradebook.db.commit()

    def write(self, assignment: str, job: Job, verdict: Verdict) -> None:
        """Write points into the gradebook, and the graded notebook into ``autograded/``.

        An infrastructure fault is not written, because it is not a grade.
        """
        if verdict.earned is None:
            return
        source = job.assignment
        folder = self.classroom.root / "rebuilt" / job.student / assignment
        notebook = rebuild(source, job.ingested)
        fill_in(notebook, verdict)
        self._write_rows(assignment, job, source, verdict, folder)
        self._as_nbgrader_keeps_it(assignment, source, notebook)
        self._write_files(assignment, job, source, notebook, folder)

    def _write_rows(
        self, assignment: str, job: Job, source: Assignment, verdict: Verdict, folder: Path
    ) -> None:
        book = self.gradebook
        with one_transaction(book):
            submission = self._rows(book, assignment, job, source, verdict, folder)
        # This is needed even if the work was late before the due date was moved, because it removes
        # an old penalty.
        if submission.total_seconds_late > 0 or submission.late_submission_penalty:
            self._assign_penalty(assignment, job.student, source.name)

    def _rows(
        self,
        book: Gradebook,
        assignment: str,
        job: Job,
        source: Assignment,
        verdict: Verdict,
        folder: Path,
    ) -> SubmittedAssignment:
        book.update_or_create_student(job.student)
        with warnings.catch_warnings():
            # nbgrader adds rows in this way, and SQLAlchemy warns about it each time.
            warnings.filterwarnings("ignore", message="Object of type <Submitted")
            submission = book.update_or_create_submission(assignment, job.student)
        # Without a hand-in time there is no lateness, whatever was stored before.
        submission.timestamp = parse_utc((folder / TIMESTAMP).read_text(encoding="utf-8") or None)
        notebook = book.find_submission_notebook(source.name, assignment, job.student)
        outcomes = {outcome.test: outcome.earned for outcome in verdict.tests}
        untouched = {
            cell.grade_id
            for cell in source.solutions
            if job.ingested.sources[cell.grade_id] == source.starters[cell.grade_id]
        }
        for grade in notebook.grades:
            # This cell has no test: it is a text or a figure, which a person grades unless it is
            # unchanged since its release.
            manual = 0.0 if grade.name in untouched else None
            grade.auto_score = outcomes.get(grade.name, manual)
            grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
        for comment in notebook.comments:
            comment.auto_comment = "No response." if comment.name in untouched else None
        return submission

    def _assign_penalty(self, assignment: str, student: str, notebook: str) -> None:
        """Assign the penalty by the course's plug-in; nbgrader's default takes nothing."""
        step = AssignLatePenalties(config=self.config)
        step.preprocess(
            NotebookNode(cells=[], metadata={}),
            {
                "nbgrader": {
                    "student": student,
                    "assignment": assignment,
                    "notebook": notebook,
                    "db_url": self.course.db_url,
                }
            },
        )

    def _as_nbgrader_keeps_it(
        self, assignment: str, source: Assignment, notebook: NotebookNode
    ) -> None:
        """Restore locked cells, hidden tests and checksums, as nbgrader's OverwriteCells does."""
        key = assignment, source.name
        if key not in self._kept:
            found = self.gradebook.find_notebook(source.name, assignment)
            self._kept[key] = {
                cell.name: (cell.locked, cell.source, cell.checksum) for cell in found.source_cells
            }
        for cell in notebook.cells:
            name = (cell.metadata.get("nbgrader") or {}).get("grade_id")
            if name in self._kept[key]:
                locked, text, checksum = self._kept[key][name]
                cell.metadata.nbgrader["checksum"] = checksum
                if locked:
                    cell.source = text

    def _write_files(
        self, assignment: str, job: Job, source: Assignment, notebook: NotebookNode, folder: Path
    ) -> None:
        target = self.classroom.root / "autograded" / job.student / assignment
        kept = target / f"{source.name}.ipynb"
        write_atomically(kept, nbformat.writes(notebook, version=4) + "\n", PERMISSIONS)
        for name in STAMPS:
            write_atomically(target / name, (folder / name).read_bytes(), PERMISSIONS)
        originals = job.source.parent
        for path in find_all_files(str(originals), [*self.course.ignore, "*.ipynb"]):
            copy = target / Path(path).relative_to(originals)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            shutil.copy(path, copy)
            os.chmod(copy, PERMISSIONS)
