"""Conversion of a submitted file to a notebook that is safe to grade.

The notebook is rebuilt from the instructor's copy. Only the source of solution cells is taken from
the student, matched by ``grade_id``; everything else in the file (metadata, outputs, points,
tests, further cells) is read only to report to the student what was ignored. Any fault of the file
becomes a sentence for its author and never an exception that stops a class.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.answers import FORGOTTEN, MISSING, Submitted
from gpucourse.grading.submission.assignment import (
    SOLUTION,
    TEST,
    Assignment,
    role_of,
)
from gpucourse.grading.submission.inert import inert
from gpucourse.grading.submission.pictures import MOST_PICTURES, attached, made_anew, shown
from gpucourse.grading.submission.reading import (
    Unreadable,
    grade_id_of,
    is_utf16,
    read_notebook,
    source_of,
)
from gpucourse.grading.submission.versions import KEYS, Version, origin
from gpucourse.grading.verdict import digest

# Characters that display text in a different order than it runs (Unicode TR 36, "Trojan Source").
BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Limit on the remembered names of cells that are not graded.
STRAY_NAMES = 1000


@dataclass
class Ingested:
    """Answers taken from one submission."""

    # Source of answer cells by grade_id; the released starter if the student's cell is missing.
    sources: dict[str, str]
    # Notices for the student, one sentence each.
    notices: list[str] = field(default_factory=list)
    # Reason why nothing can be graded, or None.
    fault: str | None = None
    # Names that the student defined outside answer cells, with the cell, such as "cell 7".
    strays: dict[str, str] = field(default_factory=dict)
    # Digest of the submitted file.
    raw_digest: str = ""
    # Answer cells that were missing from the version that the student received.
    lacks: list[str] = field(default_factory=list)
    # Pictures of written answers by grade_id, decoded and encoded again, in base64.
    pictures: dict[str, list[str]] = field(default_factory=dict, compare=False)
    # True if the file contains a notebook.
    read: bool = field(default=True, compare=False)
    # A failure of the grader itself, which is not the student's fault, or None.
    failed: str | None = None

    def digest(self, assignment: Assignment) -> str:
        """Return a digest that is equal for submissions that must get the same verdict."""
        parts = [self.failed or self.fault or "", json.dumps(self.strays, sort_keys=True)]
        for cell in assignment.solutions:
            parts += [cell.grade_id, self.sources[cell.grade_id]]
        return digest(*parts)

    def unchanged(self, assignment: Assignment) -> list[str]:
        """Return the grade_ids of code cells that are unchanged since their release."""
        return [
            cell.grade_id
            for cell in assignment.solutions
            if cell.cell_type == "code"
            and self.sources[cell.grade_id].strip() == assignment.starters[cell.grade_id].strip()
        ]


def ingest_file(
    path: Path,
    assignment: Assignment,
    limits: Limits | None = None,
    versions: Sequence[Version] = (),
) -> Ingested:
    """Read one submitted notebook; never raise for any content that a student can produce.

    `versions` are other versions that were handed out; a cell that equals one of them counts as
    unedited.
    """
    limits = limits or Limits()
    try:
        cells, data = read_notebook(path, limits)
    except Unreadable as unreadable:
        return Ingested(
            dict(assignment.starters),
            fault=str(unreadable),
            raw_digest=digest(unreadable.data),
            read=False,
        )
    ingested = ingest_cells(cells, assignment, limits, versions)
    ingested.raw_digest = digest(data)
    if is_utf16(data):
        ingested.notices.append(
            "The file is UTF-16 text, as '>' in PowerShell writes it. It was graded anyway. "
            "Notebooks are UTF-8: use the file that JupyterLab saves."
        )
    return ingested


def ingest_cells(
    cells: list[dict], assignment: Assignment, limits: Limits, versions: Sequence[Version] = ()
) -> Ingested:
    """Extract the answers from `cells`, with remarks about the rest."""
    notices: list[str] = []
    handed_out = [Version.of(assignment.released), *versions]
    submitted = Submitted(cells, assignment, handed_out, limits.cell_bytes)
    found = {
        name: [cells[cell.number - 1] for cell in copies]
        for name, copies in submitted.named.items()
    }
    began = origin(found, handed_out)
    lacks = [cell.grade_id for cell in assignment.solutions if cell.grade_id not in began.cells]
    sources = dict(assignment.starters)
    taken: set[int] = set()
    answered = 0
    pictures: dict[str, list[str]] = {}
    for wanted in assignment.solutions:
        name = wanted.grade_id
        answer = submitted.answer(wanted)
        notices += answer.notices
        answered += answer.present or answer.source is not None
        taken |= {*answer.cells}
        if answer.source is None:
            if not answer.present and name not in lacks:
                notices.append(MISSING.format(name=name))
        elif len(answer.source.encode()) > limits.cell_bytes:
            notices.append(
                f"The answer '{name}' is larger than {limits.cell_bytes // 1000} kB; it was graded "
                "as released."
            )
        else:
            sources[name] = _readable(name, answer.source, notices)
        if wanted.cell_type != "code":
            there = [data for n in answer.cells for data in attached(cells[n - 1])]
            pictures[name] = _pictures(name, there, answer.source or "", notices)
    if submitted.forgotten and answered:
        all_of_them = len(assignment.solutions)
        notices.insert(0, FORGOTTEN.format(found=answered, all=all_of_them))
    if not submitted.forgotten:
        notices += _changed_tests(found, assignment, handed_out, began)
    strays = _strays(submitted, taken)
    ingested = Ingested(
        sources,
        notices,
        lacks=[name for name in lacks if name not in found],
        pictures=pictures,
        strays={name: f"cell {number}" for name, number in strays.items()},
    )
    if not found and not answered:
        ingested.fault = (
            f"None of the cells of {assignment.name!r} are in this notebook. Is it the right "
            "file? Start from the released notebook and write your answers into its answer cells."
        )
    elif assignment.having(SOLUTION) and not answered:
        ingested.fault = (
            "All answer cells were deleted, and no other cell holds an answer. Copy your answers "
            "into a fresh copy of the notebook."
        )
    return ingested


def _pictures(name: str, there: list[str], source: str, notices: list[str]) -> list[str]:
    """Return the pictures of a written answer as they are shown, and add notices for its author."""
    made = [made_anew(data) for data in there[:MOST_PICTURES]]
    kept = [one for one in made if one is not None]
    lost = max(len(there), source.count("](attachment:")) - len(kept)
    if kept:
        notices.append(
            f"The answer '{name}' has a picture in it ({len(kept)}), which is shown below the text "
            "to the person who reads it."
        )
    if lost > 0:
        notices.append(
            f"The answer '{name}' has a picture in it ({lost}) that the reader cannot see. It is "
            "not in the file, is too large, or is not a PNG, JPEG, GIF, WebP or BMP. Describe in "
            "words what it shows."
        )
    return kept


def _readable(name: str, source: str, notices: list[str]) -> str:
    """Return `source`, with a notice if its displayed order may differ from the code that runs."""
    if BIDIRECTIONAL & set(source):
        notices.append(
            f"The cell '{name}' holds characters that change the reading direction, so it may "
            "read differently from how it runs."
        )
    return source


def _changed_tests(
    found: dict[str, list[dict]],
    assignment: Assignment,
    handed_out: Sequence[Version],
    began: Version,
) -> list[str]:
    released = {
        cell.metadata.nbgrader.grade_id: cell
        for cell in assignment.released.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id")
    }
    notices = []
    for name, original in released.items():
        role = role_of(original)
        copies = found.get(name, [])
        originals = [version.cells[name] for version in handed_out if name in version.cells]
        if role != SOLUTION:
            what = "test" if role == TEST else "read-only"
            texts = {cell.source for cell in originals}
            if not copies and name not in began.cells:
                continue
            if not copies:
                notices.append(f"The {what} cell '{name}' was deleted; the original was used.")
            elif any(source_of(cell) not in texts for cell in copies):
                notices.append(
                    f"The {what} cell '{name}' differs from the instructor's, which was used."
                )
            elif len(copies) > 1:
                notices.append(f"The {what} cell '{name}' was duplicated; it counts once.")
        for cell in copies:
            if grade_id_of(cell) != name:
                continue
            given = cell["metadata"]["nbgrader"]
            if all(
                any(given.get(key) != one.metadata.nbgrader.get(key) for key in KEYS)
                for one in originals
            ):
                notices.append(
                    f"The grading data of the cell '{name}' were edited; the instructor's apply."
                )
                break
    return notices


def _strays(submitted: Submitted, taken: set[int]) -> dict[str, int]:
    """Return the names defined in ungraded cells, each with the number of its first cell."""
    strays: dict[str, int] = {}
    for cell in submitted.cells:
        if cell.name or cell.number in taken:
            continue
        for name in sorted(cell.defined):
            if len(strays) < STRAY_NAMES:
                strays.setdefault(name, cell.number)
    return strays


def rebuild(assignment: Assignment, ingested: Ingested) -> NotebookNode:
    """Return the notebook to grade: the released one with the student's answers.

    Written answers are inserted as harmless HTML (:mod:`.inert`), because nbgrader keeps this
    notebook and shows it in formgrader. ``metadata.gpucourse`` holds the data that
    :func:`read_back` needs.
    """
    notebook = copy.deepcopy(assignment.released)
    written: dict[str, str] = {}
    for cell in notebook.cells:
        if role_of(cell) == SOLUTION:
            name = cell.metadata.nbgrader.grade_id
            source = ingested.sources[name]
            if cell.cell_type != "code" and source != assignment.starters[name]:
                written[name] = source
                source = inert(source, shown(ingested.pictures.get(name, ())))
            cell.source = source
    notebook.metadata["gpucourse"] = {
        "rebuilt": True,
        "notices": ingested.notices,
        "fault": ingested.fault,
        "strays": ingested.strays,
        "lacks": ingested.lacks,
        "raw_digest": ingested.raw_digest,
        "written": written,
    }
    remarks = ([ingested.fault] if ingested.fault else []) + ingested.notices
    if remarks:
        text = "\n".join(
            ["**What the grader found in this notebook**", ""]
            + [f"- {remark}" for remark in remarks]
        )
        cell = new_markdown_cell(inert(text), metadata={"gpucourse": {"role": "notice"}})
        cell["id"] = "gpucourse-notice"
        notebook.cells.insert(0, cell)
    return notebook


def read_back(notebook: NotebookNode, assignment: Assignment) -> Ingested:
    """Read the output of :func:`rebuild`; raise ValueError if the notebook was not rebuilt."""
    record = notebook.metadata.get("gpucourse") or {}
    if not record.get("rebuilt"):
        raise ValueError("this notebook has not been through ingest")
    sources = dict(assignment.starters)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in sources:
            sources[name] = record.get("written", {}).get(name, cell.source)
    return Ingested(
        sources,
        list(record.get("notices", [])),
        record.get("fault"),
        dict(record.get("strays", {})),
        record.get("raw_digest", ""),
        list(record.get("lacks", [])),
    )
