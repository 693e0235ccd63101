"""Derivation of notebooks from a source, always from full to empty.

Four notebooks come out of one source, and nothing goes back:

=====================================  ==========================================================
``lectures/ID.ipynb``                  exercises as starters, notes for the room left out
``projects/ID/ID.ipynb``               what ``nbgrader generate_assignment`` releases
``solutions/ID.ipynb``                 answers in, visible checks in, hidden tests out
``grading/source/ID/ID.ipynb``         everything, with nbgrader's metadata
=====================================  ==========================================================

A generated notebook has no outputs, stable cell ids and stable metadata, and is the same text byte
for byte however often it is generated.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from gpucourse.course.checkout import notebook_path
from gpucourse.course.regions import (
    SOLUTION,
    released_source,
    replace_regions,
    unwrap_regions,
)
from gpucourse.course.registry import Course, Lecture, Lesson, Project
from gpucourse.course.released import digest
from gpucourse.publish.source.links import anchored, one_folder_up
from gpucourse.publish.source.reader import ANSWERS, SET_UP, Cell, Source
from gpucourse.system.language import _

_CPP_STRING = re.compile(r"(\"{3}|'{3})(?:(?!\1).)*__(?:global|device)__.*?\1", re.DOTALL)

#: Jupyter's tag for a cell whose error does not stop Run All.
RAISES = "raises-exception"


def lecture_notebook(course: Course, source: Source) -> NotebookNode:
    """Return the learner's notebook: starters in place of the answers."""
    cells = [_starter_cell(source, cell) for cell in source.cells if "room" not in cell.tags]
    return _notebook(course, source.lesson, cells)


#: Where the notebooks with the answers lie, all in one folder.
_SOLUTIONS = Path("solutions")


def lecture_solution(course: Course, source: Source) -> NotebookNode:
    """Return the lecture with its answers, and the notes for the room."""
    cells = [
        _cell(source, cell, unwrap_regions(cell.source, SOLUTION), _tags(cell))
        for cell in source.cells
    ]
    return _notebook(course, source.lesson, cells, _SOLUTIONS)


def project_source(course: Course, source: Source) -> NotebookNode:
    """Return nbgrader's source notebook for instructors, with answers and hidden tests."""
    cells = []
    for cell in source.cells:
        metadata = _tags(cell)
        if cell.role is not None:
            metadata["nbgrader"] = _nbgrader_metadata(cell)
        if cell.role == "test":
            # Run All then shows every verdict instead of stopping at the first red one.
            metadata["tags"] = [*metadata.get("tags", ()), RAISES]
        cells.append(_cell(source, cell, cell.source, metadata))
    notebook = _notebook(course, source.lesson, cells)
    # nbgrader hands a notebook's metadata on, and its release is what learners start from.
    return mark(notebook, digest(_released(copy.deepcopy(notebook))))


def project_release(course: Course, source: Source) -> NotebookNode:
    """Return the students' notebook: ``nbgrader generate_assignment`` applied to the source.

    nbgrader takes seconds to import and writes a gradebook; its steps are few, so they are done
    here, and a test holds this equal to what nbgrader itself releases.
    """
    return _released(project_source(course, source))


def _released(notebook: NotebookNode) -> NotebookNode:
    """Apply nbgrader's steps, in place."""
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader")
        if nbgrader is None:
            continue
        cell.metadata["deletable"] = False  # nbgrader's LockCells
        if not nbgrader["solution"]:
            cell.metadata["editable"] = False
        cell.source = released_source(
            cell.source, code=cell.cell_type == "code", solution=nbgrader["solution"]
        )
        nbgrader["checksum"] = nbgrader_checksum(cell)
        nbgrader["cell_type"] = cell.cell_type
    return notebook


def project_solution(course: Course, source: Source) -> NotebookNode:
    """Return the release with all answers filled in, as a student would hand it in.

    Test cells do not carry the tag that lets errors pass: here no check may fail.
    """
    notebook = project_release(course, source)
    answers = {cell.name: cell for cell in source.cells if cell.role in ANSWERS}
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id in answers:
            cell.source = unwrap_regions(answers[grade_id].source, SOLUTION)
        elif cell.cell_type == "markdown":
            cell.source = one_folder_up(cell.source)
        elif grade_id is not None:
            cell.metadata["tags"] = [t for t in cell.metadata.get("tags", ()) if t != RAISES]
            if not cell.metadata["tags"]:
                del cell.metadata["tags"]
    notebook.cells[0].source = _title(course, source.lesson, _SOLUTIONS)
    if notebook.cells[-1].id == cell_id(source.lesson.id, STRIP):
        notebook.cells[-1].source = strip(course, source.lesson, _SOLUTIONS)
    return mark(notebook, digest(notebook))


def released(course: Course, source: Source) -> NotebookNode:
    """Return the notebook that a learner opens, of a lecture or project."""
    lecture = isinstance(source.lesson, Lecture)
    return (lecture_notebook if lecture else project_release)(course, source)


def solution(course: Course, source: Source) -> NotebookNode:
    """Return the lesson with its answers, lecture or project, without outputs."""
    lecture = isinstance(source.lesson, Lecture)
    return (lecture_solution if lecture else project_solution)(course, source)


def notebook_text(notebook: NotebookNode) -> str:
    """Return a notebook's text, byte for byte as Jupyter saves it.

    A learner's save then changes the lines that they changed and no others, and git can merge a
    newer release into their copy (nbgitpuller on a hub).
    """
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def cell_id(notebook_id: str, name: str) -> str:
    """Return a cell's id in a generated notebook.

    nbformat 4.5 allows at most 64 of letters, digits, - and _.

    It depends on the notebook and on the cell's own name alone, so a cell that is inserted
    shifts no other, and a copy of a cell in another notebook is another cell.
    """
    return hashlib.sha256(f"{notebook_id}/{name}".encode()).hexdigest()[:16]


def nbgrader_checksum(cell: NotebookNode) -> str:
    """Return the checksum of ``nbgrader.utils.compute_checksum``."""
    meta = cell.metadata["nbgrader"]
    locked = meta["grade"] or meta["locked"]
    parts = [cell.source, cell.cell_type, meta["grade"], meta["solution"]]
    parts += [not meta["solution"] and locked, meta["grade_id"]]
    if meta["grade"]:
        parts.append(float(meta["points"]))
    return hashlib.md5("".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()


def starter_source(source: str) -> str:
    """Replace every solution region by a starter that Python accepts.

    In a string of CUDA C++ the starter is a comment of C++.
    """
    # It runs, so that a lecture goes on with its starters in place.
    stub = f"# {_('your code here')}"
    starter = replace_regions(source, SOLUTION, [stub])
    if _is_python(starter):
        # In C++ a line with # is for the preprocessor.
        return _CPP_STRING.sub(lambda code: code[0].replace(stub, f"//{stub[1:]}"), starter)
    # The region was all there is in a block, and a comment alone is no block.
    return replace_regions(source, SOLUTION, [f"pass  {stub}"])


def _starter_cell(source: Source, cell: Cell) -> NotebookNode:
    unsolved = starter(cell)
    metadata = _tags(cell)
    if cell.role == "test":  # of a project, in the tutorial
        metadata["tags"] = [*metadata.get("tags", ()), RAISES]
    return _cell(source, cell, cell.source if unsolved is None else unsolved, metadata)


def starter(cell: Cell) -> str | None:
    """Return the text that a learner finds in place of an answer; None for any other cell."""
    if cell.role in ANSWERS:
        return released_source(cell.source, code=cell.kind == "code")
    return starter_source(cell.source) if "exercise" in cell.tags else None


def _tags(cell: Cell) -> dict:
    if SET_UP in cell.tags:
        return {"jupyter": {"source_hidden": True}}
    tags = [*cell.tags, RAISES] if cell.raises else [*cell.tags]
    metadata: dict = {"tags": tags} if tags else {}
    if cell.kind == "code" and cell.role is None and "exercise" not in tags and draws(cell.source):
        metadata["jupyter"] = {"source_hidden": True}
    return metadata


#: Names by which a lesson's code draws.
_DRAWING = {"Picture", "axes", "canvas", "figure", "plt", "show_figure"}
#: Lines of drawing from which on they are folded, and how many times the rest they are.
_LONG, _MOSTLY = 10, 3


def draws(source: str) -> bool:
    """Return True if a cell is ten lines of drawing or more, and little else.

    A reader of such a cell looks at its picture; JupyterLab shows the code at a click.
    """
    drawing = rest = 0
    try:
        statements = ast.parse(_without_magics(source)).body
    except SyntaxError:
        return False
    for statement in statements:
        names = {getattr(node, "id", getattr(node, "arg", None)) for node in ast.walk(statement)}
        lines = (statement.end_lineno or statement.lineno) - statement.lineno + 1
        if names & _DRAWING:
            drawing += lines
        else:
            rest += lines
    return drawing >= max(_LONG, _MOSTLY * rest)


def _nbgrader_metadata(cell: Cell) -> dict:
    """Return nbgrader's cell metadata, schema version 3."""
    metadata = {
        "schema_version": 3,
        "grade_id": cell.name,
        "grade": cell.role in ("test", "written"),
        "locked": cell.role not in ANSWERS,
        "solution": cell.role in ANSWERS,
        "task": False,
    }
    if metadata["grade"]:
        metadata["points"] = cell.points
    return metadata


def fold(summary: str, body: str) -> str:
    """Return Markdown that a reader opens with a click."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


def _cell(source: Source, cell: Cell, text: str, metadata: dict) -> NotebookNode:
    if "why" in cell.tags:
        # The visible text of a prediction's answer, below the cell that shows it.
        text = fold(_("What came out, and why"), text)
    id = cell_id(source.lesson.id, cell.name)
    return new_cell(cell.kind, text, id, metadata)


def new_cell(
    kind: str, text: str, id: str, metadata: Mapping = MappingProxyType({})
) -> NotebookNode:
    """Return a cell; :func:`notebook_text` validates the notebook as a whole.

    nbformat's own makers validate each cell by itself, which took half the time of a build.
    """
    rest: dict = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return nbformat.from_dict(
        {"cell_type": kind, "id": id, "metadata": dict(metadata), "source": text, **rest}
    )


def page(id: str, cells: list[tuple[str, str, str]]) -> NotebookNode:
    """Return a generated notebook without a lesson: (kind, name, text) of each cell."""
    return new_notebook_of(
        id, [new_cell(kind, text, cell_id(id, name)) for kind, name, text in cells]
    )


#: The name of the last cell, which says where the lesson is in the order.
STRIP = "where-next"


def _notebook(
    course: Course, lesson: Lesson, cells: list[NotebookNode], folder: Path | None = None
) -> NotebookNode:
    title = new_cell("markdown", _title(course, lesson, folder), cell_id(lesson.id, "title"))
    where = strip(course, lesson, folder)
    last = [new_cell("markdown", where, cell_id(lesson.id, STRIP))] if where else []
    cells = [title, *cells, *last]
    texts = [cell for cell in cells if cell.cell_type == "markdown"]
    for cell, text in zip(texts, anchored(cell.source for cell in texts), strict=True):
        cell.source = text
    return new_notebook_of(lesson.id, cells)


def strip(course: Course, lesson: Lesson, folder: Path | None = None) -> str:
    """Return the lesson's place in the course, with its neighbours; Markdown.

    Empty for a notebook that is not in the course's order.

    Its links lead from the notebook's own folder, or from ``folder``, where all notebooks lie.
    """
    if lesson not in course.lessons:
        return ""
    place = course.lessons.index(lesson)
    here = notebook_path(lesson).parent

    def link(other: Lesson) -> str:
        path = Path(f"{other.id}.ipynb") if folder else notebook_path(other)
        target = path.as_posix() if folder else os.path.relpath(path, here)
        linked = f"[{other.title}]({target})"
        return linked if isinstance(other, Lecture) else _("project {title}").format(title=linked)

    parts = [f"← {link(course.lessons[place - 1])}"] if place else []
    parts.append(_("**{place} of {lessons}**").format(place=place + 1, lessons=len(course.lessons)))
    if place + 1 < len(course.lessons):
        after = course.lessons[place + 1]
        why = f": {after.why}" if after.why else ""
        parts.append(
            _("next: {lesson}, {minutes} min").format(lesson=link(after), minutes=after.minutes)
            + why
        )
    else:
        parts.append(_("the last one"))
    return " · ".join(parts)


def new_notebook_of(id: str, cells: list[NotebookNode]) -> NotebookNode:
    notebook = new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
            # Tells a generated notebook from a learner's own; see build/outputs.py.
            "gpucourse": {"id": id},
        },
    )
    return mark(notebook, digest(notebook))


def mark(notebook: NotebookNode, released: str) -> NotebookNode:
    """Record the notebook's released cells in it; see :mod:`gpucourse.course.released`."""
    notebook.metadata["gpucourse"]["released"] = released
    return notebook


def _title(course: Course, lesson: Lesson, folder: Path | None = None) -> str:
    """Return the first cell: title, time, needs and objectives, all from the registry."""
    needs = [_need(course, need) for need in lesson.prerequisites]
    facts = [_("**{minutes} minutes**").format(minutes=lesson.minutes)]
    if lesson.optional:
        facts.append(_("{minutes} more for an optional part").format(minutes=lesson.optional))
    if isinstance(lesson, Project):
        facts.append(_("**{points:g} points**").format(points=lesson.points))
    facts.append(
        _("needs: {lessons}").format(lessons="; ".join(needs) if needs else _("nothing but Python"))
    )
    lines = [f"# {lesson.title}", "", " · ".join(facts), ""]
    if where := strip(course, lesson, folder):
        lines += [where, ""]
    lines += [_("After this you can"), ""]
    lines += [f"- {objective}" for objective in lesson.objectives]
    return "\n".join(lines)


def _need(course: Course, need: str) -> str:
    """Return a prerequisite for a reader: a listed lesson's title, or the prose itself."""
    if not re.match(r"\d\d_", need):
        return need
    lesson = course.lesson(need)
    if isinstance(lesson, Lecture):
        return _("the lecture “{title}”").format(title=lesson.title)
    return _("the project “{title}”").format(title=lesson.title)


def _without_magics(source: str) -> str:
    return re.sub(r"^(\s*)[%!?].*$", r"\1pass", source, flags=re.MULTILINE)


def _is_python(source: str) -> bool:
    """Return True if a cell's code parses; magics and shell lines count as ``pass``."""
    try:
        ast.parse(_without_magics(source))
    except SyntaxError:
        return False
    return True
