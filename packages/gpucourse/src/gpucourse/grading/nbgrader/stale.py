"""Feedback that is out of date with the gradebook.

``nbgrader generate_feedback`` makes what is missing and leaves what is there, whatever has been
graded since: a page said 34 points where the gradebook said 33. So each page is known by what it
was made of, and one that would be another today is taken away before nbgrader looks.
"""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

from nbgrader.api import MissingEntry, SubmittedAssignment

from gpucourse.grading.nbgrader.gradebook import GradebookWriter
from gpucourse.grading.verdict import digest
from gpucourse.system.atomic import PRIVATE, write_atomically

# Beside the verdicts: which state of a submission its feedback was made of.
RECORD = "feedback.txt"


def made_of(book: GradebookWriter, root: Path, assignment: str, student: str) -> str:
    """Return a digest of all that the feedback on a submission shows."""
    graded = root / "autograded" / student / assignment
    parts = [path.name.encode() + path.read_bytes() for path in sorted(graded.glob("*.ipynb"))]
    try:
        parts.append(repr(_rows(book.gradebook.find_submission(assignment, student))).encode())
    except MissingEntry:
        parts.append(b"")
    return digest(*parts)


def _rows(submission: SubmittedAssignment) -> list[object]:
    """Return everything of a submission in the gradebook that a page can show."""
    return [(submission.student.first_name, submission.student.last_name, submission.timestamp)] + [
        (
            one.name,
            one.late_submission_penalty,
            sorted((grade.name, grade.score, grade.max_score) for grade in one.grades),
            sorted((comment.name, comment.comment or "") for comment in one.comments),
        )
        for one in sorted(submission.notebooks, key=lambda one: one.name)
    ]


def take_away(book: GradebookWriter, root: Path, assignment: str, students: str = "*") -> list[str]:
    """Remove the feedback of one assignment that is stale; whose, by name.

    ``students`` is a pattern, as nbgrader has it. A file is noted as made before it is made: if
    that fails, the file is missing and the next run makes it.
    """
    stale = []
    for graded in sorted((root / "autograded").glob(f"*/{assignment}")):
        student = graded.parent.name
        if not fnmatch.fnmatchcase(student, students):
            continue
        now = made_of(book, root, assignment, student)
        record = root / "verdicts" / student / assignment / RECORD
        page = root / "feedback" / student / assignment
        if page.exists() and not (record.is_file() and record.read_text("utf-8") == now):
            shutil.rmtree(page)
            stale.append(student)
        write_atomically(record, now, PRIVATE)
    return stale
