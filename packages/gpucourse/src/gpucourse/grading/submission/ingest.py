"""Ingest: from a submitted file to a notebook that is safe to grade.

The notebook is rebuilt from the instructor's copy. Only the source of solution cells is taken from
the student, matched by ``grade_id``; everything else in the file (metadata, outputs, points, tests,
further cells) is looked at only to tell the student what was ignored. Whatever is wrong with the
file ends as a sentence for its author, never as an exception that stops a class.
"""

from __future__ import annotations

import copy
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import (
    SOLUTION,
    TEST,
    Assignment,
    AssignmentCell,
    role_of,
)
from gpucourse.grading.submission.inert import inert
from gpucourse.grading.submission.reading import (
    Unreadable,
    grade_id_of,
    parse_cells,
    read_bytes,
    source_of,
)
from gpucourse.grading.submission.versions import KEYS, Version, origin
from gpucourse.grading.verdict import digest

# Characters that make text read in another order than it runs (Unicode TR 36, "Trojan Source").
BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Lines that define names at the top level.
DEFINITION = re.compile(r"(?:async +)?(?:def|class) +(\w{1,100})\b")
IMPORT = re.compile(r"(?:from +[\w.]+ +)?import +(.+)")
ASSIGNMENT = re.compile(r"([A-Za-z_][\w, ()\[\]*]*)(?::[^=]*)?=(?!=)")
WORD = re.compile(r"\b\w{1,100}\b")
# So much of what is not graded is looked at for them, and so many are remembered.
STRAY_NAMES = 1000
_MISSING = (
    "The answer cell '{name}' is missing (deleted, or copied without its identity). It was "
    "graded as released. Write into the original cell of a fresh copy."
)


def names_defined(source: str) -> set[str]:
    """Names that running `source` would define at the top level, as its lines look.

    Read line by line, without Python's parser: that takes a kilobyte for each two characters, and
    this is the grader's own process.
    """
    names: set[str] = set()
    for line in source.splitlines():
        if (found := DEFINITION.match(line)) is not None:
            names.add(found[1])
        elif (found := IMPORT.match(line)) is not None:
            for part in found[1].strip("( )").split(","):
                name = part.split(" as ")[-1].split(".")[0].strip()
                names |= {name} if name.isidentifier() else set()
        elif (found := ASSIGNMENT.match(line)) is not None:
            names |= {name for name in WORD.findall(found[1]) if name.isidentifier()}
    return names


@dataclass
class Ingested:
    """Answers taken from one submission."""

    # Solution source by grade_id; the released starter where the student's cell is missing.
    sources: dict[str, str]
    # What was odd, one sentence each, for the student.
    notices: list[str] = field(default_factory=list)
    # Why nothing can be graded, or None.
    fault: str | None = None
    # Names that the student defined outside solution cells, and where ("cell 7").
    strays: dict[str, str] = field(default_factory=dict)
    # Of the file as submitted.
    raw_digest: str = ""
    # Answer cells that were not in the version which the student was given.
    lacks: list[str] = field(default_factory=list)
    # What the grader itself could not do with it, or None: no fault of the student's.
    failed: str | None = None

    def digest(self, assignment: Assignment) -> str:
        """Equal for submissions that must get the same verdict under the same seed."""
        parts = [self.failed or self.fault or "", json.dumps(self.strays, sort_keys=True)]
        for cell in assignment.solutions:
            parts += [cell.grade_id, self.sources[cell.grade_id]]
        return digest(*parts)

    def unchanged(self, assignment: Assignment) -> list[str]:
        """grade_ids of code cells that are still as they were released."""
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
    """Read one submitted notebook. Never raises for anything that a student can do to a file.

    `versions` are others that were handed out: what is as in one of them was not edited.
    """
    limits = limits or Limits()
    data = b""
    try:
        data = read_bytes(path, limits.upload_bytes)
        cells = parse_cells(data, limits.notebook_bytes)
    except Unreadable as unreadable:
        return Ingested(dict(assignment.starters), fault=str(unreadable), raw_digest=digest(data))
    ingested = ingest_cells(cells, assignment, limits, versions)
    ingested.raw_digest = digest(data)
    return ingested


def ingest_cells(
    cells: list[dict], assignment: Assignment, limits: Limits, versions: Sequence[Version] = ()
) -> Ingested:
    """Take the solution cells out of `cells` and say in words what else was found."""
    notices: list[str] = []
    found: dict[str, list[dict]] = defaultdict(list)
    for cell in cells:
        if grade_id := grade_id_of(cell):
            found[grade_id].append(cell)

    sources: dict[str, str] = {}
    handed_out = [Version.of(assignment.released), *versions]
    began = origin(found, handed_out)
    lacks = [cell.grade_id for cell in assignment.solutions if cell.grade_id not in began.cells]
    for wanted in assignment.solutions:
        sources[wanted.grade_id] = _take(
            wanted, found, assignment, limits, notices, handed_out, lacks
        )
    own = {name for version in handed_out for name in version.cells}
    strays = _strays(cells, own, limits)
    for wanted in assignment.solutions:
        name, starter = wanted.grade_id, assignment.starters[wanted.grade_id]
        if wanted.cell_type == "code" and sources[name].strip() == starter.strip():
            sources[name] = _beside(name, starter, strays, cells, notices)
    notices += _changed_tests(found, assignment, handed_out, began)
    ingested = Ingested(
        sources,
        notices,
        lacks=[name for name in lacks if name not in found],
        strays={name: f"cell {min(places)}" for name, places in strays.items()},
    )
    if not found:
        ingested.fault = (
            f"None of the cells of {assignment.name!r} are in this notebook. Is it the right "
            "file? Start from the released notebook and write into its answer cells."
        )
    elif assignment.having(SOLUTION) and not any(s.grade_id in found for s in assignment.solutions):
        ingested.fault = (
            "All answer cells were deleted. Copy your answers into a fresh copy of the notebook."
        )
    return ingested


def _take(
    wanted: AssignmentCell,
    found: dict[str, list[dict]],
    assignment: Assignment,
    limits: Limits,
    notices: list[str],
    handed_out: Sequence[Version],
    lacks: list[str],
) -> str:
    """Return the student's source for one solution cell.

    It is the starter where there is none to take, also where the source is another version's
    starter.
    """
    name = wanted.grade_id
    starter = assignment.starters[name]
    copies = found.get(name, [])
    starters = {
        "",
        starter.strip(),
        *(version.cells[name].source.strip() for version in handed_out if name in version.cells),
    }
    if not copies and name in lacks:
        return starter
    if not copies:
        notices.append(_MISSING.format(name=name))
        return starter
    # A copy without an answer in it, pasted by mistake, does not take the answer's place.
    written = [cell for cell in copies if (source_of(cell) or "").strip() not in starters]
    cell = (written or copies)[-1]
    if len(copies) > 1:
        which = "last one" if cell is copies[-1] else "last one with an answer in it"
        notices.append(
            f"The answer cell '{name}' occurs {len(copies)} times; the {which} was graded. "
            "Delete the others."
        )
    if cell.get("cell_type") != wanted.cell_type:
        notices.append(
            f"The cell '{name}' was changed to another type; it was graded as "
            f"{'code' if wanted.cell_type == 'code' else 'text'}, as released."
        )
    source = source_of(cell)
    if source is None:
        notices.append(f"The cell '{name}' holds no text; it was graded as released.")
        return starter
    if len(source.encode()) > limits.cell_bytes:
        notices.append(
            f"The cell '{name}' is larger than {limits.cell_bytes // 1000} kB; it was graded as "
            "released."
        )
        return starter
    if source.strip() in starters - {""}:
        return starter
    return _readable(name, source, notices)


def _beside(
    name: str, starter: str, strays: dict[str, set[int]], cells: list[dict], notices: list[str]
) -> str:
    """Return the only cell without identity that defines what an untouched answer should.

    The starter, with a notice, where several cells define some of it.
    """
    wanted = [
        found[1] for line in starter.splitlines() if (found := DEFINITION.match(line)) is not None
    ]
    places = set().union(*(strays.get(one, ()) for one in wanted))
    if not places:
        return starter
    if len(places) == 1 and all(one in strays for one in wanted):
        (number,) = places
        missing = _MISSING.format(name=name)
        state = "missing" if missing in notices else "as it was released"
        notices[:] = [notice for notice in notices if notice != missing]
        source = source_of(cells[number - 1]) or ""
        notices.append(
            f"The answer cell '{name}' is {state}. Its answer was found in cell {number}, a cell "
            "of your own, and graded. Write into the answer cell itself."
        )
        return _readable(name, source, notices)
    where = ", ".join(map(str, sorted(places)[:5]))
    notices.append(
        f"What the answer cell '{name}' is to define stands in cells of your own (cell {where}), "
        "which are not graded, because which of them is the answer is not clear. Move it into the "
        "answer cell."
    )
    return starter


def _readable(name: str, source: str, notices: list[str]) -> str:
    """`source`; with a notice where it may read differently from how it runs."""
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


def _strays(cells: list[dict], own: set[str], limits: Limits) -> dict[str, set[int]]:
    """Return names defined in ungraded cells, and the numbers of these cells, from 1.

    `own` are the assignment's cells, by grade_id.
    """
    strays: dict[str, set[int]] = {}
    left = limits.cell_bytes
    for number, cell in enumerate(cells, start=1):
        if cell.get("cell_type") != "code" or grade_id_of(cell) in own:
            continue
        source = source_of(cell) or ""
        left -= len(source)
        if left < 0:
            break
        for name in sorted(names_defined(source)):
            if name in strays or len(strays) < STRAY_NAMES:
                strays.setdefault(name, set()).add(number)
    return strays


def rebuild(assignment: Assignment, ingested: Ingested) -> NotebookNode:
    """Return the notebook to grade: the released one with the student's solution cells.

    A written answer stands in it as inert text (:mod:`.inert`): nbgrader keeps this notebook as
    graded and shows it in formgrader. ``metadata.gpucourse`` carries what :func:`read_back`
    needs.
    """
    notebook = copy.deepcopy(assignment.released)
    written: dict[str, str] = {}
    for cell in notebook.cells:
        if role_of(cell) == SOLUTION:
            name = cell.metadata.nbgrader.grade_id
            source = ingested.sources[name]
            if cell.cell_type != "code" and source != assignment.starters[name]:
                written[name] = source
                source = inert(source)
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
    """Read back what :func:`rebuild` wrote; ValueError if the notebook was not rebuilt."""
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
