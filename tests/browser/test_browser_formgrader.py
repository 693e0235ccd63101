"""A teacher opens hostile written answers in nbgrader's formgrader, in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from playwright.sync_api import Page
from rich.console import Console

from gpucourse.grading.commands import grade_class
from gpucourse.grading.submission.assignment import Assignment
from grading_toy import submission, toy_course, write_submission
from jupyter_lab import SCREENSHOTS, TOKEN, Server, chromium
from nbgrader_commands import nbgrader_command

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]

# Each sets `fired` where it acts.
ACTS = "document.title = window.fired = 'fired'"
ANSWERS = {
    "script": f"<script>{ACTS}</script>",
    "handler": f'<img src=x onerror="{ACTS}"><svg onload="{ACTS}"></svg>',
    "link": f'[press](javascript:{ACTS.replace(" ", "")}) <a href="javascript:{ACTS}">press</a>',
    "math": f"$\\href{{javascript:{ACTS.replace(' ', '')}}}{{press}}$",
    "honest": "Because $\\sqrt{N}$ threads *race*, `a < b`:\n\n"
    "```python\nif a < b:\n    c += 1\n```",
}

MISNAMED = "<img src=x onerror=fired>"


@pytest.fixture(scope="module")
def course(tmp_path_factory, repository) -> Path:
    """A class whose only difference is the written answer, graded."""
    root = tmp_path_factory.mktemp("class") / "course"
    source = toy_course(root, repository)
    code, said = nbgrader_command(root, "generate_assignment", "ps1")
    assert code == 0, said
    assignment = Assignment.load(source)
    for student, why in ANSWERS.items():
        path = root / "submitted" / student / "ps1" / "toy.ipynb"
        write_submission(path, submission(assignment, why=why))
    shutil.copytree(root / "submitted" / "script", root / "submitted" / MISNAMED)
    console = Console(record=True, width=300)
    assert grade_class.grade_class(root, [], console) == grade_class.GRADED
    assert f"submitted/{MISNAMED!a}: not graded" in console.export_text()
    return root


@pytest.fixture(scope="module")
def page(course, tmp_path_factory) -> Iterator[Page]:
    """A tab on the teacher's server."""
    server = Server(course, tmp_path_factory.mktemp("teacher"))
    server.start()
    try:
        with chromium() as browser:
            page = browser.new_page()
            page.goto(f"{server.address}/formgrader?token={TOKEN}")
            page.server = server
            yield page
    finally:
        server.stop()


def opened(page: Page, course: Path, student: str) -> None:
    """Formgrader's page of a submission, its mathematics typeset if MathJax can be had."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "gpucourse") as gradebook:
        number = gradebook.find_submission_notebook("toy", "ps1", student).id
    page.goto(f"{page.server.address}/formgrader/submissions/{number}")
    page.locator("#notebook-container").first.wait_for()
    page.wait_for_timeout(500)


def test_threat_65_a_folders_name_reaches_no_page(page, course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "gpucourse") as gradebook:
        assert {student.id for student in gradebook.students} == set(ANSWERS)


@pytest.mark.parametrize("student", ANSWERS)
def test_threat_65_nothing_in_a_written_answer_acts(page, course, student):
    opened(page, course, student)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"formgrader-{student}.png", full_page=True)
    answer = page.locator(".nbgrader_cell .text_cell_render").last
    for link in answer.locator("a").all():
        link.click(no_wait_after=True)
    assert page.evaluate("window.fired") is None
    assert answer.locator("a, img, svg, script, [onerror], [onload]").count() == 0
    if student == "honest":
        assert answer.locator("em").inner_text() == "race"
        assert "c += 1" in answer.locator("pre").inner_text()
        assert "\\sqrt{N}" in answer.text_content()
    else:
        assert "fired" in answer.inner_text()  # what was written can be read
