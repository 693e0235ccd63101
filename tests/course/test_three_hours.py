"""The tutorial's notebook: made from the timetable, complete, right from top to bottom."""

from __future__ import annotations

import re

import pytest

from conftest import REPOSITORY
from gpucourse.publish import notebooks, stitched, syllabi
from gpucourse.publish.execution import execute
from gpucourse.publish.questions import asked
from gpucourse.publish.source import read_course

COURSE, SOURCES = read_course(REPOSITORY)
LESSONS = {source.lesson.id: source for source in SOURCES}
ROWS = syllabi.read(REPOSITORY / syllabi.FOLDER / "three_hours.md")


@pytest.fixture(scope="module")
def notebook():
    return stitched.three_hours(COURSE, SOURCES)


def test_its_parts_are_those_of_the_timetable_in_their_order(notebook):
    headings = [cell.source for cell in notebook.cells if re.match(r"# \d:\d\d · ", cell.source)]
    assert [heading.split(" · ")[0] for heading in headings] == [
        f"# {row.start // 60}:{row.start % 60:02}" for row in ROWS]
    text = "\n".join(cell.source for cell in notebook.cells)
    for row in ROWS:
        for id, section in row.links:
            first = syllabi.part(LESSONS[id], section)[0].source
            assert re.search(r"^## .*", first, re.MULTILINE)[0] in text, (id, section)
    assert "Run All Above" not in text
    page = (REPOSITORY / syllabi.FOLDER / "three_hours.md").read_text(encoding="utf-8")
    assert "Run All Above" not in page and "../../lectures/three_hours.ipynb" in page


def test_hidden_tests_notes_and_answers_to_write_are_not_in_it(notebook):
    text = "\n".join(cell.source for cell in notebook.cells)
    assert "BEGIN " not in text and "For the room" not in text
    work = text[text.index("# 1:25 · Work on project 1") : text.index("# 2:00 · Review")]
    assert work.count("raise NotImplementedError()") == 2
    review = text[text.index("# 2:00 · Review") : text.index("# 2:10 · ")]
    assert "NotImplementedError()" not in review


def test_set_up_is_what_a_section_needs_and_no_more():
    lesson = LESSONS["05_numba_cuda"]
    (exercise,) = [cell for cell in lesson.cells if cell.name == "launch-ways"]
    names = [cell.name for cell in stitched.set_up(lesson, [exercise])]
    first = next(cell.name for cell in lesson.cells if cell.kind == "code")
    assert names == [first], "it brings the columns, the masses and the device function"
    assert stitched.set_up(lesson, []) == []


@pytest.mark.rehearsal
def test_it_runs_from_top_to_bottom(notebook):
    """What fails is what a lecture breaks on purpose, and the tests of steps not written yet."""
    done = execute(notebook, REPOSITORY / "lectures")
    failed = [(cell.id, output.ename, output.evalue[:80]) for cell in done.cells
              if notebooks.RAISES not in cell.metadata.get("tags", ())
              for output in cell.get("outputs", ()) if output.output_type == "error"]
    assert failed == []
    ran = {cell.id for cell in done.cells if cell.get("outputs")}
    questions = [notebooks.cell_id(stitched.ID, f"{row.start // 60}:{row.start % 60:02}/{id}/"
                                                f"{cell.name}")
                 for row in ROWS for id, section in row.links
                 for cell in syllabi.part(LESSONS[id], section) if asked(cell)]
    assert len(questions) >= 12 and ran >= set(questions)
