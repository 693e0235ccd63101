"""The instructor's notebook, with the role of each cell: set-up, answer or test.

The role follows from nbgrader's own metadata, so an assignment also works with stock nbgrader:

=========  =====================================================  =============================
role       nbgrader metadata                                      runs in
=========  =====================================================  =============================
setup      code, locked, neither graded nor a solution            the worker and the oracle
solution   solution                                               the worker, student's text
test       code, graded, not a solution                           the oracle
other      anything else (prose, plots, cells without metadata)   nowhere while grading
=========  =====================================================  =============================
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from gpucourse.course.regions import released_source
from gpucourse.grading.verdict import digest

SETUP, SOLUTION, TEST, OTHER = "setup", "solution", "test", "other"


def role_of(cell: NotebookNode) -> str:
    """Return the role of one cell of the instructor's notebook (table above)."""
    metadata = cell.get("metadata", {}).get("nbgrader") or {}
    if metadata.get("solution"):
        return SOLUTION
    if cell.cell_type != "code":
        return OTHER
    if metadata.get("grade"):
        return TEST
    return SETUP if metadata.get("locked") else OTHER


def without_markers(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook that students receive: stubs, no hidden tests, no outputs.

    The result is the same as with nbgrader's ClearSolutions, ClearHiddenTests and ClearOutput (a
    test compares them), but does not need the import of nbgrader, which takes 2 s. Raises
    MarkerError for a region that is not closed.
    """
    released = copy.deepcopy(notebook)
    for cell in released.cells:
        code = cell.cell_type == "code"
        cell.source = released_source(cell.source, code=code, solution=role_of(cell) == SOLUTION)
        if code:
            cell.outputs, cell.execution_count = [], None
    return released


@dataclass(frozen=True)
class AssignmentCell:
    """One cell of the instructor's notebook. `grade_id` is empty for cells without one."""

    role: str
    grade_id: str
    cell_type: str
    source: str
    points: float


class Assignment:
    """The instructor's notebook with solutions and hidden tests."""

    def __init__(self, name: str, notebook: NotebookNode) -> None:
        self.name = name
        self.notebook = notebook
        self.cells = [self._read(cell) for cell in notebook.cells]
        seen: set[str] = set()
        for cell in self.cells:
            if cell.grade_id in seen:
                raise ValueError(f"{name}: two cells are called {cell.grade_id!r}")
            if cell.grade_id:
                seen.add(cell.grade_id)

    @classmethod
    def load(cls, path: Path) -> Assignment:
        """Read ``grading/source/NAME/NAME.ipynb``; the assignment is named after the file.

        A file with the same content is not parsed again, so do not modify the returned object.
        """
        return _parsed(path.stem, path.read_text(encoding="utf-8"))

    @staticmethod
    def _read(cell: NotebookNode) -> AssignmentCell:
        metadata = cell.get("metadata", {}).get("nbgrader") or {}
        return AssignmentCell(
            role=role_of(cell),
            grade_id=metadata.get("grade_id", ""),
            cell_type=cell.cell_type,
            source=cell.source,
            points=float(metadata.get("points") or 0.0),
        )

    def having(self, role: str) -> list[AssignmentCell]:
        return [cell for cell in self.cells if cell.role == role]

    @property
    def tests(self) -> list[AssignmentCell]:
        return self.having(TEST)

    @property
    def solutions(self) -> list[AssignmentCell]:
        return self.having(SOLUTION)

    @cached_property
    def released(self) -> NotebookNode:
        """The notebook as students received it. Copy it before you change it."""
        return without_markers(self.notebook)

    @cached_property
    def starters(self) -> dict[str, str]:
        """Released source of each answer cell."""
        return {
            cell.metadata.nbgrader.grade_id: cell.source
            for cell in self.released.cells
            if role_of(cell) == SOLUTION
        }

    @cached_property
    def digest(self) -> str:
        """Digest of everything that can change a grade: tests, set-up, points and order."""
        parts = [self.name]
        for cell in self.cells:
            if cell.role in (SETUP, TEST):
                parts += [cell.role, cell.grade_id, str(cell.points), cell.source]
            elif cell.role == SOLUTION:
                parts += [cell.role, cell.grade_id]
        return digest(*parts)


@lru_cache(maxsize=16)
def _parsed(name: str, text: str) -> Assignment:
    return Assignment(name, nbformat.reads(text, as_version=4))
