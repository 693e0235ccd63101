"""Conversion of a verdict to outputs of the test cells, from which nbgrader reads the points."""

from __future__ import annotations

from nbformat import NotebookNode
from nbformat.v4 import new_output

from gpucourse.grading.submission.assignment import TEST, role_of
from gpucourse.grading.verdict import STUDENT_FAULT, TestOutcome, Verdict


def outputs_for(outcome: TestOutcome) -> list[NotebookNode]:
    """Return outputs from which :func:`nbgrader.utils.determine_grade` reads our points.

    An error output earns 0 points and an ``execute_result`` earns the number in it. A cell without
    such an output earns all points.
    """
    if outcome.passed:
        return [new_output("stream", name="stdout", text="Passed.\n")]
    if outcome.earned <= 0:
        lines = outcome.reason.splitlines() or ["failed"]
        return [new_output("error", ename="Failed", evalue=lines[0], traceback=lines)]
    return [
        new_output("stream", name="stdout", text=outcome.reason + "\n"),
        new_output(
            "execute_result", data={"text/plain": repr(float(outcome.earned))}, execution_count=None
        ),
    ]


def fill_in(notebook: NotebookNode, verdict: Verdict) -> None:
    """Fill in the test cells' outputs and feedback; the notebook does not contain the seed."""
    outcomes = {outcome.test: outcome for outcome in verdict.tests}
    for cell in notebook.cells:
        if role_of(cell) == TEST:
            cell.outputs = outputs_for(outcomes[cell.metadata.nbgrader.grade_id])
    notebook.metadata.gpucourse["verdict_notices"] = verdict.notices
    if verdict.kind == STUDENT_FAULT:
        notebook.metadata.gpucourse["nothing_ran"] = verdict.reason
    notebook.metadata.gpucourse["isolation"] = verdict.isolation
