"""The rule of pace: what counts, how much, and that a lesson's minutes are held to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpucourse.publish.notebooks import pace
from gpucourse.publish.notebooks.inspection import inspect
from gpucourse.publish.source.reader import Cell, read_course
from small_course import LECTURE, edit, write_course


@pytest.fixture
def sources(tmp_path: Path) -> list:
    return read_course(write_course(tmp_path))[1]


def test_each_kind_of_cell_takes_its_time(sources):
    lecture, project = sources

    def alone(source, kind: str, text: str, **more) -> float:
        return pace.minutes(source, [Cell("x", kind, text, 1, **more)])

    assert alone(lecture, "markdown", "word " * 180) == 1
    assert alone(lecture, "markdown", "```python\nnot read here\n```\n![nor this](x.svg)") == 0
    assert alone(lecture, "markdown", "one [two](../three/four.md)") == 2 / 180
    assert alone(lecture, "code", "\n".join("x" * 40)) == 1 + pace.RUN
    assert alone(lecture, "code", 'predict("a", "b", "c")') == pace.PREDICTION
    assert alone(lecture, "markdown", "word " * 180, tags=("room",)) == 0
    answer = "### BEGIN SOLUTION\nx = 1\ny = 2\n### END SOLUTION"
    starter = pace.RUN + 1 / pace.LINES
    assert alone(lecture, "code", answer, tags=("exercise",)) == starter + pace.EXERCISE
    assert alone(project, "code", answer, role="solution") == starter + pace.STEP
    assert (
        pace.minutes(lecture, [Cell("x", "code", answer, 1, tags=("exercise",))], answers=False)
        == starter
    )


def test_sections_hold_every_cell_once(sources):
    for source in sources:
        parts = pace.sections(source)
        assert [cell for cells in parts.values() for cell in cells] == list(source.cells)
        assert sum(pace.minutes(source, cells) for cells in parts.values()) == pytest.approx(
            pace.minutes(source)
        )
    assert list(pace.sections(sources[0])) == ["", "why-two"]


@pytest.mark.parametrize(("minutes", "right"), [(10, True), (15, True), (12, False), (20, False)])
def test_minutes_that_nobody_could_keep_are_named(tmp_path: Path, minutes: int, right: bool):
    write_course(tmp_path)
    edit(tmp_path / "course" / "course.toml", "minutes = 10", f"minutes = {minutes}")
    course, (lecture, _) = read_course(tmp_path)
    found = [str(problem) for problem in inspect(course, lecture)]
    assert found == (
        []
        if right
        else [
            f"course/lectures/{LECTURE}/notebook.py:1: course.toml says {minutes} minutes; "
            f"its words, "
            "cells, predictions and exercises count 12: write 10 "
            "(publish/notebooks/pace.py has the rule)"
        ]
    )


def test_what_goes_further_takes_no_minutes_and_ends_at_the_keypoints():
    names = ["task", "more", "more-task", "keypoints", "read-on"]
    tags = {"more": ["further"], "keypoints": ["keypoints"]}
    cells = [SimpleNamespace(name=name, tags=tags.get(name, [])) for name in names]
    assert [cell.name for cell in pace.required(cells)] == ["task", "keypoints", "read-on"]


@pytest.mark.parametrize(("optional", "right"), [(5, True), (0, False), (20, False)])
def test_minutes_of_an_optional_part_are_held_to_it(tmp_path: Path, optional: int, right: bool):
    write_course(tmp_path)
    if optional:
        edit(
            tmp_path / "course" / "course.toml",
            "minutes = 10",
            f"minutes = 10\noptional = {optional}",
        )
    course, (lecture, _) = read_course(tmp_path)
    more = Cell("more", "markdown", "word " * 1200, 1, tags=("further",))
    lecture = replace(lecture, cells=(*lecture.cells, more))
    found = [str(problem) for problem in inspect(course, lecture)]
    assert [f"{optional} minutes; its optional part's" in text for text in found] == (
        [] if right else [True]
    )
