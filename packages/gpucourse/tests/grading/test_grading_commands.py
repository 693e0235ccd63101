"""What people type: ``gpucourse grade`` on one's own notebook, ``gpucourse demo``."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
from pathlib import Path

import nbformat
import pytest
from rich.console import Console
from rich.text import Text

from gpucourse.grading.commands import demo, grade_notebook
from gpucourse.learner import records
from grading_toy import TEST_DOUBLE, submission, toy, toy_notebook, write_submission

pytestmark = pytest.mark.slow

WRONG = """
WRONG = [
    {"name": "identity", "kind": "hard-coded", "fails": ["test-double"],
     "reason": "Wrong for three numbers",
     "cells": {"double": "def double(values):\\\\n    return values\\\\n"}},
    {"name": "only-three", "kind": "hard-coded", "fails": ["test-double"],
     "reason": "wrong for an empty array",
     "cells": {"double": "def double(values):\\\\n    return 2 * np.arange(3.0)\\\\n"}},
]
""".replace("\\\\n", "\\n")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, repository) -> Path:
    """A course with the toy as its only project."""
    root = tmp_path_factory.mktemp("checkout")
    (root / "course" / "projects" / "toy").mkdir(parents=True)
    (root / "course" / "course.toml").touch()
    (root / "course" / "projects" / "toy" / "wrong.py").write_text(WRONG)
    (root / "grading" / "source" / "toy").mkdir(parents=True)
    shutil.copy(repository / "grading" / "nbgrader_config.py", root / "grading")
    nbformat.write(toy_notebook(), root / "grading" / "source" / "toy" / "toy.ipynb")
    return root


@pytest.fixture
def console():
    return Console(record=True, width=200, force_terminal=False)


def test_grading_ones_own_notebook(checkout, console):
    mine = write_submission(checkout / "projects" / "toy.ipynb", submission(toy()))
    assert grade_notebook.grade(mine, console) == grade_notebook.ALL_POINTS
    text = console.export_text()
    assert "toy: 5 of 5 points" in text
    assert "✓ test-double" in text
    assert "isolation: " in text


def test_in_a_cell_of_a_notebook_nothing_turns(checkout, monkeypatch):
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    screen = io.StringIO()
    mine = write_submission(checkout / "projects" / "toy.ipynb", submission(toy()))
    grade_notebook.grade(mine, Console(file=screen, force_terminal=True, width=200))
    assert screen.getvalue().startswith("grading toy.ipynb\n")
    assert "toy: 5 of 5 points" in Text.from_ansi(screen.getvalue()).plain
    assert not re.search(r"[\u2800-\u28ff]|\x1b\[\d*[AKGJ]|\r", screen.getvalue())


def test_a_wrong_answer_in_a_renamed_notebook(checkout, console):
    wrong = submission(toy(), double="def double(values):\n    return values\n")
    mine = write_submission(checkout / "projects" / "my copy [1].ipynb", wrong)
    assert grade_notebook.grade(mine, console) == grade_notebook.NOT_ALL_POINTS
    text = console.export_text()
    assert "✗ test-double" in text
    assert "wrong for three numbers" in text
    assert "hidden_values" not in text


def test_what_cannot_be_graded_says_why(checkout, console, tmp_path, monkeypatch):
    other = write_submission(checkout / "projects" / "other.ipynb", [])
    assert grade_notebook.grade(other, console) == grade_notebook.NOT_GRADED
    assert "not one of the projects: toy" in console.export_text()
    broken = checkout / "projects" / "broken.ipynb"
    broken.write_text("{")
    assert grade_notebook.grade(broken, console) == grade_notebook.NOT_GRADED
    assert "not valid JSON" in console.export_text()
    # Of the project's own name: nothing is recorded of what nobody could read.
    before = records.read().points
    for content in ("", '{"cells": [', "[]", "\xff"):
        mine = checkout / "projects" / "toy.ipynb"
        mine.write_text(content, encoding="latin-1")
        assert grade_notebook.grade(mine, console) == grade_notebook.NOT_GRADED
        text = console.export_text()
        assert "toy.ipynb was not graded, and your points have not changed" in text
        assert "test-double" not in text
    assert records.read().points == before
    monkeypatch.setattr(grade_notebook, "checkouts", lambda *starts: [])
    assert grade_notebook.grade(other, console) == grade_notebook.NOT_GRADED
    assert "In a copy of the whole course, run this command" in console.export_text()


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_notebook_in_the_midst_of_a_save_is_read_again(
    checkout, console, share, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # records of this grading alone
    mine = write_submission(checkout / "projects" / "toy.ipynb", submission(toy()))
    whole = mine.read_bytes()
    mine.write_bytes(whole[: int(share * len(whole))])
    threading.Timer(0.3, mine.write_bytes, [whole]).start()
    assert grade_notebook.grade(mine, console) == grade_notebook.ALL_POINTS
    assert records.read().points == {"toy": (5.0, 5.0)}


@pytest.mark.rehearsal
def test_the_demo_prints_scores_and_reasons_as_expected(checkout, console):
    assert demo.run(console=console, roots=[checkout]) == 0
    text = console.export_text()
    for line in (
        "solution",
        "starter",
        "syntax-error",
        "deleted-cell",
        "duplicated-cell",
        "invalid-json",
        "identity",
        "only-three",
    ):
        assert any(line in row and "✓" in row for row in text.splitlines()), line
    assert "UNEXPECTED" not in text
    # Where there is no terminal, lines tell how far it is.
    for what in ("grading", "gradebook", "feedback"):
        assert f"toy: {what} 11 of 11" in text
    folder = checkout / "build" / "demo"
    assert (folder / "gradebook.db").is_file()
    assert "identity" in (folder / "grades.csv").read_text()
    page = (folder / "feedback" / "identity" / "toy" / "toy.html").read_text()
    assert "hidden_values" not in page
    # It begins with the table that `gpucourse grade` prints, in place of nbgrader's list of links.
    rows = re.findall(r"<tr>(.*?)</tr>", page[page.index('<table class="gpuc-results">') :])
    cells = [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in rows]
    assert cells[0] == ["test", "points", "which property fails"]
    assert cells[1] == [
        '<a href="#test-double">✗ test-double</a>',
        "0/3",
        "wrong for three numbers",
    ]
    assert page.count('<a href="#test-double">') == 2  # the other one is hidden
    assert "#toc{display:none}" in page

    # The same class with expectations that are not met.
    course = demo.Demo(checkout, folder, console)
    assignment = toy()
    students = demo.wrong_answers(assignment, checkout / "course/projects/toy/wrong.py")
    identity, only_three = students
    course.classes = {
        "toy": (
            assignment,
            [
                demo.Expected("identity", "", ("test-double",), "another reason"),
                demo.Expected("only-three", "", ("test-total",), only_three.reason),
                demo.Expected("solution", "", ("test-total",), "x"),
                demo.Expected("nobody", "", (), ""),
                identity,
            ],
        )
    }
    assert course.report() == 4
    text = console.export_text()
    assert "does not contain “another reason”" in text
    assert "not graded: no verdict" in text


def test_a_quick_demo_is_a_small_class_of_the_first_project(checkout, console, tmp_path):
    course = demo.Demo(checkout, tmp_path / "demo", console, quick=True)
    course.build()
    (students,) = (students for _, students in course.classes.values())
    assert [expected.student for expected in students] == [
        "solution",
        "starter",
        "deleted-test",
        "invalid-json",
        "identity",
        "only-three",
    ]


def test_the_demo_clears_no_folder_of_anybody_elses(checkout, console, tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(FileExistsError, match="not made by the demo"):
        demo.run(tmp_path, console, [checkout])
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize(
    "entry",
    [
        {"fails": ["no-such-test"]},
        {"fails": []},
        {"reason": ""},
        {"cells": {"no-such-cell": ""}},
    ],
)
def test_a_wrong_answer_that_cannot_be_judged_is_refused(entry, tmp_path):
    good = {"name": "x", "fails": ["test-double"], "reason": "r", "cells": {"double": ""}}
    (tmp_path / "wrong.py").write_text(f"WRONG = [{good | entry!r}]")
    with pytest.raises(ValueError, match="no such cells"):
        demo.wrong_answers(toy(), tmp_path / "wrong.py")


def test_a_large_class_is_split_by_first_letters():
    assert demo.patterns(["aa", "ba", "ca"]) == ["*"]
    names = [f"{letter}{number}" for letter in "aabc" for number in range(10)]
    assert demo.patterns(names) == ["[a]*", "[bc]*"]
    assert demo.patterns([f"a{number}" for number in range(40)]) == ["[a]*"]


def test_a_project_says_which_tests_its_last_answer_is_for(tmp_path):
    people = demo.damaged(toy(), tmp_path / "wrong.py")
    later = {person.student: person.fails for person in people}
    (tmp_path / "wrong.py").write_text('WITHOUT_LAST = ("test-double",)')
    people = demo.damaged(toy(), tmp_path / "wrong.py")
    named = {person.student: person.fails for person in people}
    changed = {name for name in later if later[name] != named[name]}
    assert changed == {"syntax-error", "deleted-cell"}
    assert {named[name] for name in changed} == {("test-double",)}


def test_damage_is_real(tmp_path):
    """Each damaged file differs from the whole one in what its name says."""
    people = demo.damaged(toy(), tmp_path / "wrong.py")
    files = {expected.student: expected.content for expected in people}
    whole = json.loads(files["solution"])["cells"]
    assert len(json.loads(files["deleted-cell"])["cells"]) == len(whole) - 1
    assert len(json.loads(files["duplicated-cell"])["cells"]) == len(whole) + 1
    assert TEST_DOUBLE.split("###")[0].strip() in json.dumps(whole).replace("\\n", "\n").replace(
        '\\"', '"'
    )
    assert "BEGIN HIDDEN" not in files["solution"]
