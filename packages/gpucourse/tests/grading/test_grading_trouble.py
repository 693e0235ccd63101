"""A class that cannot be graded as it stands: odd times, a locked gradebook, an odd folder."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from nbgrader.utils import parse_utc
from rich.console import Console

from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.classes.timestamps import stamp
from gpucourse.grading.commands import grade_class
from gpucourse.grading.nbgrader.gradebook import GradebookInUse, GradebookWriter, configuration
from grading_toy import toy_course

IN_UTC = "2020-11-25 11:00:00"


@pytest.mark.parametrize(
    ("time", "means"),
    [
        ("2020-11-25 12:00:00 +0100", IN_UTC),
        ("2020-11-25 12:00:00 +01:00", IN_UTC),
        ("2020-11-25 12:00:00 +01", IN_UTC),
        ("2020-11-25 12:00:00.000000 +1", IN_UTC),
        ("2020-11-25 05:30:00 -0530", IN_UTC),
        ("2020-11-25 16:30:00 +05:30", IN_UTC),
        ("2020-11-25 11:00:00 UTC", IN_UTC),
        ("2020-11-25 11:00:00 Z", IN_UTC),
        ("2020-11-25 12:00:00 Europe/Berlin", None),
        ("2020-11-25 12:00:00 +2500", None),
        ("2020-11-25T12:00:00+01:00", IN_UTC),
    ],
)
def test_threat_114_a_time_with_an_offset_is_that_time(tmp_path, time, means):
    (tmp_path / "timestamp.txt").write_text(time)
    told = stamp(tmp_path)
    if means is None:  # a path is no zone that is looked up: it could be a file
        assert told.time == "" and "no readable time" in told.why
    else:
        assert str(parse_utc(told.time)) == means


@pytest.mark.parametrize("zone", ["XYZ", "+25x", "UTCC"])
def test_threat_114_a_zone_that_is_not_known_is_no_time(tmp_path, zone):
    (tmp_path / "timestamp.txt").write_text(f"2020-11-25 12:00:00 {zone}")
    told = stamp(tmp_path)
    assert told.time == "" and "time zone is not known: write the time as" in told.why


def test_threat_115_a_locked_gradebook_is_told_in_a_sentence(tmp_path, repository):
    toy_course(tmp_path / "course", repository)
    root = tmp_path / "course"
    other = sqlite3.connect(root / "gradebook.db", isolation_level=None)
    other.execute("create table t (x)")
    other.execute("begin exclusive")

    def look() -> None:
        with GradebookWriter(Classroom(root), configuration(root)) as book:
            book.knows("ps1")

    try:
        with pytest.raises(GradebookInUse, match="Another program has locked the gradebook"):
            look()
    finally:
        other.close()
    look()  # the control: it is free again


@pytest.mark.parametrize("name", ["my course [2026]", "what?", "a*b"])
def test_a_folder_that_is_a_pattern_to_nbgrader_is_named(tmp_path: Path, repository, name):
    toy_course(tmp_path / name, repository)
    console = Console(record=True, width=500)
    assert grade_class.grade_class(tmp_path / name, [], console) == grade_class.NOT_GRADED
    said = console.export_text()
    assert "Rename the folder" in said and "generate_assignment" not in said
