"""Changes of a project during a term, transferred to the gradebook.

``nbgrader generate_assignment`` writes cells and points into the gradebook once, and refuses to
add or remove a cell when there are submissions. Without this module, work that is graded with the
new tests would be shown with the old points. Points and comments that a person has given are never
removed.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import BaseCell, Comment, Grade, Gradebook, Notebook
from nbgrader.preprocessors import ClearOutput, ClearSolutions, ComputeChecksums, LockCells
from nbgrader.utils import is_grade, is_locked, is_solution
from traitlets.config import Config

from gpucourse.grading.submission.assignment import SOLUTION, Assignment, role_of
from gpucourse.grading.submission.versions import Version

URL = "sqlite:///"


class CannotFollow(RuntimeError):
    """Error for a change that would remove a person's points; the message says what to do."""


@dataclass(frozen=True)
class Cells:
    """The cells of a notebook, by grade_id, as the gradebook stores them."""

    graded: dict[str, dict[str, Any]]
    answers: dict[str, dict[str, Any]]
    sources: dict[str, dict[str, Any]]


def wanted(source: Assignment, config: Config) -> Cells:
    """Return the notebook as ``generate_assignment`` would write it, with hidden tests."""
    notebook = copy.deepcopy(source.notebook)
    for step in (LockCells, ClearSolutions, ClearOutput, ComputeChecksums):
        notebook, _ = step(config=config).preprocess(notebook, {})
    cells = Cells({}, {}, {})
    for cell in notebook.cells:
        if not (is_grade(cell) or is_solution(cell) or is_locked(cell)):
            continue
        name = cell.metadata.nbgrader["grade_id"]
        if is_grade(cell):
            cells.graded[name] = {
                "max_score": float(cell.metadata.nbgrader["points"]),
                "cell_type": cell.cell_type,
            }
        if is_solution(cell):
            cells.answers[name] = {}
        cells.sources[name] = {
            "cell_type": cell.cell_type,
            "locked": is_locked(cell),
            "source": cell.source,
            "checksum": cell.metadata.nbgrader.get("checksum"),
        }
    return cells


def recorded(notebook: Notebook) -> Cells:
    """Return the assignment as the gradebook stores it."""
    return Cells(
        {
            cell.name: {"max_score": cell.max_score, "cell_type": cell.cell_type}
            for cell in notebook.grade_cells
        },
        {cell.name: {} for cell in notebook.solution_cells},
        {
            cell.name: {
                "cell_type": cell.cell_type,
                "locked": cell.locked,
                "source": cell.source,
                "checksum": cell.checksum,
            }
            for cell in notebook.source_cells
        },
    )


def differences(old: Cells, new: Cells) -> Iterator[str]:
    """Yield the changes as sentences for the teacher, since a checksum does not describe them."""
    for name in old.sources.keys() | new.sources.keys():
        graded = name in (old.graded if name in old.sources else new.graded)
        if name not in new.sources:
            yield f"'{name}' was removed"
        elif name not in old.sources:
            points = f", {new.graded[name]['max_score']:g} points" if name in new.graded else ""
            yield f"'{name}' is new{points}"
        else:
            before, after = (cells.graded.get(name, {}).get("max_score", 0) for cells in (old, new))
            if before != after:
                yield f"'{name}' gives {after:g} points instead of {before:g}"
            if old.sources[name]["source"] != new.sources[name]["source"]:
                locked = new.sources[name]["locked"]
                kind = "test" if graded and locked else "text" if locked else "starter"
                yield f"the {kind} of '{name}' has changed"


def follow(book: Gradebook, assignment: str, source: Assignment, config: Config) -> list[str]:
    """Update the gradebook to an assignment's notebook; return descriptions of the changes.

    Each submission gets a row for each new cell and loses the rows of deleted cells. Raises
    CannotFollow, with nothing written, if a deleted row has points or a comment from a person. The
    caller commits.
    """
    notebook = book.find_notebook(source.name, assignment)
    old, new = recorded(notebook), wanted(source, config)
    if old == new:
        return []
    told = sorted(differences(old, new))
    gone = [
        cell
        for cells, kept in (
            (notebook.grade_cells, new.graded),
            (notebook.solution_cells, new.answers),
        )
        for cell in cells
        if cell.name not in kept
    ]
    if given := sorted({f"'{cell.name}'" for cell in gone if _given(cell)}):
        raise CannotFollow(
            f"{source.name}: {', '.join(given)} was removed from the source, but a person has "
            "given points or comments for it. Put the cell back (it may give 0 points), or "
            "delete these points and comments in formgrader; then run the command again."
        )
    for cell in gone:
        for row in [*cell.grades, *cell.comments]:
            book.db.delete(row)
        book.db.delete(cell)
    for cell in [cell for cell in notebook.source_cells if cell.name not in new.sources]:
        book.db.delete(cell)
    book.db.flush()
    where = source.name, assignment
    for name, values in new.graded.items():
        made = book.update_or_create_grade_cell(name, *where, **values)
        if name not in old.graded:
            _for_each(book, notebook, Grade, made)
    for name in new.answers:
        answer = book.update_or_create_solution_cell(name, *where)
        if name not in old.answers:
            _for_each(book, notebook, Comment, answer)
    for name, values in new.sources.items():
        book.update_or_create_source_cell(name, *where, **values)
    return told


def _for_each(
    book: Gradebook, notebook: Notebook, row: type[Grade] | type[Comment], cell: BaseCell
) -> None:
    """Add a row of a new cell for each existing submission."""
    for submission in notebook.submissions:
        book.db.add(row(cell_id=cell.id, notebook=submission))
    book.db.flush()


def _given(cell: BaseCell) -> bool:
    """Return True if a person gave points or a comment for the cell."""
    return any(
        grade.manual_score is not None or grade.extra_credit for grade in cell.grades
    ) or any(comment.manual_comment for comment in cell.comments)


def copied(url: str) -> str:
    """Copy the gradebook before it is changed.

    Returns the copy's name, or an empty string if the gradebook is not a file.
    """
    if not url.startswith(URL):
        return ""
    path = Path(url.removeprefix(URL))
    target = path.with_name(f"{path.name}.before-{datetime.now():%Y-%m-%d-%H%M%S}")
    shutil.copy2(path, target)
    return target.name


def advice(assignment: str, source: Assignment, released: Version | None) -> str:
    """Advise the teacher if a changed notebook must be released again.

    `released` is the latest version given to students, or None if nbgrader has generated nothing.
    """
    again = (
        f"nbgrader generate_assignment {assignment} --force && nbgrader release_assignment "
        f"{assignment} --force"
    )
    if released is None:
        return f"If students get the notebook from nbgrader, release it again: {again}"
    today = Version.of(source.released)
    new = [
        name
        for name, cell in today.cells.items()
        if name not in released.cells and role_of(cell) == SOLUTION
    ]
    if new:
        return (
            f"Students' copies do not have {_listed(new)}. Release the notebook again ({again}) "
            "and tell the students. Those who have begun keep their work, and the cells in it "
            "are graded."
        )
    seen = [
        name
        for name in today.cells.keys() | released.cells.keys()
        if _source(today, name) != _source(released, name)
    ]
    if seen:
        return (
            f"Students' copies have a different {_listed(sorted(seen))}, but work in them is "
            f"graded with the current tests. To release new copies: {again}"
        )
    return "Nothing that students see has changed: there is nothing to release again."


def _source(version: Version, name: str) -> str | None:
    return version.cells[name].source if name in version.cells else None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
