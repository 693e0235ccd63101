"""Feedback without the hidden tests, and with everything from the student as plain text.

nbgrader's own feedback shows the tests in full, and inserts a student's HTML and scripts into a
page that the instructor opens. That page begins with a list of links, such as "Test cell (Score:
0.0 / 3.0)". Here the page begins with the table that ``gpucourse grade`` prints.
"""

from __future__ import annotations

import html

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from gpucourse.grading.submission.assignment import SETUP, SOLUTION, TEST, role_of

BEGIN, END = "BEGIN HIDDEN TESTS", "END HIDDEN TESTS"
INSTEAD = "# (hidden tests ran here)"
# nbgrader's comment on an answer that is unchanged since its release.
UNTOUCHED = "No response."
# nbgrader's own list of links contains less information, so it is hidden. Its page shows Markdown
# tables without space between columns, so that "step" and "you write" look like one word.
_STYLE = (
    "#toc{display:none}.gpuc-results{width:100%}.gpuc-results td{vertical-align:top}"
    ".gpuc-results td,.gpuc-results th{text-align:left;padding:.15em .8em .15em 0}"
    ".gpuc-results td:nth-child(-n+2){white-space:nowrap}"
    ".text_cell_render td,.text_cell_render th{padding:.15em .8em .15em 0;vertical-align:top}"
)


def visible_part(source: str) -> str:
    """Return a test cell's source without hidden regions, or up to an unclosed one."""
    lines: list[str] = []
    hidden = False
    for line in source.split("\n"):
        if BEGIN in line:
            hidden = True
            lines.append(line[: len(line) - len(line.lstrip())] + INSTEAD)
        elif END in line:
            hidden = False
        elif not hidden:
            lines.append(line)
    return "\n".join(lines)


def as_plain_text(source: str) -> str:
    """Return Markdown that shows `source` literally, without HTML, links or images."""
    return "<pre>" + html.escape(source).replace("\n", "&#10;") + "</pre>"


def results(nb: NotebookNode, late_penalty: float) -> str:
    """Return the table of results as HTML, with tests, points and the properties that failed.

    ``nb`` has the scores and comments that nbgrader's GetGrades writes into its cells. If nothing
    could be run, every test has the same reason, so it is shown once, above the table.
    """
    nothing_ran = html.escape((nb.metadata.get("gpucourse") or {}).get("nothing_ran", ""))
    rows = []
    for cell in nb.cells:
        found = cell.metadata.get("nbgrader", {})
        graded = found.get("grade") or found.get("task")
        if not graded and found.get("comment") in (None, "", UNTOUCHED):
            continue
        name, told = found["grade_id"], "" if nothing_ran else reason(cell)
        points = ""
        if graded:
            points = f"{found.get('score', 0):g}/{found.get('points', 0):g}"
            if role_of(cell) == TEST:
                name = ("✓ " if found.get("score") == found.get("points") else "✗ ") + name
        if found.get("comment"):
            told += f'<a href="#comment-{html.escape(found["grade_id"])}">comment</a>'
        where = html.escape(found["grade_id"], quote=True)
        rows.append(
            f'<tr><td><a href="#{where}">{html.escape(name)}</a></td><td>{points}</td>'
            f"<td>{told}</td></tr>"
        )
    if late_penalty > 0:
        rows.append(f"<tr><td>handed in late</td><td>-{late_penalty:g}</td><td></td></tr>")
    above = f"<p><strong>{nothing_ran}</strong></p>" if nothing_ran else ""
    return (
        f"<style>{_STYLE}</style>{above}"
        '<table class="gpuc-results"><tr><th>test</th><th>points</th>'
        f"<th>which property fails</th></tr>{''.join(rows)}</table>"
    )


def reason(cell: NotebookNode) -> str:
    """Return the grader's reason for a test without full points, as HTML."""
    lines = [
        output.evalue if output.output_type == "error" else output.get("text", "")
        for output in cell.get("outputs", ())
        if role_of(cell) == TEST
    ]
    return html.escape("" if lines == ["Passed.\n"] else " ".join(lines).strip())


class HideTests(NbGraderPreprocessor):
    """Preprocessor for the graded notebook, used before it is converted to HTML."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        notices = (nb.metadata.get("gpucourse") or {}).get("verdict_notices", [])
        for cell in nb.cells:
            role = role_of(cell)
            if role == TEST:
                cell.source = visible_part(cell.source)
            if cell.cell_type == "code":
                # Keep only output that the grader itself wrote, and only below test cells.
                cell.outputs = cell.outputs if role == TEST else []
            elif self._is_notice(cell) or (role == SOLUTION and not self._is_inert(cell, nb)):
                cell.source = as_plain_text(cell.source)
            if role == SETUP:
                cell.outputs = []
        nb.cells = [cell for cell in nb.cells if not self._is_notice(cell)]
        late = float(resources.get("nbgrader", {}).get("late_penalty") or 0)
        summary = NotebookNode(
            cell_type="markdown",
            id="gpucourse-results",
            metadata=NotebookNode(),
            source=results(nb, late),
        )
        if notices:
            text = "**What the grader found in this notebook**\n\n"
            nb.cells.insert(
                0,
                NotebookNode(
                    cell_type="markdown",
                    id="gpucourse-notice",
                    metadata=NotebookNode(),
                    source=text + as_plain_text("\n".join(f"- {notice}" for notice in notices)),
                ),
            )
        nb.cells.insert(0, summary)
        return nb, resources

    @staticmethod
    def _is_inert(cell: NotebookNode, nb: NotebookNode) -> bool:
        """Return True if ingest has made the text harmless.

        The metadata come from the grader and never from a student.
        """
        written = (nb.metadata.get("gpucourse") or {}).get("written", {})
        return cell.metadata.nbgrader.grade_id in written

    @staticmethod
    def _is_notice(cell: NotebookNode) -> bool:
        return (cell.metadata.get("gpucourse") or {}).get("role") == "notice"
