"""``lectures/three_hours.ipynb``: the tutorial as one notebook, in the order of its timetable.

``docs/syllabi/three_hours.md`` says which sections come when; their cells come from the lessons'
sources. A section uses names that earlier cells of its lesson bring: those cells go before it as
set-up, folded away, with the answers in where they hold an exercise. So the notebook runs from top
to bottom, and nobody has to run another one first.

Where the timetable has people write (:attr:`.syllabi.Row.written`), exercises are starters; where
it says *Review*, a project's answers stand in their place; elsewhere exercises are left out.
"""

from __future__ import annotations

import re
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
from gpucourse.publish.questions import asked
from gpucourse.publish.set_up import quiet, set_up
from gpucourse.publish.source import ANSWERS, Cell, Source
from gpucourse.publish.syllabi import Row

ID = "three_hours"
_MAGIC = "%load_ext gpucourse\n"
_ABOUT = """\
# {title}: three hours

Parts of the course's lessons, in one notebook. Press **Shift+Enter** from here on, cell by cell.
A cell that is folded away is *set-up*: it brings what its part needs, so run it without reading it.
What turns red is meant to: a mistake made on purpose, or the test of a step that isn't written yet.
What you write here isn't graded: the projects have notebooks of their own, to finish at home.

| time | minutes | what |
|---|---|---|
{rows}"""
# What projects say under "How this works", in three sentences.
_WORK = """
Answer cells say `YOUR CODE HERE`: replace that line and the `raise` below it, run the cell, then
the tests under it. A test shows a tick, or says what isn't right yet. Stuck? Add a cell (press
Escape, then B) and call the `hint` that the step names; called again, it says more."""
_END = """
Take your work with you: [the welcome page](../welcome.ipynb) says how. And go on with the rest of
[project 1](../projects/01_fill_a_histogram/01_fill_a_histogram.ipynb), then with
[project 2](../projects/02_area_by_sampling/02_area_by_sampling.ipynb): `gpucourse grade NOTEBOOK`
tells you how far you are. What the three hours left out is in
[self-study](../docs/syllabi/self_study.md)."""


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
    for number, row in enumerate(rows):
        cells += _part(row, rows[:number], lessons)
    started = False
    for cell in cells:
        if cell.cell_type == "code" and cell.source.startswith(_MAGIC):
            # The device is told once.
            cell.source = cell.source.removeprefix(_MAGIC) if started else cell.source
            started = True
    return notebooks.new_notebook_of(ID, cells)


def _part(row: Row, before: list[Row], lessons: dict[str, Source]) -> Iterator[NotebookNode]:
    """The cells of one line of the timetable."""
    place = _clock(row)
    text = f"# {place} · {_plain(row.text).partition(':')[0]}\n"
    if row.text.startswith("Work"):
        text += _WORK
    if not row.minutes:
        text += _END
    text = text.rstrip()
    yield new_markdown_cell(text, id=notebooks.cell_id(ID, place))
    for id in dict.fromkeys(id for id, _ in row.links):
        source = lessons[id]
        chosen = {cell.name: cell for cell in syllabi.taken(row, before, source)}
        needed = {cell.name for cell in set_up(source, [*chosen.values()])}
        run: list[Cell] = []  # set-up that is one cell, since nothing stands between
        for cell in source.cells:  # it stays where it stood: it may use what a part brings
            if cell.name in needed:
                run.append(cell)
            elif cell.name in chosen:
                if run:
                    yield _set_up_cell(run, place, source)
                run = []
                made = _cell(chosen[cell.name], source, written=row.written, solved=row.review)
                made.id = notebooks.cell_id(ID, f"{place}/{id}/{cell.name}")
                yield made


def _set_up_cell(cells: list[Cell], place: str, source: Source) -> NotebookNode:
    """Cells of a lesson as one, folded away, which says nothing of its own."""
    texts = []
    for cell in cells:
        text = _cell(cell, source, written=False, solved=True).source
        if asked(cell):  # a project's first question, which brings `predict`
            text = text[: text.rindex("\npredict(") + 1]
        texts.append(quiet(text).strip())
    made = new_code_cell("\n\n\n".join(texts))
    made.id = notebooks.cell_id(ID, f"{place}/{source.lesson.id}/{cells[0].name}")
    made.metadata = {"jupyter": {"source_hidden": True}}
    made.source = _after_magic(made.source, "# set-up: run it, you need not read it\n")
    return made


def _cell(cell: Cell, source: Source, *, written: bool, solved: bool) -> NotebookNode:
    """A cell as the notebook has it: with its answer, as a starter, or as it stands."""
    text = cell.source
    if cell.kind == "markdown":
        if "why" in cell.tags:
            text = notebooks.fold(notebooks.WHY, text)
        if cell.role in ANSWERS:
            text = released_source(text, code=False)
        if not isinstance(source.lesson, Lecture):
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
