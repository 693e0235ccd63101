"""A small assignment for the tests of the grader: host functions, and kernels where asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import ingest_cells

SETUP = """%load_ext gpucourse
import numpy as np
from gpucourse import call, expect, expect_equal, secret_rng
"""

DOUBLE = """def double(values):
    ### BEGIN SOLUTION
    return 2 * values
    ### END SOLUTION
"""

TEST_DOUBLE = """expect_equal(call("double", np.arange(3.0), where="host"), [0.0, 2.0, 4.0],
             "wrong for three numbers")
### BEGIN HIDDEN TESTS
for n in (0, 1, 33):
    hidden_values = secret_rng(f"{n}").uniform(-1, 1, n)
    expect_equal(call("double", hidden_values, where="host"), 2 * hidden_values,
                 "wrong for an empty array" if n == 0 else "wrong for negative numbers")
### END HIDDEN TESTS
"""

TOTAL = """def total(values):
    ### BEGIN SOLUTION
    return float(values.sum())
    ### END SOLUTION
"""

TEST_TOTAL = """expect(call("total", np.ones(4), where="host") == 4.0, "the sum of ones is wrong")
"""


def nbgrader(grade_id: str, *, solution=False, grade=False, points=None) -> dict:
    metadata = {
        "schema_version": 3,
        "grade_id": grade_id,
        "solution": solution,
        "grade": grade,
        "locked": not solution,
        "task": False,
    }
    if points is not None:
        metadata["points"] = points
    return {"nbgrader": metadata}


def setup(grade_id: str, source: str):
    return new_code_cell(source, id=grade_id, metadata=nbgrader(grade_id))


def solution(grade_id: str, source: str):
    return new_code_cell(source, id=grade_id, metadata=nbgrader(grade_id, solution=True))


def test_cell(grade_id: str, source: str, points: float):
    return new_code_cell(
        source, id=grade_id, metadata=nbgrader(grade_id, grade=True, points=points)
    )


test_cell.__test__ = False


def notebook_of(cells) -> nbformat.NotebookNode:
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=list(cells), metadata={"kernelspec": kernelspec})


def toy_notebook() -> nbformat.NotebookNode:
    """Two host functions, two test cells of 3 and 2 points."""
    return notebook_of(
        [
            new_markdown_cell("# A toy", id="title"),
            setup("setup", SETUP),
            solution("double", DOUBLE),
            test_cell("test-double", TEST_DOUBLE, 3),
            solution("total", TOTAL),
            test_cell("test-total", TEST_TOTAL, 2),
        ]
    )


def toy_course(root: Path, repository: Path) -> Path:
    """A course directory whose assignment ``ps1`` is the toy and a text; the notebook's path."""
    source = root / "source" / "ps1" / "toy.ipynb"
    source.parent.mkdir(parents=True)
    notebook = toy_notebook()
    notebook.cells.append(
        new_markdown_cell(
            "YOUR ANSWER", id="why", metadata=nbgrader("why", solution=True, grade=True, points=1)
        )
    )
    nbformat.write(notebook, source)
    shutil.copy(repository / "grading" / "nbgrader_config.py", root)
    return source


def toy() -> Assignment:
    return Assignment("toy", toy_notebook())


def answers(assignment: Assignment) -> dict[str, str]:
    """The reference solution of each solution cell."""
    return {cell.grade_id: cell.source for cell in assignment.solutions}


def submission(assignment: Assignment, **changed: str) -> list[dict]:
    """The released cells as JSON with the reference solution, some cells replaced.

    A key names a cell with underscores for hyphens.
    """
    replaced = answers(assignment) | {
        name.replace("_", "-"): source for name, source in changed.items()
    }
    cells = json.loads(json.dumps(assignment.released.cells))
    for cell in cells:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = replaced.get(name, cell["source"])
    return cells


def submitted(assignment: Assignment, **changed: str):
    """The same after ingest."""
    return ingest_cells(submission(assignment, **changed), assignment, Limits())


def write_submission(path: Path, cells: list[dict]) -> Path:
    document = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
