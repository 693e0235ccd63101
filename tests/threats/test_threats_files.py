"""Rows 33 to 45 of the list of threats: the file and the notebook."""

from __future__ import annotations

from functools import partial

import nbformat
import pytest

from gpucourse.grading.verdict import GRADED, STUDENT_FAULT
from threats import Course, each_attempt, holds, rows
from threats_files import ATTEMPTS, MALFORMED

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal


attempts = partial(each_attempt, ATTEMPTS)


def rebuilt(course: Course, attempt) -> nbformat.NotebookNode:
    folder = course.root / "rebuilt" / attempt.name / "host"
    return nbformat.read(folder / "host.ipynb", as_version=4)


def grading_data(notebook: nbformat.NotebookNode) -> list:
    """What nbgrader reads of each cell, in order."""
    return [
        (cell.cell_type, dict(cell.metadata.get("nbgrader", {})))
        for cell in notebook.cells
        if "gpucourse" not in cell.metadata
    ]


def like_the_instructors(course: Course, attempt) -> None:
    notebook = rebuilt(course, attempt)
    nbformat.validate(notebook)
    released = course.assignments["host"].released
    assert grading_data(notebook) == grading_data(released)
    assert notebook.metadata.kernelspec == released.metadata.kernelspec


@attempts(33)
def test_threat_33_deleted_test_cells(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert any("'test-double'" in notice for notice in verdict.notices)
    like_the_instructors(threat_course, attempt)


@attempts(34)
def test_threat_34_duplicated_cells(attempt, threat_course, server):
    holds(attempt, threat_course, server)
    like_the_instructors(threat_course, attempt)


@attempts(35)
def test_threat_35_edited_grading_data(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert verdict.points == 5.0
    like_the_instructors(threat_course, attempt)


@attempts(36)
def test_threat_36_changed_cell_types(attempt, threat_course, server):
    holds(attempt, threat_course, server)
    like_the_instructors(threat_course, attempt)


@attempts(37)
def test_threat_37_invented_cells(attempt, threat_course, server):
    holds(attempt, threat_course, server)
    like_the_instructors(threat_course, attempt)


@attempts(38)
def test_threat_38_reordered_cells(attempt, threat_course, server):
    holds(attempt, threat_course, server)
    like_the_instructors(threat_course, attempt)


@attempts(39)
def test_threat_39_wrong_kernel_name(attempt, threat_course, server):
    holds(attempt, threat_course, server)
    like_the_instructors(threat_course, attempt)


@attempts(40)
def test_threat_40_malformed_notebooks(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert verdict.kind == (STUDENT_FAULT if attempt.name in MALFORMED else GRADED)
    like_the_instructors(threat_course, attempt)


@attempts(41)
def test_threat_41_a_large_notebook(attempt, threat_course, server, monkeypatch):
    """Refused by its size: it is not parsed."""
    import json

    whole = json.loads
    monkeypatch.setattr(
        json,
        "loads",
        lambda text, **options: (
            pytest.fail("parsed") if len(text) > 10_000_000 else whole(text, **options)
        ),
    )
    assert holds(attempt, threat_course, server).kind == STUDENT_FAULT


@attempts(42)
def test_threat_42_renamed_notebook(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(43)
def test_threat_43_links_pipes_devices(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert verdict.kind == STUDENT_FAULT
    sources = [cell.source for cell in rebuilt(threat_course, attempt).cells]
    assert not any("return 2 * values" in source for source in sources)


@attempts(44)
def test_threat_44_zip_slip_and_odd_names(attempt, threat_course, server):
    holds(attempt, threat_course, server)
    root = threat_course.root
    assert not list(root.parent.rglob("escaped-7f3a.txt"))
    kept = {path.name for path in (root / "rebuilt" / attempt.name / "host").iterdir()}
    assert kept == {"host.ipynb", "timestamp.txt", "submission_secret.txt"}


@pytest.mark.parametrize("name", ["-x", "a;b", "ü", "a b", "x]", "(1)"])
def test_threat_44_odd_names_of_students(name, threat_course):
    from dataclasses import replace

    attempt = replace(rows(ATTEMPTS, 44)[0], name=f"{name}-7f3a")
    job = threat_course.ingest(attempt)
    assert job.student == attempt.name
    assert job.ingested.fault is None
    assert attempt.name in threat_course.classroom.students("host")


@attempts(45)
def test_threat_45_forged_timestamps(attempt, threat_course, server):
    from nbgrader.utils import parse_utc

    holds(attempt, threat_course, server)
    time = threat_course.root / "rebuilt" / attempt.name / "host" / "timestamp.txt"
    told = time.read_text()
    assert told == "" or parse_utc(told).year >= 1  # empty: nbgrader reads it as no time
