"""The whole way through nbgrader's own commands: generate, release, fetch, submit, collect,
autograde, feedback, export. What instructors do, with good, wrong and hostile submissions.
"""

from __future__ import annotations

import csv
import getpass
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from traitlets.config.loader import PyFileConfigLoader

from gpucourse.grading.verdict import Verdict
from grading_toy import (
    answers,
    nbgrader,
    notebook_of,
    setup,
    submission,
    test_cell,
    toy,
    toy_notebook,
    write_submission,
)
from nbgrader_commands import in_a_fork, nbgrader_command

pytestmark = pytest.mark.rehearsal

SCRIPT = "<script>alert(1)</script>"


class Class:
    """A course directory with its exchange, and a student's folder."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.root = folder / "course"
        self.student = folder / "student"
        self.exchange = folder / "exchange"
        for path in (self.root, self.student, self.exchange):
            path.mkdir()
        self.exchange.chmod(0o777)
        config = (repository / "grading" / "nbgrader_config.py").read_text()
        exchange = f"c.Exchange.root = {str(self.exchange)!r}\n"
        (self.root / "nbgrader_config.py").write_text(config + exchange)
        (self.student / "nbgrader_config.py").write_text(
            f'c = get_config()\nc.CourseDirectory.course_id = "gpucourse"\n{exchange}'
            f"c.Exchange.cache = {str(folder / 'cache')!r}\n"
        )

    def run(self, *arguments: str, folder: Path | None = None) -> str:
        """An nbgrader command that must succeed; what it said."""
        code, said = nbgrader_command(folder or self.root, *arguments)
        assert code == 0, said
        return said

    def hand_in(self, student: str, assignment: str = "ps1", **changed: str) -> Path:
        """A submission that came by another way than the exchange."""
        path = self.root / "submitted" / student / assignment / "toy.ipynb"
        return write_submission(path, submission(toy(), **changed))

    def verdict(self, student: str) -> Verdict:
        return Verdict.read(self.root / "verdicts" / student / "ps1" / "toy.json")

    def feedback(self, student: str) -> str:
        return (self.root / "feedback" / student / "ps1" / "toy.html").read_text()

    def scores(self) -> dict[str, float]:
        with (self.root / "grades.csv").open() as file:
            return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def me() -> str:
    return getpass.getuser()


@pytest.fixture(scope="module")
def course(tmp_path_factory, repository, me) -> Class:
    """Everything done once; the tests look at what came out."""
    course = Class(tmp_path_factory.mktemp("class"), repository)
    source = course.root / "source" / "ps1" / "toy.ipynb"
    source.parent.mkdir(parents=True)
    notebook = toy_notebook()
    notebook.cells.append(
        new_markdown_cell(
            "YOUR ANSWER", id="why", metadata=nbgrader("why", solution=True, grade=True, points=1)
        )
    )
    nbformat.write(notebook, source)

    course.run("generate_assignment", "ps1")
    course.run("release_assignment", "ps1")
    course.run("fetch_assignment", "ps1", folder=course.student)
    mine = course.student / "ps1" / "toy.ipynb"
    fetched = nbformat.read(mine, as_version=4)
    for cell in fetched.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers(toy()).get(name, cell.source)
        if name == "why":
            cell.source = f"Because. {SCRIPT} [x](javascript:alert(2)) ![i](file:///etc/passwd)"
    fetched.cells.append(
        new_code_cell(
            "1", outputs=[nbformat.v4.new_output("display_data", data={"text/html": SCRIPT})]
        )
    )
    nbformat.write(fetched, mine)
    course.run("submit", "ps1", folder=course.student)
    course.run("collect", "ps1")

    course.hand_in("wrong", double="def double(values):\n    return values\n")
    course.hand_in("partly", total="def total(values):\n    return 0.0\n")
    for damaged, content in (("cut", "{"), ("empty", "")):
        course.hand_in(damaged).write_text(content)
    renamed = course.hand_in("renamed")
    renamed.rename(renamed.with_name("mine (2).ipynb"))
    linked = course.hand_in("linked")
    linked.unlink()
    linked.symlink_to(source)
    twice = course.hand_in("twice")
    document = json.loads(twice.read_text())
    document["cells"] += [document["cells"][2]] * 2
    twice.write_text(json.dumps(document))
    course.hand_in("slow", total=answers(toy())["total"] + "\n " * 15_000)
    late = course.hand_in("forged-time")
    late.with_name("timestamp.txt").write_text("9999-99-99 not a time")
    leak = course.hand_in("leak")
    leak.with_name("leak.txt").symlink_to(source)

    course.said = course.run("autograde", "ps1")
    began = time.monotonic()
    course.run("generate_feedback", "ps1")
    course.feedback_seconds = time.monotonic() - began
    course.run("release_feedback", "ps1")
    course.run("fetch_feedback", "ps1", folder=course.student)
    course.run("export")
    return course


def test_everyone_has_exactly_the_score_of_the_verdict(course, me):
    expected = {
        me: 5.0,
        "wrong": 2.0,
        "partly": 3.0,
        "cut": 0.0,
        "empty": 0.0,
        "renamed": 5.0,
        "linked": 0.0,
        "twice": 5.0,
        "forged-time": 5.0,
        "leak": 5.0,
        "slow": 5.0,
    }
    assert course.scores() == expected
    assert {name: course.verdict(name).earned for name in expected} == expected


def test_reasons_say_what_to_do(course):
    assert "wrong for three numbers" in course.feedback("wrong")
    assert "the sum of ones is wrong" in course.feedback("partly")
    assert "not valid JSON" in course.feedback("cut")
    assert "mine (2).ipynb" in course.feedback("renamed")
    assert "is a link" in course.feedback("linked")
    assert "3 times with the same text" in course.feedback("twice")
    # What kept everything from running is said once, above the table of tests.
    above, table = course.feedback("cut").split('<table class="gpuc-results">')
    assert "not valid JSON" in above and "not valid JSON" not in table.split("</table>")[0]
    # Nor is it news that answers which nobody could read are as they were released.
    assert '"#test-double"' in table and '"#double"' not in table.split("</table>")[0]
    above, table = course.feedback("wrong").split('<table class="gpuc-results">')
    assert "wrong for three numbers" not in above
    assert "wrong for three numbers" in table.split("</table>")[0]


def test_feedback_shows_no_hidden_test_and_no_solution(course, me):
    for name in (me, "wrong", "partly", "cut", "leak", "linked"):
        page = course.feedback(name)
        for hidden in ("hidden_values", "wrong for negative numbers", course.verdict(name).seed):
            assert hidden not in page, (name, hidden)
        assert "hidden tests ran here" in page
    assert "values.sum" not in course.feedback("cut")
    fetched = course.student / "ps1" / "feedback"
    (page,) = fetched.rglob("toy.html")
    assert "hidden_values" not in page.read_text()


def test_threat_31_students_html_is_text(course, me):
    page = course.feedback(me)
    assert "Because." in page
    assert SCRIPT not in page
    assert "javascript:alert" not in page.replace("](javascript:alert(2))", "")
    assert 'href="javascript' not in page
    assert 'src="file' not in page


def test_threat_98_code_that_a_highlighter_reads_slowly(course):
    """Two minutes of a processor for blank lines, without bounds; others keep their colours."""
    assert course.feedback_seconds < 60
    assert course.scores()["slow"] == course.scores()["partly"] + 2
    assert "float(values.sum())" in course.feedback("slow")
    assert '<span class="k">def</span>' in course.feedback("partly")


def test_threat_20_other_files_go_nowhere(course):
    for folder in ("rebuilt", "autograded", "feedback"):
        names = {path.name for path in (course.root / folder).rglob("*") if path.is_file()}
        assert names <= {"toy.ipynb", "toy.html", "timestamp.txt", "submission_secret.txt"}


def test_threat_45_a_forged_timestamp_stops_nobody(course):
    """Nor does a missing one, which stops nbgrader from releasing anybody's feedback: no time."""
    for name in ("forged-time", "wrong"):
        assert (course.root / "rebuilt" / name / "ps1" / "timestamp.txt").read_text() == ""


def test_originals_are_untouched(course):
    assert (course.root / "submitted" / "cut" / "ps1" / "toy.ipynb").read_text() == "{"
    assert (course.root / "submitted" / "linked" / "ps1" / "toy.ipynb").is_symlink()


def test_regrading_reuses_verdicts_and_keeps_manual_grades(course, me):
    from nbgrader.api import Gradebook

    before = course.verdict("wrong")
    with Gradebook(f"sqlite:///{course.root / 'gradebook.db'}", "gpucourse") as gradebook:
        grade = gradebook.find_grade("why", "toy", "ps1", me)
        assert grade.needs_manual_grade
        grade.manual_score = 1
        gradebook.db.commit()
    course.hand_in("partly")  # handed in again, right this time
    said = course.run("autograde", "ps1", "--force")
    course.run("export")
    assert course.scores()[me] == 6.0
    assert course.scores()["partly"] == 5.0
    assert course.verdict("wrong") == before
    assert "partly: toy: 5/5" in said
    assert "wrong: toy" not in said


def test_a_notebook_that_was_not_rebuilt_is_not_graded(course):
    """As when the formgrader's button calls the converter inside the Jupyter server."""

    def press_the_button() -> None:
        from nbgrader.apps import NbGraderAPI
        from nbgrader.coursedir import CourseDirectory
        from traitlets.config import Config

        from gpucourse.grading.nbgrader.steps import configure

        config = Config()
        config.CourseDirectory.root = str(course.root)
        configure(config)
        api = NbGraderAPI(CourseDirectory(config=config), config=config)
        print(api.autograde("ps1", "wrong", force=True))

    graded = course.root / "autograded" / "wrong" / "ps1" / "toy.ipynb"
    before = graded.read_bytes()
    code, said = in_a_fork(press_the_button, course.root)
    assert code == 0
    assert "it has changed nothing" in said and "gpucourse grade" in said
    assert graded.read_bytes() == before, "nor is the graded copy deleted"


def test_without_the_grader_nothing_is_run(course, repository, tmp_path):
    """nbgrader goes on after a configuration error; ours must end the command."""
    config = (repository / "grading" / "nbgrader_config.py").read_text()
    (tmp_path / "nbgrader_config.py").write_text(
        "import sys\nsys.modules['gpucourse.grading.nbgrader.steps'] = None\n" + config
    )
    code, said = nbgrader_command(tmp_path, "autograde", "ps1")
    assert code != 0
    assert "nbgrader_config.py" in said
    assert "AutogradeApp | INFO" not in said


def test_an_infrastructure_fault_is_not_a_zero(course):
    """A test cell that fails by itself: no submission gets a grade, and the command says so."""
    notebook = notebook_of(
        [
            setup("setup", "import numpy as np"),
            *toy_notebook().cells[2:3],
            test_cell("test-double", "1 / 0", 3),
        ]
    )
    source = course.root / "source" / "ps2" / "toy.ipynb"
    source.parent.mkdir(parents=True)
    nbformat.write(notebook, source)
    course.hand_in("alice", assignment="ps2")
    course.run("generate_assignment", "ps2")
    code, said = nbgrader_command(course.root, "autograde", "ps2")
    assert code != 0
    assert "the grader failed, not the student" in said
    assert "ZeroDivisionError" in said
    assert not (course.root / "autograded" / "alice" / "ps2").exists()


def test_a_teachers_server_finds_the_course_in_a_checkout_and_on_a_hub(
    repository, tmp_path, monkeypatch
):
    def root() -> str:
        loader = PyFileConfigLoader("nbgrader_config.py", path=str(repository / "hub" / "teacher"))
        return loader.load_config()["CourseDirectory"]["root"]

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(repository)
    assert root() == str(repository / "grading")
    monkeypatch.chdir(tmp_path)
    assert root() == str(tmp_path / "gpu-course" / "grading")


def test_a_fresh_folder_needs_no_activated_environment(tmp_path: Path, repository: Path):
    """nbgrader starts `alembic` for a new gradebook, which only this environment has."""
    shutil.copy(repository / "grading" / "nbgrader_config.py", tmp_path)
    notebook = tmp_path / "source" / "ps" / "ps.ipynb"
    notebook.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[new_code_cell("1 + 1")]), notebook)
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "ps"],
        cwd=tmp_path,
        env=os.environ | {"PATH": os.defpath},
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "release" / "ps" / "ps.ipynb").is_file()
