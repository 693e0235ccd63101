"""Derivation of the four notebooks of a lesson from its source, always by leaving parts out.

The build makes four notebooks from one source and never reads them back:

=====================================  ==========================================================
``lectures/ID.ipynb``                  exercises as starters, notes for the room left out
``projects/ID/ID.ipynb``               what ``nbgrader generate_assignment`` releases
``solutions/ID.ipynb``                 answers in, visible checks in, hidden tests out
``grading/source/ID/ID.ipynb``         everything, with nbgrader's metadata
=====================================  ==========================================================

A generated notebook has no outputs, and its cell ids and metadata are stable. Repeated builds
produce the same bytes.
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
    """Return the learner's notebook, with starters instead of the answers."""
    cells = [_starter_cell(source, cell) for cell in source.cells if "room" not in cell.tags]
    return _notebook(course, source.lesson, cells)


#: Folder of all notebooks with answers.
_SOLUTIONS = Path("solutions")


def lecture_solution(course: Course, source: Source) -> NotebookNode:
    """Return the lecture with its answers and its notes for the instructor."""
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
            # With this tag, Run All shows every verdict and does not stop at the first failed test.
            metadata["tags"] = [*metadata.get("tags", ()), RAISES]
        cells.append(_cell(source, cell, cell.source, metadata))
    notebook = _notebook(course, source.lesson, cells)
    # nbgrader copies a notebook's metadata to its release, which is the learners' copy.
    return mark(notebook, digest(_released(copy.deepcopy(notebook))))


def project_release(course: Course, source: Source) -> NotebookNode:
    """Return the students' notebook: ``nbgrader generate_assignment`` applied to the source.

    nbgrader takes seconds to import and writes a gradebook. Its few steps are therefore done here,
    and a test checks that the result equals nbgrader's own release.
    """
    return _released(project_source(course, source))


def _released(notebook: NotebookNode) -> NotebookNode:
    """Apply nbgrader's steps in place."""
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
    """Return the release with all answers filled in, as a student would submit it.

    Test cells do not have the tag that ignores errors, because no check may fail here.
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

    When learners save their copy, only the lines that they edited change, so git can merge a newer
    release into it (nbgitpuller on a hub).
    """
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def cell_id(notebook_id: str, name: str) -> str:
    """Return a cell's id in a generated notebook.

    nbformat 4.5 allows at most 64 letters, digits, - and _. The id depends only on the notebook
    and on the cell's own name. An inserted cell therefore does not change the other ids, and a
    copy of a cell in another notebook gets a different id.
    """
    return hashlib.sha256(f"{notebook_id}/{name}".encode()).hexdigest()[:16]


def nbgrader_checksum(cell: NotebookNode) -> str:
    """Return the checksum that ``nbgrader.utils.compute_checksum`` would return."""
    meta = cell.metadata["nbgrader"]
    locked = meta["grade"] or meta["locked"]
    parts = [cell.source, cell.cell_type, meta["grade"], meta["solution"]]
    parts += [not meta["solution"] and locked, meta["grade_id"]]
    if meta["grade"]:
        parts.append(float(meta["points"]))
    return hashlib.md5("".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()


def starter_source(source: str) -> str:
    """Replace every solution region by a starter that is valid Python.

    In a string of CUDA C++, the starter is a C++ comment.
    """
    # A lecture's starter runs without an error, so that the cells below it can run.
    stub = f"# {_('your code here')}"
    starter = replace_regions(source, SOLUTION, [stub])
    if _is_python(starter):
        # In C++, a line that begins with # is a preprocessor directive.
        return _CPP_STRING.sub(lambda code: code[0].replace(stub, f"//{stub[1:]}"), starter)
    # If the region was the whole body of a block, a comment would leave the block empty.
    return replace_regions(source, SOLUTION, [f"pass  {stub}"])


def _starter_cell(source: Source, cell: Cell) -> NotebookNode:
    unsolved = starter(cell)
    metadata = _tags(cell)
    if cell.role == "test":  # of a project, in the tutorial
        metadata["tags"] = [*metadata.get("tags", ()), RAISES]
    return _cell(source, cell, cell.source if unsolved is None else unsolved, metadata)


def starter(cell: Cell) -> str | None:
    """Return the text that a learner finds instead of an answer; None for any other cell."""
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


#: Names whose use in a lesson's code draws something.
_DRAWING = {"Picture", "axes", "canvas", "figure", "plt", "show_figure"}
#: Number of drawing lines from which a cell is folded, and their least ratio to other lines.
_LONG, _MOSTLY = 10, 3


def draws(source: str) -> bool:
    """Return True if a cell consists of ten or more lines of drawing and little else.

    Readers of such a cell look at its picture; a click in JupyterLab shows its code.
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
        # Summary line of a prediction's explanation, below the cell that shows the result.
        text = fold(_("What came out, and why"), text)
    id = cell_id(source.lesson.id, cell.name)
    return new_cell(cell.kind, text, id, metadata)


def new_cell(
    kind: str, text: str, id: str, metadata: Mapping = MappingProxyType({})
) -> NotebookNode:
    """Return a cell; :func:`notebook_text` validates the notebook as a whole.

    The functions of nbformat validate each cell separately, which took half the time of a build.
    """
    rest: dict = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return nbformat.from_dict(
        {"cell_type": kind, "id": id, "metadata": dict(metadata), "source": text, **rest}
    )


def page(id: str, cells: list[tuple[str, str, str]]) -> NotebookNode:
    """Return a generated notebook that is not a lesson, from (kind, name, text) of each cell."""
    return new_notebook_of(
        id, [new_cell(kind, text, cell_id(id, name)) for kind, name, text in cells]
    )


#: Name of the last cell, which shows the lesson's position in the course.
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
    """Return the lesson's position in the course and its neighbours, as Markdown.

    The result is empty for a notebook that is not in the course's order. Links start at the
    notebook's own folder, or at ``folder`` if all notebooks are there.
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
            # Marks a generated notebook, as opposed to a learner's own; see outputs.py.
            "gpucourse": {"id": id},
        },
    )
    return mark(notebook, digest(notebook))


def mark(notebook: NotebookNode, released: str) -> NotebookNode:
    """Record the notebook's released cells in it; see :mod:`gpucourse.course.released`."""
    notebook.metadata["gpucourse"]["released"] = released
    return notebook


def _title(course: Course, lesson: Lesson, folder: Path | None = None) -> str:
    """Return the first cell: title, time, prerequisites and objectives, all from the registry."""
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
    """Return a prerequisite for a reader: the title of a listed lesson, or the prose itself."""
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
