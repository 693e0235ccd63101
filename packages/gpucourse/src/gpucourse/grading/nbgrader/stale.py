"""Feedback that is out of date with the gradebook.

``nbgrader generate_feedback`` writes only missing pages, even if the work has been graded again
since: one page showed 34 points where the gradebook had 33. This module therefore stores a digest
of the data of each page and deletes outdated pages before nbgrader runs.
"""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

from nbgrader.api import MissingEntry, SubmittedAssignment

from gpucourse.grading.nbgrader.gradebook import GradebookWriter
from gpucourse.grading.verdict import digest
from gpucourse.system.atomic import PRIVATE, write_atomically

# File beside the verdicts with the digest of the data that each feedback page shows.
RECORD = "feedback.txt"


def made_of(book: GradebookWriter, root: Path, assignment: str, student: str) -> str:
    """Return a digest of all data that the feedback on a submission shows."""
    graded = root / "autograded" / student / assignment
    parts = [path.name.encode() + path.read_bytes() for path in sorted(graded.glob("*.ipynb"))]
    try:
        parts.append(repr(_rows(book.gradebook.find_submission(assignment, student))).encode())
    except MissingEntry:
        parts.append(b"")
    return digest(*parts)


def _rows(submission: SubmittedAssignment) -> list[object]:
    """Return all of a submission's gradebook data that a page can show."""
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
    """Remove the outdated feedback of one assignment; return the students' names.

    ``students`` is a pattern, as in nbgrader. The digest is stored before a page is written: if
    writing fails, the page is missing and the next run writes it.
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
