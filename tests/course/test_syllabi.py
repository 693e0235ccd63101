"""The syllabi: times add up, whole lessons take the minutes of course.toml, sections exist."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import Course, Lecture, load_course
from gpucourse.publish.pages import page_of

PAGES = ("three_hours", "one_day", "self_study")


@dataclass
class Row:
    """One line of a timetable: its start in minutes, its length, and the lessons it links to."""

    start: int | None
    minutes: int
    text: str
    whole: set[str]
    parts: set[str]


def read(page: str, folder: Path = REPOSITORY / "docs" / "syllabi") -> list[Row]:
    rows = []
    for line in (folder / f"{page}.md").read_text(encoding="utf-8").splitlines():
        cells = re.fullmatch(r"\| *([\d:]*) *\| *(\d+) *\| *(.+?) *\|", line)
        if cells is None:
            continue
        hour = re.fullmatch(r"(\d+):(\d\d)", cells[1])
        start = 60 * int(hour[1]) + int(hour[2]) if hour else None
        found = re.findall(r"\]\(\.\./\.\./[\w/]+/(\d\d_\w+|gallery)\.ipynb(#?)", cells[3])
        parts = {id for id, mark in found if mark}
        whole = {id for id, mark in found if not mark}
        rows.append(Row(start, int(cells[2]), cells[3], whole, parts))
    return rows


def mistakes(rows: list[Row], course: Course) -> list[str]:
    """What does not agree: with the clock, or with ``course.toml``."""
    found = []
    timed = [row for row in rows if row.start is not None]
    for row, following in itertools.pairwise(timed):
        if row.start + row.minutes != following.start:
            found.append(f"{row.text[:30]}: ends when nothing begins")
    taken: dict[str, int] = {}
    for row in rows:
        known = {lesson.id: lesson for lesson in course.lessons}
        for id in row.whole | row.parts:
            if id not in known:
                found.append(f"{id} is no lesson")
        if len(row.whole) > 1 or row.whole & row.parts or (row.whole and row.parts):
            found.append(f"{row.text[:30]}: one whole lesson to a line, or parts")
        for id in row.whole & known.keys():
            if known[id].minutes != row.minutes:
                found.append(f"{id}: {row.minutes} minutes here, {known[id].minutes} in the course")
        for id in row.parts & known.keys():
            taken[id] = taken.get(id, 0) + row.minutes
            if isinstance(known[id], Lecture) and taken[id] >= known[id].minutes:
                found.append(f"parts of {id} take as long as all of it")
    return found


@pytest.mark.parametrize("page", PAGES)
def test_minutes_agree_with_the_course(page: str):
    rows = read(page)
    assert len(rows) > 5
    assert mistakes(rows, load_course(REPOSITORY)) == []


def test_three_hours_take_three_hours():
    rows = read("three_hours")
    assert (rows[0].start, rows[-1].start, rows[-1].minutes) == (0, 180, 0)
    assert [row.text for row in rows if row.minutes == 5] == ["break", "break"]
    # Those who give it say which part they take: no lesson fits as a whole.
    assert not any(row.whole for row in rows)


def test_one_day_is_a_working_day_with_a_lunch():
    rows = read("one_day")
    assert rows[0].start == 9 * 60 and rows[-1].start <= 17 * 60 + 30
    assert [row.minutes for row in rows if row.text == "lunch"] == [60]
    for row, following in itertools.pairwise(rows):
        assert row.minutes <= 90
        assert row.minutes + following.minutes <= 130 or {"break", "lunch"} & {
            row.text, following.text}


def test_self_study_has_every_lesson_once_and_none_before_what_it_needs():
    course = load_course(REPOSITORY)
    rows = read("self_study")
    order = [id for row in rows for id in row.whole]
    assert sorted(order) == sorted(lesson.id for lesson in course.lessons)
    for lesson in course.lessons:
        for need in lesson.prerequisites:
            if need in order:
                assert order.index(need) < order.index(lesson.id), (lesson.id, need)


def test_self_study_says_how_long_it_takes():
    course = load_course(REPOSITORY)
    hours = round(sum(lesson.minutes for lesson in course.lessons) / 60)
    text = (REPOSITORY / "docs" / "syllabi" / "self_study.md").read_text(encoding="utf-8")
    assert f"about {hours} hours" in text


def test_a_wrong_syllabus_is_found(tmp_path: Path):
    course = load_course(REPOSITORY)
    lesson = course.lectures[0]
    link = f"[x](../../{page_of(lesson).as_posix()}"
    (tmp_path / "p.md").write_text(
        f"| 0:00 | {lesson.minutes + 1} | {link}) |\n"
        f"| 1:59 | {lesson.minutes} | {link}#a) and {link}#b) |\n"
        "| 9:00 | 10 | [y](../../lectures/99_nothing.ipynb) |\n"
        f"| 9:10 | 5 | {link}) and {link}#a) |\n")
    found = mistakes(read("p", tmp_path), course)
    assert len(found) == 8, found
    assert sum("ends when nothing begins" in text for text in found) == 2
    assert "99_nothing is no lesson" in found
    assert sum("in the course" in text for text in found) == 2
    assert sum("take as long as all of it" in text for text in found) == 2
    assert sum("one whole lesson to a line" in text for text in found) == 1


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
            said = " ".join(what for time, what in beginnings.items()
                            if row.start <= time < row.start + row.minutes)
            assert f"{kind} {number}" in said, (row.start, id)
