"""``lectures/three_hours.ipynb``: the tutorial as one notebook, in the order of its timetable.

``docs/syllabi/three_hours.md`` says which sections come when; their cells come from the lessons'
sources. A section uses names that earlier cells of its lesson bring: those cells go before it as
set-up, folded away, with the answers in where they hold an exercise. So the notebook runs from top
to bottom, and nobody has to run another one first.

Where the timetable has people write (:attr:`.syllabi.Row.written`), exercises are starters; where
it says *Review*, a project's answers stand in their place; elsewhere exercises are left out.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from gpucourse.course.regions import (
    HIDDEN_TESTS,
    SOLUTION,
    released_source,
    remove_regions,
    unwrap_regions,
)
from gpucourse.course.registry import Course, Lecture
from gpucourse.publish import notebooks, syllabi
from gpucourse.publish.inspection import code_of, global_names
from gpucourse.publish.questions import asked
from gpucourse.publish.source import ANSWERS, Cell, Source
from gpucourse.publish.syllabi import Row

ID = "three_hours"
_MAGIC = "%load_ext gpucourse\n"
_ABOUT = """\
# {title}: three hours

Parts of the course's lessons, in one notebook. Press **Shift+Enter** from here on, cell by cell; a
cell marked *set-up*
brings what its part needs, so run it without reading it. What you write
here isn't graded: the projects have notebooks
of their own, to finish at home.

| time | minutes | what |
|---|---|---|
{rows}"""


def three_hours(course: Course, sources: list[Source]) -> NotebookNode | None:
    """The notebook; None for a course without that syllabus."""
    path = course.root / syllabi.FOLDER / f"{ID}.md"
    if not path.is_file():
        return None
    rows = syllabi.read(path)
    lessons = {source.lesson.id: source for source in sources}
    listed = "\n".join(f"| {_clock(row)} | {row.minutes} | {_plain(row.text)} |" for row in rows)
    about = _ABOUT.format(title=course.title, rows=listed)
    cells = [new_markdown_cell(about, id=notebooks.cell_id(ID, "title"))]
    for row in rows:
        cells += _part(row, lessons)
    started = False
    for cell in cells:
        if cell.cell_type == "code" and cell.source.startswith(_MAGIC):
            # The device is told once.
            cell.source = cell.source.removeprefix(_MAGIC) if started else cell.source
            started = True
    return notebooks.new_notebook_of(ID, cells)


def _part(row: Row, lessons: dict[str, Source]) -> Iterator[NotebookNode]:
    """The cells of one line of the timetable."""
    place = _clock(row)
    text = f"# {place} · {_plain(row.text)}"
    yield new_markdown_cell(text, id=notebooks.cell_id(ID, place))
    review = row.text.startswith("Review")
    for id in dict.fromkeys(id for id, _ in row.links):
        source = lessons[id]
        wanted = [cell for lesson, section in row.links if lesson == id
                  for cell in syllabi.part(source, section)]
        chosen = [cell for cell in wanted if _belongs(cell, source, row)]
        needed = set_up(source, [cell for cell in chosen if cell.kind == "code"])
        for cell in source.cells:  # set-up stays where it stood: it may use what a part brings
            if cell not in needed and cell not in chosen:
                continue
            made = _cell(cell, source, written=row.written, solved=review or cell in needed)
            made.id = notebooks.cell_id(ID, f"{place}/{id}/{cell.name}")
            if cell in needed:
                made.metadata = {"jupyter": {"source_hidden": True}}
                if asked(cell):  # a project's first question, which brings `predict`
                    made.source = made.source[: made.source.rindex("\npredict(") + 1]
                made.source = _after_magic(made.source, "# set-up: run it, you need not read it\n")
            if made.source.strip():
                yield made


def _belongs(cell: Cell, source: Source, row: Row) -> bool:
    """Whether a cell of a section is in the part: no notes, no exercise that is not done."""
    if "room" in cell.tags:
        return False
    if row.written or not isinstance(source.lesson, Lecture):
        return True
    return "exercise" not in cell.tags and not re.match(r"check\(", cell.source)


def set_up(source: Source, chosen: list[Cell]) -> list[Cell]:
    """Earlier code cells of a lesson that bring names which ``chosen`` ones use, in their order.

    The first cell is always among them, for what it does when it runs.
    """
    if not chosen:
        return []
    names = {cell.name: _names(cell) for cell in source.cells if cell.kind == "code"}
    mine = {cell.name for cell in chosen}
    code = [cell for cell in source.cells if cell.kind == "code"]
    last = max(n for n, cell in enumerate(code) if cell.name in mine)
    found, needed = [], set().union(*(names[name][1] for name in mine))
    for cell in reversed(code[: last + 1]):
        bound, used = names[cell.name]
        brings = bool(bound & needed) and not cell.raises and cell.role != "test"
        if cell.name not in mine and (brings or cell is code[0]):
            found.append(cell)
            needed |= used
    return found[::-1]


def _names(cell: Cell) -> tuple[set[str], set[str]]:
    """The names that a cell, its answer in, binds and those that it uses."""
    text = code_of(cell, solved=True)
    try:
        ast.parse(text)
    except SyntaxError:
        return set(), set()
    return global_names(symtable.symtable(text, cell.name, "exec"))


def _cell(cell: Cell, source: Source, *, written: bool, solved: bool) -> NotebookNode:
    """A cell as the notebook has it: with its answer, as a starter, or as it stands."""
    text = cell.source
    if cell.kind == "markdown":
        if "why" in cell.tags:
            text = notebooks.fold(notebooks.WHY, text)
        if cell.role in ANSWERS:
            text = released_source(text, code=False)
        if isinstance(source.lesson, Lecture):
            text = text if written else re.split(r"(?m)^### Exercise", text)[0].rstrip()
        else:
            text = text.replace("](../../", "](../")  # a project's folder is one deeper
        return new_markdown_cell(text, metadata={"tags": [*cell.tags]} if cell.tags else {})
    if solved:
        text = unwrap_regions(remove_regions(text, HIDDEN_TESTS), SOLUTION)
    elif cell.role is not None:
        text = released_source(text, code=True, solution=cell.role in ANSWERS)
    elif "exercise" in cell.tags:
        text = notebooks.starter_source(text)
    fails = cell.raises or (cell.role == "test" and not solved)
    tags = [*cell.tags, *([notebooks.RAISES] if fails else [])]
    return new_code_cell(text, metadata={"tags": tags} if tags else {})


def _after_magic(text: str, comment: str) -> str:
    """``text`` with a comment in front, after the line that loads the extension."""
    if text.startswith(_MAGIC):
        return _MAGIC + comment + text.removeprefix(_MAGIC)
    return comment + text


def _clock(row: Row) -> str:
    assert row.start is not None
    return f"{row.start // 60}:{row.start % 60:02}"


def _plain(text: str) -> str:
    """A line of the timetable without its links."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
