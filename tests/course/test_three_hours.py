"""The tutorial's notebook: made from the timetable, complete, right from top to bottom."""

from __future__ import annotations

import html
import re

import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from gpucourse.exercises.checks import read_exercises
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.notebooks import pace, syllabi, three_hours
from gpucourse.publish.notebooks.execution import execute
from gpucourse.publish.notebooks.needed_cells import set_up
from gpucourse.publish.site import pages, slides
from gpucourse.publish.site.showcase import Shown
from gpucourse.publish.source.questions import asked

COURSE = load_course(REPOSITORY)
ROWS = syllabi.read(REPOSITORY / syllabi.FOLDER / "three_hours.md")


@pytest.fixture(scope="module")
def lessons(sources):
    return {source.lesson.id: source for source in sources}


@pytest.fixture(scope="module")
def tutorial(sources):
    return three_hours.read_tutorial(COURSE, sources)


@pytest.fixture(scope="module")
def notebook(tutorial):
    return notebooks.lecture_notebook(COURSE, tutorial)


def test_its_parts_are_those_of_the_timetable_in_their_order(notebook, lessons):
    headings = [cell.source for cell in notebook.cells if re.match(r"# \d:\d\d · ", cell.source)]
    assert [heading.split(" · ")[0] for heading in headings] == [
        f"# {row.start // 60}:{row.start % 60:02}" for row in ROWS
    ]
    text = "\n".join(cell.source for cell in notebook.cells)
    for row in ROWS:
        for id, section in row.links:
            first = syllabi.part(lessons[id], section)[0].source
            assert re.search(r"^## .*", first, re.MULTILINE)[0] in text, (id, section)
    assert "Run All Above" not in text
    page = (REPOSITORY / syllabi.FOLDER / "three_hours.md").read_text(encoding="utf-8")
    assert "Run All Above" not in page and "../../lectures/three_hours.ipynb" in page


def test_hidden_tests_notes_and_answers_to_write_are_not_in_it(notebook):
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "BEGIN " not in text and "For the room" not in text
    work = text[text.index("# 1:21 · Work on project 1") : text.index("# 2:08 · Review")]
    assert work.count("raise NotImplementedError()") == 2
    review = text[text.index("# 2:08 · Review") : text.index("# 2:13 · ")]
    assert "NotImplementedError()" not in review


def test_set_up_is_what_a_section_needs_and_no_more(lessons):
    lesson = lessons["06_numba_cuda"]
    (exercise,) = [cell for cell in lesson.cells if cell.name == "launch-ways"]
    names = [cell.name for cell in set_up(lesson, [exercise])]
    first = next(cell.name for cell in lesson.cells if cell.kind == "code")
    assert names == [first], "it brings the columns, the masses and the device function"


def test_set_up_tells_no_answer_that_a_part_does_not_use(notebook):
    """As it once did: half of project 2 came before one of its steps, for a loop variable."""
    text = "\n".join(cell.source for cell in notebook.cells)
    peak = text.partition("# 0:33 ")[2].partition("# 0:46 ")[0]
    assert "d_muons = " in peak, "the kernel is launched on it, and the lesson makes it before"
    project = text.partition("# 2:34 ")[2]
    assert "neighbour_z" not in project and "diagnose" not in project
    folded = [cell for cell in notebook.cells if cell.source.startswith("# set-up:")]
    assert 0 < len(folded) < 10
    assert not any("\nprint(" in cell.source for cell in folded)


def test_no_part_refers_to_a_section_that_is_left_out(notebook):
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    headings = set(re.findall(r"(?m)^## (\d+)\.", text))
    referred = re.findall(r"[Ss]ections? (\d+)", re.sub(r"\[[^\]]*\]\([^)]*\)", "", text))
    assert set(referred) <= headings


def test_somebody_types_in_every_half_hour():
    ends = [0]
    for row in ROWS:
        if row.written:
            assert row.start - ends[-1] <= 30
            ends.append(row.start + row.minutes)
    assert 180 - ends[-1] <= 30 and len(ends) > 5


def test_a_quarter_of_an_hour_is_left_for_the_room(lessons):
    counted = sum(
        pace.minutes(
            lessons[id], syllabi.taken(row, ROWS[:number], lessons[id]), answers=row.written
        )
        for number, row in enumerate(ROWS)
        for id in row.parts
    )
    given = sum(row.minutes for row in ROWS if row.parts)
    assert given - counted >= 15


def test_a_review_has_the_answers_and_not_the_tasks_again(notebook):
    text = "\n".join(cell.source for cell in notebook.cells)
    for sentence in ("Division and multiplication give you a position", "Types are the trap"):
        assert text.count(sentence) == 1
    assert text.count("## 1. Which slot?") == 2


def test_what_is_true_of_the_whole_lesson_only_is_left_out(notebook, sources):
    text = "\n".join(cell.source for cell in notebook.cells)
    whole = [cell.source for source in sources for cell in source.cells if "whole" in cell.tags]
    assert len(whole) >= 4 and not any(source in text for source in whole)
    assert "first exercise" not in text and "write kernels of three kinds" not in text


def test_what_a_part_speaks_of_stands_above_it(notebook):
    """Slots are told before they are to be computed, and the first kernel before it is mended."""
    text = "\n".join(cell.source for cell in notebook.cells)
    assert text.index("| bins + 1 | value ≥ high, and NaN |") < text.index("def bin_index")
    kernel = next(cell for cell in notebook.cells if "def add_all(" in cell.source)
    assert "jupyter" not in kernel.metadata
    assert text.index("cuda.atomic.add(total, 0, values[i])") < text.index("wait in a queue")


@pytest.mark.rehearsal
def test_it_runs_from_top_to_bottom(notebook, lessons):
    """What fails is what a lecture breaks on purpose, and the tests of steps not written yet."""
    done = execute(notebook, REPOSITORY / "lectures")
    failed = [
        (cell.id, output.ename, output.evalue[:80])
        for cell in done.cells
        if notebooks.RAISES not in cell.metadata.get("tags", ())
        for output in cell.get("outputs", ())
        if output.output_type == "error"
    ]
    assert failed == []
    ran = {cell.id for cell in done.cells if cell.get("outputs")}
    made = three_hours.LESSON.id
    questions = [
        notebooks.cell_id(made, f"{row.start // 60}:{row.start % 60:02}/{id}/{cell.name}")
        for row in ROWS
        for id, section in row.links
        for cell in syllabi.part(lessons[id], section)
        if asked(cell) and "whole" not in cell.tags
    ]
    assert len(questions) >= 12 and ran >= set(questions)


def test_its_slides_have_each_part_and_no_set_up(tutorial):
    """Answers to what the room writes come after their tasks; what folds away is on no slide."""
    template = (REPOSITORY / "docs" / "site" / "deck.html").read_text(encoding="utf-8")
    shown = Shown(tutorial, notebooks.solution(COURSE, tutorial))
    text = slides.deck(shown, template, COURSE.title, {}, "https://host/repo")
    parts = re.findall(r"<h1>(\d:\d\d) · ", text)
    assert parts == [f"{row.start // 60}:{row.start % 60:02}" for row in ROWS]
    assert all(
        f'<section class="flow"><div class="block prose starts"><h1>{part} · ' in text
        for part in parts
    )
    words = html.unescape(re.sub(r"<[^>]+>", "", text))
    assert "you need not read it" not in words and "BEGIN " not in words
    work = words[words.index("1:21 · Work on project 1", words.index("0:00 · ")) :]
    assert work.index("raise NotImplementedError()") < work.index("One answer")
    assert words.count("One answer") == sum(
        notebooks.starter(cell) is not None for cell in tutorial.cells
    )


def test_its_page_has_answers_and_hints_behind_folds(tutorial):
    shown = Shown(tutorial, notebooks.solution(COURSE, tutorial))
    exercises = read_exercises(COURSE.checks(COURSE.lesson("01_fill_a_histogram")))
    cells = pages.lesson_page(shown, "Run it.", exercises).cells
    (task,) = [
        n
        for n, cell in enumerate(cells)
        if cell.source.startswith("@cuda.jit(device=True)\ndef bin_index")
        and "NotImplementedError" in cell.source
    ]
    assert "<summary>Hint 2</summary>" in cells[task + 1].source
    assert "<summary>One answer</summary>" in cells[task + 2].source
    assert any(cell.metadata.get("tags") == ["hide-input"] for cell in cells)
