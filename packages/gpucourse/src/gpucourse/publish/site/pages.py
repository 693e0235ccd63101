"""Pages of the site as Sphinx reads them: executed notebooks and documents in one folder.

The folder has the structure of the repository, so that links between notebooks and documents work
unchanged. A link to a file that is not a page leads to the repository on the web.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from gpucourse.course.checkout import notebook_path
from gpucourse.course.registry import Lecture, Lesson, Project
from gpucourse.exercises.checks import Exercise
from gpucourse.exercises.outcomes import CHECK_MIME, marked_up
from gpucourse.publish.notebooks.derive import STRIP, cell_id, fold, starter
from gpucourse.publish.notebooks.three_hours import LESSON as TUTORIAL
from gpucourse.publish.site.showcase import Shown
from gpucourse.publish.source.gallery import LESSON as GALLERY
from gpucourse.publish.source.links import relinked
from gpucourse.publish.source.questions import asked
from gpucourse.publish.source.reader import ANSWERS, SET_UP, Cell, Source

#: Documents of the repository that become pages, as globs.
DOCUMENTS = (
    "docs/*.md",
    "docs/syllabi/*.md",
    "docs/decisions/*.md",
    "grading/README.md",
    "course/README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
)
#: Page with every lecture's notes for the instructor.
ROOM_NOTES = Path("docs") / "room_notes.md"


def documents(root: Path) -> list[Path]:
    """Return the documents that become pages, relative to ``root``."""
    return sorted(path.relative_to(root) for glob in DOCUMENTS for path in root.glob(glob))


# --- lessons ----------------------------------------------------------------------------------


def lesson_page(
    shown: Shown,
    run_line: str,
    exercises: Mapping[str, Exercise] = MappingProxyType({}),
    *,
    answers: bool = True,
) -> NotebookNode:
    """Return a lesson for readers: starters, folded answers, and outputs of the solved lesson.

    Notes for the instructor are left out. ``run_line``, in Markdown, follows the title. The hints
    of ``exercises`` are folded too. Without ``answers``, the page shows only the starter, and no
    output of the answer.
    """
    source = shown.source
    origins = {cell_id(source.lesson.id, cell.name): cell for cell in source.cells}
    cells = []
    for cell in shown.notebook.cells:
        origin = origins.get(cell.id)
        if cell.id == cell_id(source.lesson.id, STRIP):
            cells.append(new_markdown_cell(cell.source, id=cell.id))
        elif origin is None:  # the title, which is generated from the registry
            title, rest = cell.source.split("\n", 1)
            cells.append(new_markdown_cell(f"{title}\n\n{run_line}\n{rest}", id=cell.id))
        elif "room" not in origin.tags:
            parts = list(_parts(origin, cell))
            if starter(origin) is not None:
                parts = parts if answers else parts[:1]
                if name := exercise_of(source, origin, exercises):
                    told = new_markdown_cell(hints(exercises[name]), id=f"{cell.id}-hints")
                    parts.insert(1, told)
            cells += parts
    language = {"name": "python", "pygments_lexer": "ipython3"}
    return new_notebook(cells=cells, metadata={"language_info": language})


def _parts(origin: Cell, cell: NotebookNode) -> Iterator[NotebookNode]:
    """Return one cell of the solved notebook as cells of the page."""
    unsolved = starter(origin)
    if unsolved is None:
        if cell.cell_type == "markdown":
            yield new_markdown_cell(cell.source, id=cell.id)
        else:
            # The output of a question contains its choices.
            tag = (
                "remove-input"
                if asked(origin) and cell.outputs
                else "hide-input"
                if SET_UP in origin.tags
                else None
            )
            if tag is None and _is_passed(cell):  # the ✓ of the answer, below the learner's starter
                tag = "hide-output"
            hidden = {"tags": [tag]} if tag else {}
            yield new_code_cell(
                cell.source,
                id=cell.id,
                outputs=_readable(cell.outputs),
                execution_count=cell.execution_count,
                metadata=hidden,
            )
        return
    if cell.cell_type == "markdown":
        yield new_markdown_cell(unsolved, id=cell.id)
        yield new_markdown_cell(fold("One answer", cell.source), id=f"{cell.id}-answer")
        return
    yield new_code_cell(unsolved, id=cell.id)
    fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", cell.source)), 3)
    answer = fold("One answer", f"{fence}python\n{cell.source}\n{fence}")
    yield new_markdown_cell(answer, id=f"{cell.id}-answer")
    if cell.outputs:
        yield new_code_cell(
            "",
            id=f"{cell.id}-outputs",
            outputs=_readable(cell.outputs),
            metadata={"tags": ["remove-input"]},
        )


def exercise_of(source: Source, cell: Cell, exercises: Mapping[str, Exercise]) -> str | None:
    """Return the name of an exercise's cell in the lesson's checks, the key of its hints."""
    if cell.role in ANSWERS:
        name = cell.name.rpartition("/")[2]
        return name if name in exercises else None
    after = source.cells[source.cells.index(cell) :]
    called = (
        found[1]
        for one in after
        if one.kind == "code"
        for found in re.finditer(r"""\bcheck\(\s*["']([a-z0-9-]+)["']""", one.source)
    )
    return next((name for name in called if name in exercises), None)


def hints(exercise: Exercise) -> str:
    """Return an exercise's hints, each of which opens with a separate click."""
    return "\n\n".join(
        f"<details>\n<summary>Hint {number}</summary>\n<p>{marked_up(hint)}</p>\n</details>"
        for number, hint in enumerate(exercise.hints, start=1)
    )


def _is_passed(cell: NotebookNode) -> bool:
    """Return True if a check in the cell has passed."""
    return any(
        output.get("data", {}).get(CHECK_MIME, {"passed": False})["passed"]
        for output in cell.outputs
    )


def _readable(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return outputs without the formats that only programs read."""
    for output in outputs:
        if CHECK_MIME in output.get("data", {}):
            del output.data[CHECK_MIME]
    return outputs


def room_notes(lessons: list[Shown], *, answers: bool = True) -> str:
    """Return one page with every lesson's notes for the instructor.

    Without ``answers``, it has only the notes of lectures.
    """
    lines = [
        "# Notes for the room",
        "",
        "What each lecture's `solutions/` notebook tells its teacher: a timetable, where "
        "people get stuck, frequent questions, what to skip when late. They are written as "
        "cells tagged `room` in `course/`.",
    ]
    for shown in lessons:
        notes = [cell.source for cell in shown.source.cells if "room" in cell.tags]
        if notes and (answers or not isinstance(shown.source.lesson, Project)):
            page = f"../{notebook_path(shown.source.lesson).as_posix()}"
            lines += ["", f"## {shown.source.lesson.title}", "", f"[The lecture]({page})", ""]
            lines += [re.sub(r"(?m)^## ", "### ", note) + "\n" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


# --- links ------------------------------------------------------------------------------------


def relink(
    text: str, page: Path, root: Path, pages: set[Path], url: str, origin: Path | None = None
) -> str:
    """Return ``text`` of ``page`` with links to files that are not pages leading to the web.

    The links in ``text`` start at ``origin`` if that is a file other than ``page``, because a
    lesson's page is made from its notebook in ``solutions/``. A link to a solution leads to the
    lesson's page, where the answers are folded. A link to a missing file does not change, so that
    Sphinx reports it.
    """
    origin = origin or page

    def moved(link: str) -> str:
        target, _, fragment = link.partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return link
        there = (root / origin.parent / target).resolve()
        if not there.is_relative_to(root):
            return link
        place = there.relative_to(root)
        anchor = f"#{fragment}" if fragment else ""
        if place in pages or place.parts[:1] == ("img",):
            if origin.parent == page.parent:
                return link
            return Path(os.path.relpath(place, page.parent)).as_posix() + anchor
        for other in pages:
            if other.name == place.name and place.parts[:1] == ("solutions",):
                return "../" * (len(page.parts) - 1) + other.as_posix()
        if not there.exists():
            return link
        kind = "tree" if there.is_dir() else "blob"
        return f"{url}/{kind}/main/{quote(place.as_posix())}{anchor}"

    return relinked(text, moved)


# --- the front page ---------------------------------------------------------------------------


def front_page(template: str, lessons: list[Lesson], root: Path) -> str:
    """Return ``docs/site/index.md`` with the lists of lessons and pages filled in.

    A page of ``docs/`` that the template lists itself is in no other list.
    """
    named = set(template.split())

    def rows(kind: type) -> str:
        lines = ["| no. | lesson | minutes |", "|---|---|---|"]
        for lesson in lessons:
            if isinstance(lesson, kind) and lesson.id not in (GALLERY.id, TUTORIAL.id):
                number = lesson.id[:2].lstrip("0")
                link = f"[{lesson.title}]({notebook_path(lesson).as_posix()})"
                said = f": {lesson.why}" if lesson.why else ""
                lines.append(f"| {number} | {link}{said} | {lesson.minutes} |")
        return "\n".join(lines)

    def tree(kind: type) -> str:
        return "\n".join(
            notebook_path(lesson).with_suffix("").as_posix()
            for lesson in lessons
            if isinstance(lesson, kind)
        )

    def listed(folder: str) -> str:
        return "\n".join(
            path.with_suffix("").as_posix()
            for path in documents(root)
            if path.parent == Path(folder) and path.with_suffix("").as_posix() not in named
        )

    fills = {
        "lectures": rows(Lecture),
        "projects": rows(Project),
        "lecture pages": tree(Lecture),
        "project pages": tree(Project),
        "other pages": listed("docs"),
        "decision pages": listed("docs/decisions"),
    }
    for name, text in fills.items():
        mark = f"<!-- {name} -->"
        if template.count(mark) != 1:
            raise ValueError(f"docs/site/index.md needs one {mark}")
        template = template.replace(mark, text)
    return template
