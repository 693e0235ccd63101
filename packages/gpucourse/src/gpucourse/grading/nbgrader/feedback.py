"""Feedback without the hidden tests, and with everything from the student as plain text.

Stock feedback prints the tests in full, and puts a student's HTML and scripts into a page that the
instructor opens.
"""

from __future__ import annotations

import html

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from gpucourse.grading.submission.assignment import SETUP, SOLUTION, TEST, role_of

BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
INSTEAD = "# (hidden tests ran here)"


def visible_part(source: str) -> str:
    """The source of a test cell without its hidden regions; nothing after an unclosed one."""
    lines: list[str] = []
    hidden = False
    for line in source.split("\n"):
        if BEGIN in line:
            hidden = True
            lines.append(line[:len(line) - len(line.lstrip())] + INSTEAD)
        elif END in line:
            hidden = False
        elif not hidden:
            lines.append(line)
    return "\n".join(lines)


def as_plain_text(source: str) -> str:
    """Markdown that shows `source` letter by letter: no HTML, no links, no images."""
    return "<pre>" + html.escape(source).replace("\n", "&#10;") + "</pre>"


class HideTests(NbGraderPreprocessor):
    """Runs on the graded notebook, before it becomes HTML."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        notices = (nb.metadata.get("gpucourse") or {}).get("verdict_notices", [])
        for cell in nb.cells:
            role = role_of(cell)
            if role == TEST:
                cell.source = visible_part(cell.source)
            if cell.cell_type == "code":
                # Only what the grader itself wrote, and that only below test cells.
                cell.outputs = cell.outputs if role == TEST else []
            elif self._is_notice(cell) or (role == SOLUTION and not self._is_inert(cell, nb)):
                cell.source = as_plain_text(cell.source)
            if role == SETUP:
                cell.outputs = []
        nb.cells = [cell for cell in nb.cells if not self._is_notice(cell)]
        if notices:
            text = "**What the grader found in this notebook**\n\n"
            nb.cells.insert(0, NotebookNode(
                cell_type="markdown", id="gpucourse-notice", metadata=NotebookNode(),
                source=text + as_plain_text("\n".join(f"- {notice}" for notice in notices)),
            ))
        return nb, resources

    @staticmethod
    def _is_inert(cell: NotebookNode, nb: NotebookNode) -> bool:
        """Whether ingest made the text so; metadata are the grader's own, never a student's."""
        written = (nb.metadata.get("gpucourse") or {}).get("written", {})
        return cell.metadata.nbgrader.grade_id in written

    @staticmethod
    def _is_notice(cell: NotebookNode) -> bool:
        return (cell.metadata.get("gpucourse") or {}).get("role") == "notice"
