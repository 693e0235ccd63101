"""A class on Moodle or Canvas: out of their zip, into their table."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from gpucourse.cli import app
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.commands import lms
from gpucourse.grading.nbgrader.gradebook import GradebookWriter, configuration
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED, TestOutcome, Verdict
from grading_toy import submission, toy_course
from nbgrader_commands import nbgrader_command


@pytest.fixture
def root(tmp_path, repository) -> Path:
    toy_course(tmp_path / "course", repository)
    return tmp_path / "course"


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return path


def notebook(root: Path, why: str = "") -> bytes:
    """The toy, solved; the text that a person reads as released unless it is given."""
    assignment = Assignment.load(root / "source" / "ps1" / "toy.ipynb")
    cells = submission(assignment, why=why or assignment.starters["why"])
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


def said(action, *arguments, **options) -> tuple[int, str]:
    console = Console(record=True, width=500)
    return action(*arguments, **options, console=console), console.export_text()


NAMES = {
    "moodle": [
        "Müller Anna_101_assignsubmission_file/toy.ipynb",
        "Bo Li_102_assignsubmission_file_toy (1).ipynb",
        "O'Neil_Pat_103_assignsubmission_file_/my work.ipynb",
    ],
    "canvas": [
        "mulleranna_101_9001_toy.ipynb",
        "libo_LATE_102_9002_toy-1.ipynb",
        "oneilpat_103_9003_my work.ipynb",
    ],
}


@pytest.mark.parametrize("platform", NAMES)
def test_files_come_out_of_the_platforms_zip_and_can_be_graded(root, tmp_path, platform):
    archive = zipped(
        tmp_path / "all.zip",
        dict.fromkeys(NAMES[platform], notebook(root)) | {"readme.html": b"no student's"},
    )
    code, told = said(lms.collect, root, archive, "ps1", platform)
    assert code == 0 and "now: 3 submissions of ps1" in told and "readme.html" in told
    jobs = Classroom(root).ingest("ps1")
    assert [job.student for job in jobs] == ["101", "102", "103"]
    assert all(job.ingested.fault is None for job in jobs)
    assert all("return 2 * values" in job.ingested.sources["double"] for job in jobs)
    assert not list(root.rglob("submitted/*/ps1/timestamp.txt"))
    # Again: what is there stays, unless it is asked for.
    kept = root / "submitted" / "101" / "ps1" / "toy.ipynb"
    kept.write_text("{")
    code, told = said(lms.collect, root, archive, "ps1", platform)
    assert "Not replaced, because" in told and kept.read_text() == "{"
    code, told = said(lms.collect, root, archive, "ps1", platform, update=True)
    assert code == 0 and kept.read_bytes() == notebook(root)


@pytest.mark.parametrize("between", ["_file/", "_file_/"])
def test_threat_103_files_of_one_name_in_folders_are_all_kept(root, tmp_path, between):
    """Neither the last nor the first of them wins in silence."""
    older = notebook(root).replace(b"2 * values", b"3 * values")
    start = f"Di_107_assignsubmission{between}"
    files = {f"{start}toy.ipynb": notebook(root), f"{start}old/toy.ipynb": older}
    for order in (1, -1):
        archive = zipped(tmp_path / "all.zip", dict([*files.items()][::order]))
        code, told = said(lms.collect, root, archive, "ps1", "moodle", update=True)
        assert code == 0 and "folder's name: 107" in told
        (job,) = Classroom(root).ingest("ps1")
        assert "they differ: 'toy (old).ipynb', 'toy (outermost).ipynb'" in job.ingested.fault
    # The honest controls: copies of one work, and files of other names, are graded.
    same = dict.fromkeys([*files, f"{start}a/b/toy.ipynb"], notebook(root))
    said(lms.collect, root, zipped(tmp_path / "all.zip", same), "ps1", "moodle", update=True)
    (job,) = Classroom(root).ingest("ps1")
    assert job.ingested.fault is None and "2 * values" in job.ingested.sources["double"]
    alone = {f"{start}work/toy.ipynb": notebook(root), f"{start}work/notes.txt": b"mine"}
    said(lms.collect, root, zipped(tmp_path / "all.zip", alone), "ps1", "moodle", update=True)
    (job,) = Classroom(root).ingest("ps1")
    assert job.ingested.fault is None and job.ingested.notices == []


def test_what_is_left_out_of_a_zip_is_called_what_it_is(root, tmp_path):
    files = {
        "Bob_104_assignsubmission_onlinetext.html": b"<p>done</p>",
        "Cy_105_assignsubmission_onlinetext/onlinetext.html": b"<p>done</p>",
        "Cy_105_assignsubmission_file/toy.ipynb": notebook(root),
        "Di_109_assignsubmission_file_.zip": b"PK",
        "Ed_110_assignsubmission_file_.ipynb": notebook(root),
        "Fe_111_assignsubmission_file/.DS_Store": b"x",
        "Fe_111_assignsubmission_file/timestamp.txt": b"2020-01-01",
    }
    code, told = said(lms.collect, root, zipped(tmp_path / "all.zip", files), "ps1", "moodle")
    assert code == 0 and "now: 3 submissions" in told
    assert "typed into the platform" in told and "Bob_104_assignsubmission_onlinetext" in told
    assert "no student's number" not in told and "DS_Store" not in told
    assert "only the grader writes): Fe_111" in told and "No file to grade from: 111" in told
    jobs = {job.student: job.ingested for job in Classroom(root).ingest("ps1")}
    assert set(jobs) == {"105", "109", "110"}
    assert "'unnamed.zip': submit the notebook itself" in jobs["109"].fault
    assert jobs["105"].fault is jobs["110"].fault is None


def test_nothing_leaves_a_students_folder(root, tmp_path):
    """Nor does a file of the student's stand for the time, or a link for a file."""
    prefix = "Eve_101_assignsubmission_file_"
    hostile = {
        f"{prefix}{name}": b"x"
        for name in (
            "../../../gradebook.db",
            "/etc/passwd",
            "..\\..\\x.ipynb",
            "timestamp.txt",
            ".hidden",
            "<b>.ipynb",
        )
    }
    archive = zipped(tmp_path / "all.zip", hostile)
    with zipfile.ZipFile(archive, "a") as packed:
        link = zipfile.ZipInfo(f"{prefix}link.ipynb")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
    before = {path for path in tmp_path.rglob("*") if "submitted" not in path.parts}
    code, _ = said(lms.collect, root, archive, "ps1", "moodle")
    assert code == 0
    assert {path.name for path in (root / "submitted" / "101" / "ps1").iterdir()} == {
        "gradebook.db",
        "passwd",
        "x.ipynb",
    }
    assert {path for path in tmp_path.rglob("*") if "submitted" not in path.parts} == before


def test_what_is_no_such_zip_is_told(root, tmp_path):
    archive = zipped(tmp_path / "all.zip", {"toy.ipynb": b"{}"})
    code, told = said(lms.collect, root, archive, "ps1", "moodle")
    assert code == 1 and "for example 'toy.ipynb'" in told and "download all submissions" in told
    (tmp_path / "bad.zip").write_text("no")
    assert said(lms.collect, root, tmp_path / "bad.zip", "ps1", "canvas")[0] == 1
    code, told = said(lms.collect, root, archive, "ps9", "moodle")
    assert code == 1 and "no source/ps9/" in told and "ps1" in told
    code, told = said(lms.collect, root, archive, "ps1", "blackboard")
    assert code == 1 and "moodle, canvas" in told


# --- marks ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def class_with_marks(tmp_path_factory, repository) -> Path:
    """101 has 5 points, 102 has 2, 104 has 3 and is not in the platform's tables."""
    folder = tmp_path_factory.mktemp("class")
    root = folder / "course"
    toy_course(root, repository)
    code, told = nbgrader_command(root, "generate_assignment", "ps1")
    assert code == 0, told
    archive = zipped(
        folder / "all.zip",
        {
            f"x_{number}_assignsubmission_file_toy.ipynb": notebook(root, why)
            for number, why in ((101, ""), (102, "Because."), (104, ""))
        },
    )
    assert said(lms.collect, root, archive, "ps1", "moodle")[0] == 0
    classroom = Classroom(root)
    with GradebookWriter(classroom, configuration(root)) as book:
        for job, earned in zip(classroom.ingest("ps1"), ((3, 2), (0, 2), (3, 0)), strict=True):
            tests = [
                TestOutcome("test-double", 3, earned[0]),
                TestOutcome("test-total", 2, earned[1]),
            ]
            book.write("ps1", job, Verdict(GRADED, "toy", job.student, tests=tests))
    return root


@pytest.fixture
def graded(class_with_marks, tmp_path) -> Path:
    """A copy of the class for one test: to make it anew takes nbgrader two seconds."""
    return shutil.copytree(class_with_marks, tmp_path / "course")


MOODLE = """\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Feedback comments
Participant 101,"Müller, Anna",a@x.org,Submitted,,{most},
Participant 102,Bo Li,b@x.org,Submitted,,{most},"=1+1, theirs"
Participant 109,Nobody,n@x.org,No submission,,{most},
"""
CANVAS = """Student,ID,SIS Login ID,Section,Project 1 (77)
    Points Possible,,,,{most}
"Müller, Anna",101,am1,A,
"Li, Bo",102,bl2,A,
"Student, Test",9,,A,
"""


@pytest.mark.parametrize(
    ("platform", "table", "column"),
    [
        ("moodle", MOODLE, "Grade"),
        pytest.param("moodle", MOODLE.replace(",", ";"), "Grade", marks=pytest.mark.rehearsal),
        ("canvas", CANVAS, "Project 1 (77)"),
    ],
)
def test_marks_go_into_the_platforms_table(graded, tmp_path, platform, table, column):
    if ";" in table:  # as in countries whose numbers have a comma
        table = table.replace("Müller; Anna", "Müller, Anna")
    path = tmp_path / "grades.csv"
    path.write_text(table.format(most=6), encoding="utf-8")
    code, told = said(lms.export, graded, path, "ps1", platform)
    assert code == 0, told
    written = (tmp_path / "grades-with-marks.csv").read_text(encoding="utf-8")
    before = list(
        csv.reader(
            table.format(most=6).lstrip("\ufeff").splitlines(),
            delimiter=";" if ";" in table else ",",
        )
    )
    after = list(csv.reader(written.splitlines(), delimiter=";" if ";" in table else ","))
    at = before[0].index(column)
    marks = [row[at] for row in after if row[0] != "    Points Possible"][1:]
    assert marks == ["5", "2", ""]
    for one, other in zip(before, after, strict=True):  # nothing else has changed
        assert one[:at] + one[at + 1 :] == other[:at] + other[at + 1 :]
    assert "2 marks of ps1, of 6 points" in told
    assert "graded, but not in the table: 104" in told
    assert "points by hand are still to be given: 102\n" in told
    assert "highest mark" not in told


def test_what_does_not_fit_is_named(graded, tmp_path):
    """Another highest mark, a student twice, points that a person has still to give."""
    path = tmp_path / "grades.csv"
    twice = MOODLE.format(most=100) + "Participant 101,Anna M.,a2@x.org,Submitted,,100,\n"
    path.write_text(twice, encoding="utf-8")
    code, told = said(lms.export, graded, path, "ps1", "moodle")
    assert code == 0
    assert "Moodle has 100 as the highest mark, but the project has 6 points" in told
    assert "more than once in the table, so left empty: 101" in told
    assert "1 mark of" in told
    written = (tmp_path / "grades-with-marks.csv").read_text(encoding="utf-8")
    assert written.count(",2,100") == 1 and ",5,100" not in written


def test_columns_can_be_chosen(graded, tmp_path):
    path = tmp_path / "grades.csv"
    path.write_text("Login,Note\r\n101,\r\nx102,\r\n", encoding="utf-8")
    code, told = said(lms.export, graded, path, "ps1", "moodle")
    assert code == 1 and "has no column 'Identifier'" in told and "--match" in told
    code, told = said(lms.export, graded, path, "ps1", "moodle", match="Login", column="Note")
    assert code == 0 and "1 mark of" in told
    two = CANVAS.replace("Project 1 (77)", "A (1),B (2)")
    path.write_text(two.format(most=6), encoding="utf-8")
    code, told = said(lms.export, graded, path, "ps1", "canvas")
    assert code == 1 and "several columns" in told and "--column" in told


def test_the_commands_are_there(root, tmp_path):
    archive = zipped(tmp_path / "all.zip", {NAMES["canvas"][0]: notebook(root)})
    done = CliRunner().invoke(
        app, ["collect", str(archive), "ps1", "--lms", "canvas", "--course", str(root)]
    )
    assert done.exit_code == 0, done.output
    assert (root / "submitted" / "101" / "ps1" / "toy.ipynb").is_file()
    done = CliRunner().invoke(
        app, ["export", str(tmp_path / "none.csv"), "ps1", "--lms", "canvas", "--course", str(root)]
    )
    assert done.exit_code == 1 and "Nothing was written" in done.output
