"""Which file is graded, and what is left out of it before anything is parsed."""

from __future__ import annotations

import base64
import json
import shutil
import tracemalloc
from pathlib import Path

import pytest

from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.limits import MEGABYTE, Limits, limits_from
from gpucourse.grading.submission import without_outputs
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import ingest_cells, ingest_file
from gpucourse.grading.submission.reading import Unreadable, parse_cells
from gpucourse.grading.submission.versions import Version
from grading_toy import (
    notebook_of,
    solution,
    submission,
    toy,
    toy_course,
    toy_notebook,
    write_submission,
)


@pytest.fixture
def room(tmp_path, repository) -> Classroom:
    toy_course(tmp_path / "course", repository)
    return Classroom(tmp_path / "course")


def hand_in(room: Classroom, student: str, *names: str, **changed: str) -> Path:
    """The folder of a submission that holds the same notebook under each name."""
    folder = room.root / "submitted" / student / "ps1"
    assignment = Assignment.load(room.sources("ps1")[0])
    for name in names:
        write_submission(folder / name, submission(assignment, **changed))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def taken(room: Classroom, student: str):
    (job,) = room.ingest("ps1", [student])
    return job.ingested


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["toy (1).ipynb", "project_toy.ipynb", "Müller, Anna – toy.ipynb", "TOY.IPYNB", "mine.ipynb"],
)
def test_the_one_notebook_with_the_assignments_cells_is_graded_whatever_its_name(room, name):
    hand_in(room, "ann", name)
    one = taken(room, "ann")
    assert one.fault is None
    assert "return 2 * values" in one.sources["double"]
    assert any(name in told and "but was released as 'toy.ipynb'" in told for told in one.notices)


def test_a_name_that_is_right_wins_and_the_other_is_named(room):
    hand_in(room, "ann", "toy.ipynb")
    hand_in(room, "ann", "toy (1).ipynb", double="def double(values):\n    return values\n")
    one = taken(room, "ann")
    assert one.fault is None and "return 2 * values" in one.sources["double"]
    assert any("'toy (1).ipynb' was ignored" in told for told in one.notices)


def test_the_same_notebook_twice_is_one(room):
    hand_in(room, "ann", "toy (1).ipynb", "toy (2).ipynb")
    assert taken(room, "ann").fault is None


def test_two_that_differ_are_their_authors_to_choose_from(room):
    hand_in(room, "ann", "a.ipynb")
    hand_in(room, "ann", "b.ipynb", double="def double(values):\n    return values\n")
    fault = taken(room, "ann").fault
    assert "'a.ipynb', 'b.ipynb'" in fault and "under the name 'toy.ipynb'" in fault


def test_other_notebooks_are_not_taken_for_it(room):
    folder = hand_in(room, "ann")
    cells = json.loads(json.dumps(notebook_of([solution("fold", "x = 1")]).cells))
    write_submission(folder / "other.ipynb", cells)
    fault = taken(room, "ann").fault
    assert "'other.ipynb', without the cells of this assignment" in fault
    hand_in(room, "ann", "mine.ipynb")
    assert taken(room, "ann").fault is None


def test_nothing_that_can_be_graded_has_its_reason(room):
    folder = hand_in(room, "empty")
    assert "There is no notebook at all" in taken(room, "empty").fault
    (folder / "timestamp.txt").write_text("2026-01-01 12:00:00 UTC")
    assert "There is no notebook at all" in taken(room, "empty").fault
    for name in ("toy.zip", "toy.py"):
        folder = hand_in(room, name)
        (folder / name).write_bytes(b"PK")
        assert f"There is '{name}': submit the notebook itself" in taken(room, name).fault
    (hand_in(room, "cut") / "mine.ipynb").write_text("{")
    assert "There is 'mine.ipynb'. The notebook is not valid JSON" in taken(room, "cut").fault
    other = hand_in(room, "hostile", "mine.ipynb")
    (other / "mine.ipynb").rename(room.root / "elsewhere.ipynb")
    (other / "mine.ipynb").symlink_to(room.root / "elsewhere.ipynb")
    assert "is a link" in taken(room, "hostile").fault


def test_of_two_notebooks_in_an_assignment_none_is_taken_for_the_other(room):
    source = room.sources("ps1")[0]
    shutil.copy(source, source.with_name("second.ipynb"))
    hand_in(room, "ann", "second.ipynb")
    faults = {job.source.stem: job.ingested.fault for job in room.ingest("ps1", ["ann"])}
    assert faults["second"] is None
    assert "There is no file 'toy.ipynb'" in faults["toy"]


# --- outputs ----------------------------------------------------------------------------------


def notebook(cells: list[dict], **more: object) -> dict:
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def with_outputs(size: int) -> dict:
    """The toy, solved, with pictures, text, HTML, widgets and a pasted picture of `size` bytes."""
    cells = submission(toy())
    picture = base64.b64encode(b"p" * (size // 4)).decode()
    lines = "\n".join(picture[n : n + 76] for n in range(0, len(picture), 76))
    cells[1]["outputs"] = [
        {"output_type": "display_data", "data": {"image/png": lines}, "metadata": {}}
    ]
    cells[2]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": ['"[{ \\ }]"\n'] * (size // 60)}
    ]
    cells[0]["attachments"] = {"x.png": {"image/png": picture}}
    return notebook(cells, metadata={"widgets": {"state": picture, "outputs": [[{}]]}})


@pytest.mark.parametrize("indent", [None, 1])
def test_twenty_megabytes_of_outputs_are_no_reason_for_no_points(tmp_path, indent):
    path = tmp_path / "toy.ipynb"
    path.write_text(json.dumps(with_outputs(20 * MEGABYTE), indent=indent))
    assert path.stat().st_size > 15 * MEGABYTE
    assignment = toy()
    one = ingest_file(path, assignment)
    assert one.fault is None and one.notices == []
    assert one.sources == ingest_cells(submission(assignment), assignment, Limits()).sources


@pytest.mark.parametrize(
    "document",
    [
        with_outputs(2000),
        notebook([]),
        notebook([{"source": '"outputs": [1, {', "outputs": None}]),
        notebook([{"outputs": [], "attachments": {"a": []}, "source": ['\\"', "]"]}]),
        notebook([{"metadata": {"outputs": [1], "nbgrader": {"attachments": {"x": 1}}}}]),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_left_out_is_that_and_nothing_else(document, indent):
    expected = json.loads(json.dumps(document))
    for cell in expected["cells"]:
        for name in {"outputs", "attachments"} & set(cell):
            if cell[name] is not None:
                cell[name] = type(cell[name])()
    expected["metadata"] = {}
    text = json.dumps(document, indent=indent)
    assert json.loads(without_outputs.without_outputs(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"cells": [{"outputs": [',
        '{"cells": [{"outputs": ["',
        "]]]]{{{{",
        "",
        "{'",
        '{"cells": [{"outputs": ]}]',
        '{"metadata": {"a": [}}',
        '\\"\\',
    ],
)
def test_what_is_no_json_stays_so_and_is_no_accident(text):
    with pytest.raises(json.JSONDecodeError):
        json.loads(without_outputs.without_outputs(text))


def test_a_file_of_many_small_values_takes_bounded_memory(monkeypatch):
    """Python would keep each at 60 bytes: only so many are looked at, and none is kept."""
    monkeypatch.setattr(without_outputs, "MOST_PARTS", 100_000)
    hostile = ('{"nbformat": 4, "cells": [{"outputs": [' + "[],[]," * 400_000).encode()
    tracemalloc.start()
    with pytest.raises(Unreadable, match="more than 100000 values"):
        parse_cells(hostile, MEGABYTE)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * len(hostile)


def test_windows_line_ends_are_no_difference():
    assignment = toy()
    cells = submission(assignment)
    for cell in cells:
        cell["source"] = cell["source"].replace("\n", "\r\n")
    one = ingest_cells(cells, assignment, Limits())
    assert one.notices == []
    assert one.sources == ingest_cells(submission(assignment), assignment, Limits()).sources
    starter = assignment.starters["double"].replace("\n", "\r\n")
    unsolved = ingest_cells(submission(assignment, double=starter), assignment, Limits())
    assert unsolved.unchanged(assignment) == ["double"]


# --- limits -----------------------------------------------------------------------------------


def test_limits_are_set_by_name():
    changed = limits_from({"test_seconds": 120, "notebook_bytes": 3 * MEGABYTE})
    assert (changed.test_seconds, changed.notebook_bytes) == (120, 3 * MEGABYTE)
    assert changed.total_seconds == Limits().total_seconds
    assert limits_from({}) == Limits()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"test_second": 1}, r"no limit 'test_second'. The limits are: request_seconds, "),
        ({"test_seconds": "60"}, "test_seconds must be a number above 0, not '60'"),
        ({"threads": 1.5}, "a whole number"),
        ({"threads": 0}, "above 0"),
        ({"gpu": 1}, "True or False"),
        ({"test_seconds": float("nan")}, "above 0"),
        ({"threads": True}, "above 0"),
    ],
)
def test_a_limit_that_cannot_be_is_named(settings, words):
    with pytest.raises(ValueError, match=words):
        limits_from(settings)


# --- what lies about --------------------------------------------------------------------------


def test_what_lies_in_submitted_and_is_graded_by_no_assignment_is_named(room):
    hand_in(room, "ann", "toy.ipynb")
    submitted = room.root / "submitted"
    (submitted / "loose.ipynb").write_text("{}")
    (submitted / "bob").mkdir()
    (submitted / "bob" / "toy.ipynb").write_text("{}")
    for student in ("bob", "cat"):
        (submitted / student / "other-course-1").mkdir(parents=True)
    (submitted / ".DS_Store").write_text("")
    said = room.left_alone()
    assert any(
        "loose.ipynb (in no student's folder: put it into submitted/STUDENT/ASSIGNMENT/)" in one
        for one in said
    )
    assert any("bob/toy.ipynb (not in an assignment's folder" in one for one in said)
    assert any(
        "bob/other-course-1, cat/other-course-1 (there is no source/other-course-1/" in one
        for one in said
    )
    assert len(said) == 3 and "DS_Store" not in str(said)
    assert room.students("ps1") == ["ann"]


@pytest.mark.parametrize("names", [("Ann", "ann"), ("Mu\u0308ller", "M\u00fcller"), ("bo", "bo ")])
def test_a_student_who_is_there_twice_is_named(room, names):
    for name in names:
        hand_in(room, name, "toy.ipynb")
    hand_in(room, "zoe", "toy.ipynb")
    (said,) = room.left_alone()
    assert said.startswith("One student or several? ") and "zoe" not in said
    assert all(name in said for name in names)


def test_nothing_is_said_of_a_class_in_order(room):
    hand_in(room, "ann", "toy.ipynb")
    assert room.left_alone() == []


# --- versions of a project ---------------------------------------------------------------------


def version(edit) -> Version:
    """The toy as it would be handed out after `edit(cells)`."""
    changed = toy_notebook()
    edit(changed.cells)
    return Version.of(Assignment("toy", changed).released)


def without_a_step(cells: list) -> None:
    del cells[4:]


def with_another_text(cells: list) -> None:
    cells[1].source += "\n# before"
    cells[2].source = cells[2].source.replace("(values):", "(values):\n    # before")
    cells[3].metadata.nbgrader.points = 7


@pytest.mark.parametrize("edit", [without_a_step, with_another_text])
def test_what_was_handed_out_before_was_edited_by_nobody(edit):
    earlier, assignment = version(edit), toy()
    cells = json.loads(json.dumps([dict(cell) for cell in earlier.cells.values()]))
    one = ingest_cells(cells, assignment, Limits(), [earlier])
    assert one.notices == []
    assert one.sources == assignment.starters  # another starter is no answer
    assert one.lacks == (["total"] if edit is without_a_step else [])
    alone = ingest_cells(cells, assignment, Limits())
    assert alone.notices and not alone.lacks


def test_what_was_deleted_is_told_whatever_versions_there_were():
    earlier, assignment = version(with_another_text), toy()
    cells = [
        cell
        for cell in submission(assignment)
        if cell["metadata"].get("nbgrader", {}).get("grade_id") != "test-double"
    ]
    one = ingest_cells(cells, assignment, Limits(), [earlier])
    assert any("'test-double' was deleted" in told for told in one.notices)
