"""Search for the notebook in a submission by its file name and then by its cells.

Browsers, learning platforms and students rename files. If exactly one file contains this
assignment's cells, it is the submission, whatever its name is. If there are two, the student has
to choose.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.answers import answers_in
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.reading import Unreadable, read_cells
from gpucourse.grading.verdict import as_text, digest

# Number of notebooks in a submission that are searched.
MOST_FILES = 20


@dataclass(frozen=True)
class Found:
    """The file to grade, or the reason why there is none, with a notice for its author."""

    path: Path | None
    remark: str = ""
    fault: str = ""


def belongs(cells: Sequence[dict], assignment: Assignment) -> bool:
    """Return True if more than half of the assignment's answer cells are among `cells`."""
    wanted = len(assignment.solutions)
    return bool(wanted) and len(answers_in(cells, assignment)) > wanted / 2


def find(folder: Path, assignment: Assignment, names: Collection[str], limits: Limits) -> Found:
    """Return the notebook of `assignment` in a submission's folder.

    `names` are all notebooks of the assignment. A file with the name of another notebook is never
    taken for this one.
    """
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        return Found(
            None, fault="The submission is a link instead of a folder with the notebook in it."
        )
    wanted = f"{assignment.name}.ipynb"
    others = [path for path in sorted(folder.iterdir()) if path.name not in names]
    notebooks = [path for path in others if path.suffix.lower() == ".ipynb"][:MOST_FILES]
    if os.path.lexists(folder / wanted):
        alike = [path for path in notebooks if _answers(path, assignment, limits) is not None]
        remark = (
            (
                f"Of the notebooks of this assignment, '{wanted}' was graded; {_listed(alike)} "
                "was ignored."
            )
            if alike
            else ""
        )
        return Found(folder / wanted, remark)
    read = {path: _answers(path, assignment, limits) for path in notebooks}
    fitting = [path for path in notebooks if read[path] is not None]
    if fitting and len({read[path] for path in fitting}) == 1:
        return Found(
            fitting[0],
            f"The file is called {_listed(fitting[:1])} here, but was released as '{wanted}'. It "
            "was graded anyway.",
        )
    if fitting:
        return Found(
            None,
            fault=(
                "There are several notebooks of this assignment, and they differ: "
                f"{_listed(fitting)}. Submit the one that counts, under the name '{wanted}'."
            ),
        )
    return Found(None, fault=_nothing(wanted, notebooks, others, limits))


def _nothing(wanted: str, notebooks: list[Path], others: list[Path], limits: Limits) -> str:
    """Return the reason why there is no notebook to grade, as a sentence for the student."""
    there = [path for path in others if not path.name.startswith(".") and path.suffix != ".txt"]
    said = f"There is no file '{wanted}' in the submission."
    if not there:
        return f"{said} There is no notebook at all: submit it again, and check that it arrives."
    if not notebooks:
        return f"{said} There is {_listed(there)}: submit the notebook itself, unchanged."
    try:
        read_cells(notebooks[0], limits)
    except Unreadable as unreadable:
        return f"{said} There is {_listed(notebooks)}. {unreadable}"
    return (
        f"{said} There is {_listed(notebooks)}, without the cells of this assignment. Is it the "
        "right file? Start from the released notebook, and write your answers into its answer "
        "cells."
    )


def _answers(path: Path, assignment: Assignment, limits: Limits) -> str | None:
    """Return a digest of the assignment's answers in a notebook; None for another notebook."""
    try:
        cells = read_cells(path, limits)
    except Unreadable:
        return None
    if not belongs(cells, assignment):
        return None
    return digest(*(f"{name}\n{text}" for name, text in answers_in(cells, assignment).items()))


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(f"'{as_text(path.name)[:80]}'" for path in paths)
