"""Three-hour tutorial as one lesson, in the order of its timetable.

``docs/syllabi/three_hours.md`` lists the sections in order, and their cells come from the lessons'
sources. A section uses names from earlier cells of its lesson. These cells precede it as folded
set-up, including the answers of exercises in them. The notebook therefore runs from top to bottom,
and nobody has to run another one first.

In rows where people write (:attr:`.syllabi.Row.written`), exercises are starters. In *Review*
rows, a project's answers replace them. In other rows exercises are left out.
``lectures/three_hours.ipynb``, a page of the site and a deck of slides are made from this lesson
as from a lecture's source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpucourse.course.regions import HIDDEN_TESTS, SOLUTION, remove_regions, unwrap_regions
from gpucourse.course.registry import Course, Lecture, Project
from gpucourse.publish.notebooks import syllabi
from gpucourse.publish.notebooks.needed_cells import quiet, set_up
from gpucourse.publish.notebooks.syllabi import Row
from gpucourse.publish.source.links import one_folder_up
from gpucourse.publish.source.questions import asked
from gpucourse.publish.source.reader import SET_UP, Cell, Source

LESSON = Lecture(
    id="three_hours",
    title="Three hours",
    minutes=180,
    prerequisites=["Python and NumPy"],
    objectives=[
        "write a kernel, launch it on any number of values, and read its errors",
        "show a race, and add up with many threads without one",
        "say why the same seed in every thread is no sample",
        "go on with two projects by yourself",
    ],
)
_MAGIC = "%load_ext gpucourse\n"
_ABOUT = """\
Parts of the course's lessons, in one notebook. Press **Shift+Enter** from here on, cell by cell.
A cell that is folded away is *set-up*: it brings what its part needs, so run it without reading it.
What turns red is meant to: a mistake made on purpose, or the test of a step that isn't written yet.
What you write here isn't graded: the projects have notebooks of their own, to finish at home.

| time | minutes | what |
|---|---|---|
{rows}"""
# Short version, in three sentences, of the section "How this works" in projects.
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


def read_tutorial(course: Course, sources: list[Source]) -> Source | None:
    """Return the tutorial as a lesson's source; None for a course without that syllabus."""
    path = course.root / syllabi.FOLDER / f"{LESSON.id}.md"
    if not path.is_file():
        return None
    rows = syllabi.read(path)
    lessons = {source.lesson.id: source for source in sources}
    listed = "\n".join(f"| {_clock(row)} | {row.minutes} | {_plain(row.text)} |" for row in rows)
    cells = [Cell("about", "markdown", _ABOUT.format(rows=listed), 0)]
    for number, row in enumerate(rows):
        for cell in _part(row, rows[:number], lessons):
            # The device is reported only once.
            told = any(before.source.startswith(_MAGIC) for before in cells)
            text = cell.source.removeprefix(_MAGIC) if told else cell.source
            cells.append(replace(cell, source=text))
    used = dict.fromkeys(id for row in rows for id, _ in row.links)
    return Source(LESSON, path, tuple(cells), tuple(lessons[id].lesson for id in used))


def _part(row: Row, before: list[Row], lessons: dict[str, Source]) -> Iterator[Cell]:
    """Yield the cells of one row of the timetable."""
    place = _clock(row)
    text = f"# {place} · {_plain(row.text).partition(':')[0]}\n"
    if row.text.startswith("Work"):
        text += _WORK
    if not row.minutes:
        text += _END
    yield Cell(place, "markdown", text.rstrip(), 0)
    for id in dict.fromkeys(id for id, _ in row.links):
        source = lessons[id]
        chosen = {cell.name: cell for cell in syllabi.taken(row, before, source)}
        needed = {cell.name for cell in set_up(source, [*chosen.values()])}
        run: list[Cell] = []  # merge adjacent set-up cells into one
        for cell in source.cells:  # it stays here, because it may use a part's names
            if cell.name in needed:
                run.append(cell)
            elif cell.name in chosen:
                if run:
                    yield _set_up_cell(run, f"{place}/{id}")
                run = []
                yield _cell(chosen[cell.name], source, f"{place}/{id}", solved=row.review)


def _set_up_cell(cells: list[Cell], place: str) -> Cell:
    """Join a lesson's set-up cells into one folded cell that prints nothing."""
    texts = []
    for cell in cells:
        text = _solved(cell.source)
        if asked(cell):  # a project's first question, which defines `predict`
            text = text[: text.rindex("\npredict(") + 1]
        texts.append(quiet(text).strip())
    text = _after_magic("\n\n\n".join(texts), "# set-up: run it, you need not read it\n")
    return Cell(f"{place}/{cells[0].name}", "code", text, 0, tags=(SET_UP,))


def _cell(cell: Cell, source: Source, place: str, *, solved: bool) -> Cell:
    """Return a lesson's cell for the tutorial, with its answer if ``solved``."""
    text = cell.source
    if cell.kind == "markdown" and isinstance(source.lesson, Project):
        text = one_folder_up(text)
    name, role = f"{place}/{cell.name}", None if solved else cell.role
    text = _solved(text) if solved else remove_regions(text, HIDDEN_TESTS)
    return replace(cell, name=name, role=role, source=text)


def _solved(text: str) -> str:
    return unwrap_regions(remove_regions(text, HIDDEN_TESTS), SOLUTION)


def _after_magic(text: str, comment: str) -> str:
    """Insert a comment before ``text``, but after the line that loads the extension."""
    if text.startswith(_MAGIC):
        return _MAGIC + comment + text.removeprefix(_MAGIC)
    return comment + text


def _clock(row: Row) -> str:
    assert row.start is not None
    return f"{row.start // 60}:{row.start % 60:02}"


def _plain(text: str) -> str:
    """Return a row of the timetable without its links."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
