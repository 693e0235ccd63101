"""``gpucourse grade`` for a class and ``gpucourse regrade``: gradebook, reports, what is kept."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gpucourse.grading.classes import report
from gpucourse.grading.commands import grade_class
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT, TestOutcome, Verdict
from gpucourse.system.programs import search_path
from grading_toy import submission, toy_course, write_submission

pytestmark = pytest.mark.rehearsal

WRONG = "def double(values):\n    return values\n"
FORMULA = "def double(values):\n    raise ValueError('=HYPERLINK(1)')\n"


def nbgrader_command(root: Path, *arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=root,
        text=True,
        env=os.environ | {"PATH": search_path()},
        capture_output=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def course(tmp_path_factory, repository) -> Path:
    """Five submissions, graded once."""
    root = tmp_path_factory.mktemp("class") / "course"
    source = toy_course(root, repository)
    (source.parent / "data.csv").write_text("1,2\n")
    nbgrader_command(root, "generate_assignment", "ps1")

    assignment = Assignment.load(source)
    for student, changed in {
        "ann": {"why": "Because."},
        "bob": {"double": WRONG},
        "cat": {"double": FORMULA},
        "dan": {"double": WRONG, "why": "So."},
        "eve": {"double": WRONG},
    }.items():
        cells = submission(assignment, **({"why": assignment.starters["why"]} | changed))
        write_submission(root / "submitted" / student / "ps1" / "toy.ipynb", cells)
    (root / "submitted" / "dan" / "ps1" / "toy.ipynb").write_text("{")
    console = Console(record=True, width=200)
    assert grade_class.grade_class(root, [], console) == grade_class.GRADED
    (root / "said.txt").write_text(console.export_text())
    return root


def rows(root: Path) -> dict:
    """Everything of a submission that the gradebook knows, by student and cell."""
    from nbgrader.api import Gradebook

    found = {}
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as gradebook:
        for submission in gradebook.assignment_submissions("ps1"):
            for notebook in submission.notebooks:
                found[submission.student.id] = {
                    "time": submission.timestamp,
                    "score": submission.score,
                    "penalty": notebook.late_submission_penalty,
                    **{
                        grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade)
                        for grade in notebook.grades
                    },
                    **{
                        f"{c.name} comment": (c.auto_comment, c.manual_comment)
                        for c in notebook.comments
                    },
                }
    return found


def verdict(root: Path, student: str) -> Verdict:
    return Verdict.read(root / "verdicts" / student / "ps1" / "toy.json")


def test_everybody_has_one_verdict_and_its_points_in_the_gradebook(course):
    scores = {student: row["score"] for student, row in rows(course).items()}
    assert scores == {"ann": 5.0, "bob": 2.0, "cat": 2.0, "dan": 0.0, "eve": 2.0}
    assert scores == {student: verdict(course, student).earned for student in scores}
    found = rows(course)
    assert found["ann"]["why"] == (None, None, True)  # for a person to read
    assert found["bob"]["why"] == (0.0, None, False)
    assert found["bob"]["why comment"] == ("No response.", None)


def test_summary_plot_and_csv(course):
    said = (course / "said.txt").read_text()
    assert "5 graded, mean 2.2, median 2 of 5" in said
    assert "wrong for three numbers" in said
    picture = (course / "reports" / "ps1" / "scores.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    with (course / "reports" / "ps1" / "scores.csv").open() as file:
        table = {row["student"]: row for row in csv.DictReader(file)}
    assert table["bob"]["test-double"] == "0.0"
    assert table["bob"]["reason"] == "wrong for three numbers"
    assert (table["ann"]["score"], table["ann"]["max_score"]) == ("5.0", "5.0")


@pytest.mark.rehearsal
def test_it_is_what_nbgraders_own_command_writes(course, tmp_path):
    """From the same verdicts: equal rows, equal notebooks, equal files."""
    other = tmp_path / "course"
    shutil.copytree(course, other)
    for path in (other / "autograded", other / "feedback"):
        shutil.rmtree(path, ignore_errors=True)
    (other / "gradebook.db").unlink()
    nbgrader_command(other, "generate_assignment", "ps1", "--force")
    nbgrader_command(other, "autograde", "ps1")
    assert rows(other) == rows(course)
    files = {path.relative_to(other): path for path in (other / "autograded").rglob("*.*")}
    ours = {path.relative_to(course) for path in (course / "autograded").rglob("*.*")}
    assert set(files) == ours
    for name, path in files.items():
        if name.suffix == ".ipynb":
            assert json.loads(path.read_text()) == json.loads((course / name).read_text()), name
        else:
            assert path.read_bytes() == (course / name).read_bytes()
        assert path.stat().st_mode == (course / name).stat().st_mode, name


def test_what_is_on_file_is_not_graded_again(course, monkeypatch):
    """Nor is identical work that another hands in later."""
    before = {path: path.read_text() for path in (course / "verdicts").rglob("*.json")}
    late = course / "submitted" / "fay" / "ps1"
    shutil.copytree(course / "submitted" / "bob" / "ps1", late)
    monkeypatch.setattr(grade_class, "Grader", None)  # nothing may be run
    try:
        assert grade_class.grade_class(course, ["ps1"], Console(quiet=True)) == grade_class.GRADED
        assert {path: path.read_text() for path in before} == before
        assert verdict(course, "fay").tests == verdict(course, "bob").tests
        assert rows(course)["fay"]["score"] == 2.0
    finally:
        shutil.rmtree(late.parent)
        shutil.rmtree(course / "verdicts" / "fay")


def test_manual_grades_and_comments_survive_grading_again(course):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "gpucourse") as gradebook:
        gradebook.find_grade("why", "toy", "ps1", "ann").manual_score = 1.0
        gradebook.find_grade("test-double", "toy", "ps1", "cat").extra_credit = 0.5
        gradebook.find_comment("why", "toy", "ps1", "ann").manual_comment = "Well put."
        gradebook.db.commit()
    seed = verdict(course, "ann").seed
    code = grade_class.regrade(course, ["ann", "cat"], console=Console(quiet=True))
    assert code == grade_class.GRADED
    found = rows(course)
    assert found["ann"]["score"] == 6.0
    assert found["ann"]["why"][:2] == (None, 1.0)
    assert found["ann"]["why comment"] == (None, "Well put.")
    assert found["cat"]["score"] == 2.5
    assert verdict(course, "ann").seed == seed
    grade_class.regrade(course, ["ann"], new_seed=True, console=Console(quiet=True))
    assert verdict(course, "ann").seed != seed


def test_explaining_shows_the_instructor_hidden_values_and_writes_nothing(course):
    before = verdict(course, "bob")
    console = Console(record=True, width=200)
    assert grade_class.regrade(course, ["bob"], explain=True, console=console) == grade_class.GRADED
    text = console.export_text()
    assert "told: wrong for three numbers" in text
    assert "got 1.0, expected 2.0" in text
    assert 'expect_equal(call("double"' in text
    assert before.seed in text
    assert "The stored verdict is the same." in text
    assert verdict(course, "bob") == before
    assert "detail" not in (course / "verdicts/bob/ps1/toy.json").read_text()


def test_what_cannot_be_graded_says_what_to_do(tmp_path, course):
    def told(root: Path, *assignments: str) -> str:
        console = Console(record=True, width=300)
        assert grade_class.grade_class(root, list(assignments), console) == grade_class.NOT_GRADED
        return console.export_text()

    assert "is not a course directory" in told(tmp_path)
    assert "only of: ps1" in told(course, "ps9")
    shutil.copytree(course / "source", tmp_path / "source")
    assert "There are no submissions yet" in told(tmp_path)
    shutil.copytree(course / "submitted", tmp_path / "submitted")
    assert "nbgrader generate_assignment ps1" in told(tmp_path)
    console = Console(record=True, width=300)
    assert grade_class.regrade(course, ["zoe"], console=console) == grade_class.NOT_GRADED
    assert "zoe" in console.export_text()


def test_a_reason_is_no_formula_in_a_spreadsheet():
    outcome = TestOutcome("t", 1, 0, "=1+1")
    text = report.as_csv([Verdict(GRADED, "toy", "-rf", tests=[outcome])])
    assert "'=1+1" in text
    assert "'-rf" in text


def test_the_graders_fault_is_named_and_no_score():
    fault = Verdict(INFRASTRUCTURE_FAULT, "toy", "ann", "the oracle died")
    console = Console(record=True, width=200)
    report.show("ps1", [fault], console)
    assert "ann: the oracle died" in console.export_text()
    assert report.as_csv([fault]).splitlines()[1].startswith("ann,toy,infrastructure_fault,,,")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "is the same"),
        ({"submission_digest": "x"}, "other work"),
        ({"assignment_digest": "x"}, "other tests"),
        ({"tests": []}, "DIFFERS"),
    ],
)
def test_an_explanation_compares_with_the_verdict_on_file(changed, words):
    now = Verdict(GRADED, "toy", tests=[TestOutcome("t", 1, 1)])
    stored = Verdict(**(vars(now) | changed))
    assert words in report.compared(stored, now)
    assert "no stored verdict" in report.compared(None, now)


def test_a_verdict_leaves_whole_rows_or_none(course):
    """nbgrader's calls commit one by one; those of a verdict are kept together or not at all."""
    from nbgrader.api import Gradebook

    from gpucourse.grading.nbgrader.gradebook import GradebookWriter, configuration

    ours = grade_class.Classroom(course)
    (job,) = ours.ingest("ps1", ["eve"])
    with GradebookWriter(ours, configuration(course)) as book:
        # Nothing of gus was collected: after his row there is no time of submission.
        with pytest.raises(FileNotFoundError):
            book.write("ps1", replace(job, student="gus"), ours.stored("ps1", job))
        book.write("ps1", job, ours.stored("ps1", job))
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "gpucourse") as gradebook:
        known = {student.id for student in gradebook.students}
    assert "eve" in known and "gus" not in known


def test_a_row_that_the_gradebook_refuses_stops_nobody_elses(course, tmp_path):
    """By either of its two ways: the database says no to bob's, the file system to cat's."""
    from nbgrader.api import Gradebook

    root = tmp_path / "course"
    shutil.copytree(course, root)
    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as gradebook:
        for student in ("bob", "eve"):
            gradebook.remove_student(student)
    with contextlib.closing(sqlite3.connect(root / "gradebook.db")) as database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON student WHEN NEW.id = 'bob' "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    shutil.rmtree(root / "autograded" / "cat")
    (root / "autograded" / "cat").write_text("not a folder")
    console = Console(record=True, width=300)
    assert grade_class.grade_class(root, [], console) == grade_class.PARTLY_GRADED
    said = console.export_text()
    assert "bob: toy: graded, but not in the gradebook" in said and "no room" in said
    assert "cat: toy: graded, but not in the gradebook" in said
    assert "eve: toy: graded, but" not in said
    found = rows(root)
    assert "bob" not in found and found["eve"]["score"] == 2.0


@pytest.mark.parametrize(
    ("name", "graded"),
    [
        ("José Núñez", True),
        ("b (1)", True),
        ("a-b_c.d", True),
        ("a [x]", False),
        ("b*", False),
        ("c?", False),
        ('d"e', False),
    ],
)
def test_a_name_that_nbgrader_takes_for_something_else_is_told(tmp_path: Path, name, graded):
    """Feedback is looked for by patterns: "a [x]" was graded and left without any."""
    (tmp_path / "submitted" / name / "ps1").mkdir(parents=True)
    room = grade_class.Classroom(tmp_path)
    assert room.students("ps1") == [name] * graded
    told = room.misnamed("ps1")
    assert len(told) == (not graded) and all("Rename the folder" in one for one in told)
