"""A term: due dates, names, versions of a project, feedback, and what a class hands in.

``gpucourse grade`` and nbgrader's own commands on a small course directory.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from rich.console import Console
from traitlets.config import Config

from gpucourse.grading.commands import grade_class
from gpucourse.grading.submission.assignment import Assignment
from grading_toy import submission, toy_course, write_submission
from nbgrader_commands import nbgrader_command

pytestmark = pytest.mark.rehearsal

LATE = ("\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
DUE = "2020-01-01 12:00:00 UTC"


class Term:
    """A course directory with the toy assignment, and who handed it in."""

    def __init__(self, root: Path, repository: Path) -> None:
        self.root = root
        self.source = toy_course(root, repository)
        self.config = root / "nbgrader_config.py"
        self.config.write_text(self.config.read_text() + LATE)
        self.nbgrader("generate_assignment", "ps1")

    @property
    def assignment(self) -> Assignment:
        return Assignment.load(self.source)

    def nbgrader(self, *arguments: str) -> str:
        """A command that must succeed; what it said."""
        code, said = nbgrader_command(self.root, *arguments)
        assert code == 0, said
        return said

    def hand_in(self, student: str, time: str | None = None, name: str = "toy.ipynb",
                **changed: str) -> Path:
        cells = submission(self.assignment, **({"why": self.assignment.starters["why"]} | changed))
        path = write_submission(self.root / "submitted" / student / "ps1" / name, cells)
        if time is not None:
            path.with_name("timestamp.txt").write_text(time)
        return path

    def grade(self) -> str:
        """``gpucourse grade``; what it said."""
        console = Console(record=True, width=400)
        assert grade_class.grade_class(self.root, [], console) == grade_class.GRADED
        return console.export_text()

    def book(self) -> Gradebook:
        return Gradebook(f"sqlite:///{self.root / 'gradebook.db'}", "gpucourse")

    def due(self, time: str) -> None:
        with self.book() as book:
            book.update_or_create_assignment("ps1", duedate=time)

    def scores(self) -> dict[str, tuple[float, float]]:
        """Points and late penalty by student."""
        with self.book() as book:
            return {one.student.id: (one.score, one.notebooks[0].late_submission_penalty or 0.0)
                    for one in book.assignment_submissions("ps1")}

    def shown_as_graded(self) -> set[str]:
        """Whom formgrader lists as autograded."""
        config = Config()
        config.CourseDirectory.root = str(self.root)
        return NbGraderAPI(CourseDirectory(config=config)).get_autograded_students("ps1")


@pytest.fixture
def term(tmp_path, repository) -> Term:
    return Term(tmp_path / "course", repository)


def test_lateness_is_never_invented(term):
    """By either command: who has no time is in time, and formgrader shows the work as graded."""
    term.due(DUE)
    term.hand_in("ann")
    term.hand_in("bob", "2019-12-31 12:00:00.5 UTC")
    term.hand_in("cat", "2020-01-02 12:00:00.5 UTC")
    term.hand_in("dan", "")
    term.hand_in("eve", "9999-99-99 not a time")
    said = term.grade()
    expected = {"ann": (5.0, 0.0), "bob": (5.0, 0.0), "cat": (5.0, 5.0), "dan": (5.0, 0.0),
                "eve": (5.0, 0.0)}
    assert term.scores() == expected
    assert "unknown, so no lateness is counted: ann (there is no timestamp.txt)" in said
    assert "counted: dan (timestamp.txt is empty)" in said
    assert "counted: eve (timestamp.txt holds no time" in said
    assert "bob (" not in said and "cat (" not in said
    (term.root / "submitted" / "dan" / "ps1" / "timestamp.txt").unlink()
    (term.root / "submitted" / "eve" / "ps1" / "timestamp.txt").unlink()
    assert term.shown_as_graded() == set(expected)
    said = term.nbgrader("autograde", "ps1", "--force")
    assert term.scores() == expected
    assert "counted: ann, dan, eve (there is no timestamp.txt)" in said
    # Feedback can be released without a time, which nbgrader's exchange reads from a file.
    assert (term.root / "autograded" / "ann" / "ps1" / "timestamp.txt").read_text() == ""


@pytest.mark.parametrize("command", ["gpucourse", "nbgrader"])
def test_a_time_that_is_gone_takes_its_lateness_along(term, command):
    """Collected late, then put there by hand: what was on file of the first does not stay."""
    term.due(DUE)
    path = term.hand_in("ann", "2020-01-02 12:00:00 UTC")
    term.grade()
    assert term.scores() == {"ann": (5.0, 5.0)}
    path.with_name("timestamp.txt").unlink()
    if command == "gpucourse":
        term.grade()
    else:
        term.nbgrader("autograde", "ps1", "--force")
    with term.book() as book:
        assert book.find_submission("ps1", "ann").total_seconds_late == 0


def test_without_a_due_date_a_missing_time_is_not_worth_a_word(term):
    term.hand_in("ann")
    assert "Time of handing in" not in term.grade()


def test_a_clock_in_the_future_is_named_and_stays_refused(term, monkeypatch):
    """Its time comes one day; the grade must not change on that day."""
    from gpucourse.grading.classes import stamps

    term.due(DUE)
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    path = term.hand_in("ann", tomorrow.strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
    term.hand_in("bob", "2020-01-02 12:00:00 UTC")
    said = term.grade()
    assert "ann (timestamp.txt says" in said and "still to come" in said
    assert term.scores() == {"ann": (5.0, 0.0), "bob": (5.0, 5.0)}
    monkeypatch.setattr(stamps, "APART", datetime.timedelta(days=2))  # as two days later
    assert "ann (timestamp.txt says" in term.grade()
    assert term.scores() == {"ann": (5.0, 0.0), "bob": (5.0, 5.0)}
    path.with_name("timestamp.txt").write_text("2020-01-03 12:00:00 UTC")
    assert "Time of handing in" not in term.grade()
    assert term.scores()["ann"] == (5.0, 5.0)


def test_similar_holds_submissions_against_what_is_published(term, monkeypatch):
    """The solution in the source, and other styles of it where course/ lies beside grading/."""
    from gpucourse.grading.classes import alike

    monkeypatch.setattr(alike, "FEWEST_TOKENS", 5)  # the toy's answers are short
    path = term.hand_in("ann")
    other = term.root.parent / "course" / "projects" / "toy"
    other.mkdir(parents=True)
    loops = "def double(values):\n    for one in values:\n        values[one] += values[one]\n"
    entries = [{"name": "loops", "cells": {"double": loops}}]
    (other / "right.py").write_text(f"RIGHT = {entries!r}\n")
    jobs = grade_class.Classroom(path.parents[3]).ingest("ps1", ["ann"])
    found = grade_class.published(term.root, jobs)
    assert "return 2 * values" in found["the published solution"]["double"]
    assert "BEGIN SOLUTION" not in str(found)
    assert found["the published solution, loops"]["double"] == loops
    console = Console(record=True, width=300)
    assert grade_class.grade_class(term.root, [], console, similar=True) == grade_class.GRADED
    report = (term.root / "reports" / "ps1" / "similar.csv").read_text()
    assert report.splitlines()[1] == "ann,the published solution,1.000"


def test_limits_are_those_of_the_configuration(term):
    """Of ingest and of the run, by either command; a name that is none ends it."""
    text, place = term.config.read_text(), "c.GradeWithOracle.unsafe = False\n"
    forever = "def double(values):\n    while True:\n        pass\n"
    term.hand_in("ann", double=forever)
    limits = "c.GradeWithOracle.limits = {'request_seconds': 1.0, 'notebook_bytes': 1_000_000}\n"
    term.config.write_text(text.replace(place, place + limits))
    assert "longer than 1 s" in term.grade()
    term.hand_in("bob", why="x" * 1_100_000)
    assert "larger than 0 MB" in term.nbgrader("autograde", "ps1", "--force")
    term.config.write_text(text.replace(place, "c.GradeWithOracle.limits = {'seconds': 1}\n"))
    console = Console(record=True, width=400)
    assert grade_class.grade_class(term.root, [], console) == grade_class.NOT_GRADED
    assert "there is no limit 'seconds'" in console.export_text()
    code, said = nbgrader_command(term.root, "autograde", "ps1", "--force")
    assert code and "there is no limit 'seconds'" in said


def test_another_name_costs_nothing_and_is_remarked(term):
    """In the feedback too; and two that differ harm nobody else."""
    term.hand_in("ann", name="project_toy.ipynb")
    term.hand_in("bob", name="a.ipynb")
    term.hand_in("bob", name="b.ipynb", double="def double(values):\n    return values\n")
    term.hand_in("cat")
    said = term.grade()
    assert term.scores() == {"ann": (5.0, 0.0), "bob": (0.0, 0.0), "cat": (5.0, 0.0)}
    assert "There are several notebooks" in said
    term.nbgrader("generate_feedback", "ps1")
    page = (term.root / "feedback" / "ann" / "ps1" / "toy.html").read_text()
    assert "project_toy.ipynb" in page and "graded all the same" in page
