"""The syllabi: times add up, whole lessons take the minutes of course.toml, sections exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.course.checkout import notebook_path
from gpucourse.course.registry import load_course
from gpucourse.publish.notebooks import syllabi

PAGES = ("three_hours", "three_hours_puzzles", "one_day", "self_study")
COURSE = load_course(REPOSITORY)


def read(page: str) -> list[syllabi.Row]:
    return syllabi.read(REPOSITORY / syllabi.FOLDER / f"{page}.md")


@pytest.mark.parametrize("page", PAGES)
def test_minutes_agree_with_the_course(page: str, sources):
    rows = read(page)
    assert len(rows) > 5
    assert list(syllabi.mistakes(rows, COURSE, sources)) == []


@pytest.mark.parametrize("page", ["three_hours", "three_hours_puzzles"])
def test_three_hours_take_three_hours(page: str):
    rows = read(page)
    assert (rows[0].start, rows[-1].start, rows[-1].minutes) == (0, 180, 0)
    # Those who give it say which part they take: no lesson fits as a whole.
    assert not any(row.whole for row in rows)


def test_self_study_goes_the_courses_way():
    """There is one order, in which none comes before what it needs (course/registry.py)."""
    order = [id for row in read("self_study") for id in row.whole]
    assert order == [lesson.id for lesson in COURSE.lessons]
    assert all(lesson.why for lesson in COURSE.lessons)


def test_self_study_says_how_long_it_takes():
    hours = round(sum(lesson.minutes for lesson in COURSE.lessons) / 60)
    text = (REPOSITORY / "docs" / "syllabi" / "self_study.md").read_text(encoding="utf-8")
    assert f"about {hours} hours" in text


def test_a_wrong_syllabus_is_found(tmp_path: Path, sources):
    lesson = COURSE.lectures[0]
    link = f"[x](../../{notebook_path(lesson).as_posix()}"
    (tmp_path / "p.md").write_text(
        f"| 0:00 | {lesson.minutes + 1} | {link}) |\n"
        f"| 1:59 | {lesson.minutes} | {link}#a) and {link}#b) |\n"
        "| 9:00 | 10 | [y](../../lectures/99_nothing.ipynb) |\n"
        f"| 9:10 | 5 | {link}) and {link}#a) |\n"
    )
    found = list(syllabi.mistakes(syllabi.read(tmp_path / "p.md"), COURSE, sources))
    assert len(found) == 8, found
    assert sum("no row begins when this one ends" in text for text in found) == 2
    assert "99_nothing is no lesson" in found
    assert sum("in the course" in text for text in found) == 2
    assert sum("take as long as all of it" in text for text in found) == 2
    assert sum("either one whole lesson or parts" in text for text in found) == 1


def test_a_part_that_counts_more_minutes_than_it_has_is_found(tmp_path: Path, sources):
    """As the plan of three hours once had it: two steps of a project in twenty minutes."""
    row = next(row for row in read("three_hours") if row.text.startswith("Work on project 1"))
    line = f"| 0:00 | {{}} | {row.text} |\n"
    for minutes, mistakes in ((20, 1), (row.minutes, 0)):
        (tmp_path / "p.md").write_text(line.format(minutes))
        found = list(syllabi.mistakes(syllabi.read(tmp_path / "p.md"), COURSE, sources))
        assert len(found) == mistakes, found
    assert all("its sections count 3" in text for text in found)
    # Read only, the same sections are quickly done.
    (tmp_path / "p.md").write_text(line.format(20).replace("Work on", "Show"))
    assert not list(syllabi.mistakes(syllabi.read(tmp_path / "p.md"), COURSE, sources))


def test_every_section_that_a_syllabus_links_to_has_cells(sources):
    lessons = {source.lesson.id: source for source in sources}
    for page in PAGES:
        for row in read(page):
            assert all(syllabi.part(lessons[id], section) for id, section in row.links if section)


def test_the_sheet_for_the_desk_keeps_to_the_timetable():
    """docs/room.md: nothing of the three hours begins at another time, or is forgotten."""
    page = (REPOSITORY / "docs" / "room.md").read_text(encoding="utf-8")
    sheet = re.findall(r"(?m)^\| (\d):(\d\d) \| (.*?) \|", page)
    times = [60 * int(hour) + int(minute) for hour, minute, _ in sheet]
    assert times == sorted(set(times))
    beginnings = {time: what for time, (_, _, what) in zip(times, sheet, strict=True)}
    for row in read("three_hours"):
        assert row.start in beginnings, f"{row.start // 60}:{row.start % 60:02} is not on the sheet"
        for id in row.parts:
            number = int(id[:2])
            kind = "project" if f"projects/{id}" in row.text else "lecture"
            said = " ".join(
                what
                for time, what in beginnings.items()
                if row.start <= time < row.start + row.minutes
            )
            assert f"{kind} {number}" in said, (row.start, id)
