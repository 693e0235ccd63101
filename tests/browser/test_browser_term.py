"""A term in a browser: release, hand in, collect, grade, points by hand, feedback, a mended test,
feedback again. Formgrader and the list of assignments are used as people use them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook
from rich.console import Console

from browser_term import Student, Teacher, settings
from gpucourse.grading.commands import grade_class
from grading_toy import toy_course
from jupyter_lab import Server, Tab, chromium

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]


def grade(root: Path) -> str:
    """``gpucourse grade`` in a terminal; what it says."""
    console = Console(record=True, width=300)
    assert grade_class.grade_class(root, [], console) == grade_class.GRADED
    return console.export_text()


def test_a_term_from_its_release_to_the_second_feedback(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, exchange, mine = tmp_path / "course", tmp_path / "exchange", tmp_path / "mine"
    source = toy_course(root, repository)
    exchange.mkdir(mode=0o777)
    exchange.chmod(0o777)
    config = root / "nbgrader_config.py"
    config.write_text(f"{config.read_text()}\nc.Exchange.root = {str(exchange)!r}\n")
    settings(mine, exchange)
    servers = [
        Server(root, tmp_path / "teachers"),
        Server(mine, tmp_path / "students", autosave=False),
    ]
    try:
        for server in servers:
            server.start()
        with chromium() as browser:
            teacher = Teacher(browser.new_page(), servers[0], "ps1")
            student = Student(Tab(browser.new_page(), servers[1]), mine, "ps1")
            teacher.press("education")
            teacher.press("cloud-upload")
            student.press("released", "Fetch")
            student.write(
                "toy.ipynb",
                {
                    "def double(": "def double(values):\n    return 2 * values",
                    "YOUR ANSWER": "Because I say so.",
                },
            )
            student.press("fetched", "Submit")
            teacher.press("cloud-download")
            grade(root)
            with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as book:
                (submission,) = book.assignment_submissions("ps1")
                assert submission.score == 3.0
                number = submission.notebooks[0].id
            teacher.mark(number, "why", 1, "Say more.")
            teacher.press("comment")
            teacher.press("envelope")
            student.press("submitted", "Fetch Feedback")
            said = student.feedback()
            assert "Score: 4.0 / 6.0" in said and "Say more." in said
            # The teacher finds that the first test is worth more, and what was said stays said.
            notebook = nbformat.read(source, as_version=4)
            (test,) = [
                cell
                for cell in notebook.cells
                if cell.metadata.get("nbgrader", {}).get("grade_id") == "test-double"
            ]
            test.metadata.nbgrader.points = 4
            nbformat.write(notebook, source)
            assert "'test-double' gives 4 points instead of 3" in grade(root)
            teacher.press("comment")
            teacher.press("envelope")
            student.press("submitted", "Fetch Feedback")
            said = student.feedback()
            assert "Score: 5.0 / 7.0" in said and "Say more." in said
            assert not re.search(r"edited|differ", said)
            student.tab.picture("term-feedback")
    finally:
        for server in servers:
            server.stop()
