"""A term: due dates, names, versions of a project, feedback, and what a class hands in.

``gpucourse grade`` and nbgrader's own commands on a small course directory.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from rich.console import Console
from traitlets.config import Config

from gpucourse.grading.commands import grade_class
from gpucourse.grading.submission.assignment import Assignment
from grading_toy import (
    nbgrader,
    solution,
    submission,
    test_cell,
    toy_course,
    write_submission,
)
from nbgrader_commands import nbgrader_command

pytestmark = pytest.mark.rehearsal

LATE = "\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"
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

    def hand_in(
        self, student: str, time: str | None = None, name: str = "toy.ipynb", **changed: str
    ) -> Path:
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
            return {
                one.student.id: (one.score, one.notebooks[0].late_submission_penalty or 0.0)
                for one in book.assignment_submissions("ps1")
            }

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
    expected = {
        "ann": (5.0, 0.0),
        "bob": (5.0, 0.0),
        "cat": (5.0, 5.0),
        "dan": (5.0, 0.0),
        "eve": (5.0, 0.0),
    }
    assert term.scores() == expected
    assert "unknown, so no lateness is counted: ann (there is no timestamp.txt)" in said
    assert "counted: dan (timestamp.txt is empty)" in said
    assert "counted: eve (timestamp.txt contains no readable time" in said
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
    assert "Hand-in time unknown" not in term.grade()


def test_a_clock_in_the_future_is_named_and_stays_refused(term, monkeypatch):
    """Its time comes one day; the grade must not change on that day."""
    from gpucourse.grading.classes import timestamps

    term.due(DUE)
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    path = term.hand_in("ann", tomorrow.strftime("%Y-%m-%d %H:%M:%S.%f UTC"))
    term.hand_in("bob", "2020-01-02 12:00:00 UTC")
    said = term.grade()
    assert "ann (timestamp.txt says" in said and "in the future" in said
    assert term.scores() == {"ann": (5.0, 0.0), "bob": (5.0, 5.0)}
    monkeypatch.setattr(timestamps, "APART", datetime.timedelta(days=2))  # as two days later
    assert "ann (timestamp.txt says" in term.grade()
    assert term.scores() == {"ann": (5.0, 0.0), "bob": (5.0, 5.0)}
    path.with_name("timestamp.txt").write_text("2020-01-03 12:00:00 UTC")
    assert "Hand-in time unknown" not in term.grade()
    assert term.scores()["ann"] == (5.0, 5.0)


def test_similar_holds_submissions_against_what_is_published(term, monkeypatch):
    """The solution in the source, and other styles of it where course/ lies beside grading/."""
    from gpucourse.grading.classes import similarity

    monkeypatch.setattr(similarity, "FEWEST_TOKENS", 5)  # the toy's answers are short
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
    assert "project_toy.ipynb" in page and "graded anyway" in page


# --- a project that changes in the middle of a term ---------------------------------------------


def change(term: Term, edit) -> None:
    """The source after `edit(cells by grade_id, notebook)`: what ``make build`` would bring."""
    notebook = nbformat.read(term.source, as_version=4)
    edit(
        {
            cell.metadata.nbgrader.grade_id: cell
            for cell in notebook.cells
            if "nbgrader" in cell.metadata
        },
        notebook,
    )
    nbformat.write(notebook, term.source)


def more_points(cells, notebook) -> None:
    cells["test-total"].metadata.nbgrader.points = 4


def other_test(cells, notebook) -> None:
    cells["test-total"].source = cells["test-total"].source.replace("ones is", "four ones is")


def other_hidden_test(cells, notebook) -> None:
    cells["test-double"].source = cells["test-double"].source.replace("(0, 1, 33)", "(0, 2, 65)")


def other_starter(cells, notebook) -> None:
    cells["total"].source = cells["total"].source.replace("(values):", "(values):\n    # All.")


def a_test_less(cells, notebook) -> None:
    notebook.cells.remove(cells["test-total"])


def a_step_more(cells, notebook) -> None:
    notebook.cells += [
        solution(
            "half",
            "def half(values):\n    ### BEGIN SOLUTION\n"
            "    return values / 2\n    ### END SOLUTION\n",
        ),
        test_cell(
            "test-half",
            'expect(call("half", np.ones(2), where="host")[0] == 0.5, "half of one is wrong")\n',
            2,
        ),
    ]


def feedback(term: Term, student: str) -> str:
    return (term.root / "feedback" / student / "ps1" / "toy.html").read_text()


CHANGES = {
    more_points: (
        {"ann": 7.0, "bob": 4.0},
        "'test-total' gives 4 points instead of 2",
        "Nothing that students see has changed",
    ),
    other_test: (
        {"ann": 5.0, "bob": 2.0},
        "the test of 'test-total' has changed",
        "Students' copies have a different 'test-total'",
    ),
    other_hidden_test: (
        {"ann": 5.0, "bob": 2.0},
        "the test of 'test-double' has changed",
        "Nothing that students see has changed",
    ),
    other_starter: (
        {"ann": 5.0, "bob": 2.0},
        "the starter of 'total' has changed",
        "Students' copies have a different 'total'",
    ),
    a_test_less: (
        {"ann": 3.0, "bob": 0.0},
        "'test-total' was removed",
        "Students' copies have a different 'test-total'",
    ),
    a_step_more: (
        {"ann": 5.0, "bob": 2.0},
        "'test-half' is new, 2 points",
        "Students' copies do not have 'half'",
    ),
}


@pytest.mark.parametrize("edit", CHANGES, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("command", ["gpucourse", "nbgrader"])
def test_a_change_in_the_middle_of_a_term_reaches_grades_and_no_student(term, edit, command):
    """Points, tests and gradebook agree, by either command; nobody is told of edits."""
    expected, words, again = CHANGES[edit]
    term.hand_in("ann")
    term.hand_in("bob", double="def double(values):\n    return values\n")
    total = term.assignment.starters["total"]
    term.hand_in("cat", total=total, double=term.assignment.starters["double"])
    term.grade()
    assert term.scores()["ann"] == (5.0, 0.0)
    old = {
        name: (term.root / "submitted" / name / "ps1" / "toy.ipynb").read_bytes()
        for name in ("ann", "bob", "cat")
    }
    change(term, edit)
    said = term.grade() if command == "gpucourse" else term.nbgrader("autograde", "ps1", "--force")
    assert words in said and again in said, said
    assert {name: score for name, (score, _) in term.scores().items()} == expected | {"cat": 0.0}
    points = sum(cell.points for cell in term.assignment.tests) + 1
    with term.book() as book:
        assert book.find_assignment("ps1").max_score == points
        assert {one.max_score for one in book.assignment_submissions("ps1")} == {points}
    term.nbgrader("generate_feedback", "ps1", "--force")
    for student in ("ann", "bob"):
        page = feedback(term, student)
        assert "What the grader found" not in page, page[page.index("What the grader found") :][
            :400
        ]
        assert f"(Score: {expected[student]} / {points})" in page
    assert "every answer cell is as it was released" in feedback(term, "cat")
    verdict = json.loads((term.root / "verdicts" / "ann" / "ps1" / "toy.json").read_text())
    assert verdict["notices"] == []
    # Again: nothing is said twice. A fresh release goes through, and who began anew is graded.
    assert "has changed since" not in term.grade()
    term.nbgrader("generate_assignment", "ps1", "--force")
    term.hand_in("eve")
    term.grade()
    assert term.scores()["eve"][0] == points - 1
    for name, data in old.items():
        assert (term.root / "submitted" / name / "ps1" / "toy.ipynb").read_bytes() == data


def test_who_lacks_a_new_step_is_named_to_the_teacher(term):
    term.hand_in("ann")
    term.grade()
    change(term, a_step_more)
    said = term.grade()
    assert "began with an earlier version, without half: ann." in said


def test_what_a_student_did_edit_is_told_after_a_change_too(term):
    """An honest control: the versions excuse what was handed out, and nothing else."""
    term.hand_in("ann")
    term.grade()
    change(term, other_test)
    path = term.hand_in("bob")
    document = json.loads(path.read_text())
    cells = {
        cell["metadata"].get("nbgrader", {}).get("grade_id"): cell for cell in document["cells"]
    }
    cells["test-total"]["source"] = "pass"
    cells["test-double"]["metadata"]["nbgrader"]["points"] = 1000
    document["cells"].remove(cells["setup"])
    path.write_text(json.dumps(document))
    term.grade()
    verdict = json.loads((term.root / "verdicts" / "bob" / "ps1" / "toy.json").read_text())
    told = "\n".join(verdict["notices"])
    assert "'test-total' differs" in told and "'test-double' were edited" in told
    assert "'setup' was deleted" in told


def test_points_that_a_person_gave_are_not_taken_away_by_a_change(term):
    term.hand_in("ann", why="Because.")
    term.grade()
    with term.book() as book:
        book.find_grade("why", "toy", "ps1", "ann").manual_score = 1.0
        book.db.commit()
    change(term, lambda cells, notebook: notebook.cells.remove(cells["why"]))
    console = Console(record=True, width=400)
    assert grade_class.grade_class(term.root, [], console) == grade_class.NOT_GRADED
    assert "'why' was removed from the source" in console.export_text()
    assert term.scores()["ann"] == (6.0, 0.0)
    change(
        term,
        lambda cells, notebook: notebook.cells.append(
            nbformat.v4.new_markdown_cell(
                "YOUR ANSWER", metadata=nbgrader("why", solution=True, grade=True, points=0)
            )
        ),
    )
    term.grade()
    with term.book() as book:
        assert book.find_grade("why", "toy", "ps1", "ann").manual_score == 1.0
    assert list(term.root.glob("gradebook.db.before-*"))


# --- feedback that arrives ----------------------------------------------------------------------


def hand_in_again(term: Term, book: Gradebook) -> str:
    term.hand_in("ann", total="def total(values):\n    return 0.0\n")
    return "(Score: 3.0 / 6.0)"


def points_by_hand(term: Term, book: Gradebook) -> str:
    book.find_grade("why", "toy", "ps1", "ann").manual_score = 1.0
    return "(Score: 6.0 / 6.0)"


def a_comment(term: Term, book: Gradebook) -> str:
    book.find_comment("why", "toy", "ps1", "ann").manual_comment = "Well put, said late."
    return "Well put, said late."


def another_name(term: Term, book: Gradebook) -> str:
    term.hand_in("ann", why="Because.").rename(
        term.root / "submitted" / "ann" / "ps1" / "toy (3).ipynb"
    )
    return "toy (3).ipynb"


def extra_credit(term: Term, book: Gradebook) -> str:
    book.find_grade("test-double", "toy", "ps1", "ann").extra_credit = 0.5
    return "(Score: 5.5 / 6.0)"


def lateness(term: Term, book: Gradebook) -> str:
    path = term.hand_in("ann", "2020-01-02 12:00:00 UTC", why="Because.")
    book.update_or_create_assignment("ps1", duedate=DUE)
    return "handed in late" if path else ""


@pytest.mark.parametrize(
    "edit",
    [hand_in_again, points_by_hand, a_comment, another_name, extra_credit, lateness],
    ids=lambda edit: edit.__name__,
)
def test_feedback_says_what_the_gradebook_says(term, edit):
    """In README's order, without --force; and what has not changed is left as it is."""
    for student in ("ann", "bob"):
        term.hand_in(student, why="Because.")
    term.grade()
    term.nbgrader("generate_feedback", "ps1")
    others = term.root / "feedback" / "bob" / "ps1" / "toy.html"
    before = others.stat().st_mtime_ns
    with term.book() as book:
        words = edit(term, book)
        book.db.commit()
    assert words not in feedback(term, "ann")
    term.grade()
    if edit is another_name:
        said = term.nbgrader("generate_feedback", "--assignment=ps1")
    else:
        said = term.nbgrader("generate_feedback", "ps1")
    assert words in feedback(term, "ann")
    assert "1 page made again, because the gradebook has changed: ann" in said
    assert others.stat().st_mtime_ns == before
    said = term.nbgrader("generate_feedback", "ps1")
    assert "no longer say" not in said


def test_a_name_put_right_takes_its_remark_along(term):
    """The same answers in another file: they are not run again, and what is said is of the file."""
    path = term.hand_in("ann", name="mine.ipynb")
    assert "mine.ipynb" in term.grade()
    path.rename(path.with_name("toy.ipynb"))
    assert "mine.ipynb" not in term.grade()
    verdict = json.loads((term.root / "verdicts" / "ann" / "ps1" / "toy.json").read_text())
    graded = (term.root / "autograded" / "ann" / "ps1" / "toy.ipynb").read_text()
    assert "mine.ipynb" not in graded
    assert verdict["earned"] == 5.0


def test_due_dates_penalties_and_extensions_are_as_readme_says(term, repository):
    """nbgrader's own command, a rule of one's own, more time for one student."""
    readme = (repository / "grading" / "README.md").read_text()
    (rule,) = re.findall(r"```python\n# late\.py.*?\n(from .*?)```", readme, re.DOTALL)
    (term.root / "late.py").write_text(rule)
    term.config.write_text(
        term.config.read_text().replace(LATE, "")
        + "\nc.AssignLatePenalties.plugin_class = 'late.ADayATenth'\n"
    )
    for student in ("ann", "bob"):
        term.hand_in(student, "2020-12-02 10:00:00 UTC")
    term.grade()
    (extension,) = re.findall(
        r"```python\nfrom nbgrader\.api import Gradebook\n\n(.*?)```", readme, re.DOTALL
    )
    with contextlib.chdir(term.root):
        exec(extension.replace("01_fill_a_histogram", "ps1"), {"Gradebook": Gradebook})
    (command,) = re.findall(r'nbgrader (db assignment add) \S+ --duedate="(.+?)"', readme)
    due = command[1].replace("2026", "2020")
    term.nbgrader(*command[0].split(), "ps1", f"--duedate={due}")
    with contextlib.chdir(term.root):
        term.grade()
    # 22:59 UTC of 30 November: 35 hours late, two days begun.
    assert term.scores() == {"ann": (5.0, 0.0), "bob": (5.0, 1.0)}
