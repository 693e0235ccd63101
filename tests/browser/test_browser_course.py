"""The way of a learner through JupyterLab, in a browser: welcome page, lecture, project, Validate,
submission; then the instructor's commands; then the feedback, read in the browser.

Each step is a fixture that goes on where the one before stopped. What the browser showed is kept in
build/browser/.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from gpucourse.publish.release import handout as release
from gpucourse.publish.source.reader import read_course
from jupyter_lab import Server, Tab, chromium, copy_course
from nbgrader_commands import nbgrader_command

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]

PROJECT = "01_fill_a_histogram"
# As a learner types it: the editor indents, and closes brackets.
BIN_INDEX = [
    "if value < low:",
    "return 0",
    None,
    "if value < high:",
    "return 1 + int((value - low) / (high - low) * bins)",
    None,
    "return bins + 1",
]


@pytest.fixture(scope="module")
def instructor(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A course directory whose first project is released to an exchange."""
    folder = tmp_path_factory.mktemp("class")
    exchange, course = folder / "exchange", folder / "course"
    exchange.mkdir()
    exchange.chmod(0o777)
    source = course / "source" / PROJECT / f"{PROJECT}.ipynb"
    source.parent.mkdir(parents=True)
    source.write_bytes((repository / "grading" / source.relative_to(course)).read_bytes())
    config = (repository / "grading" / "nbgrader_config.py").read_text()
    (course / "nbgrader_config.py").write_text(f"{config}\nc.Exchange.root = {str(exchange)!r}\n")
    for command in ("generate_assignment", "release_assignment"):
        instruct(course, command)
    return course


def instruct(course: Path, command: str) -> None:
    code, said = nbgrader_command(course, command, PROJECT)
    assert code == 0, said


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory, instructor: Path) -> Iterator[Tab]:
    """A learner's JupyterLab on a copy of the course."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("learner")
    copy_course(folder)
    # What nbgrader is to fetch; the welcome page looks for it in the same place.
    shutil.rmtree(folder / "projects" / PROJECT)
    (home / "config").mkdir()
    (home / "config" / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'gpucourse'\n"
        f"c.Exchange.root = {str(instructor.parent / 'exchange')!r}\n"
        f"c.Exchange.assignment_dir = {str(folder / 'projects')!r}\n"
        f"c.Exchange.cache = {str(home / 'cache')!r}\n"
    )
    server = Server(folder, home)
    server.start()
    try:
        with chromium() as browser:
            tab = Tab(browser.new_page(viewport={"width": 1280, "height": 800}), server)
            yield tab
            tab.picture("course-at-the-end")
    finally:
        server.stop()


@pytest.fixture(scope="module")
def welcome(tab: Tab) -> Tab:
    """The page that JupyterLab opens on, its first cell run."""
    tab.open_notebook("welcome.ipynb")
    tab.run(tab.cell("gpucourse.progress()"))
    tab.picture("1-welcome")
    return tab


def test_the_welcome_page_says_which_device_and_lists_the_course(welcome: Tab):
    output = welcome.cell("gpucourse.progress()").locator(".jp-OutputArea")
    expect(output).to_contain_text("Virtual GPU (CPU), compute capability 9.0")
    expect(output).to_contain_text("Go on with: Puzzles 1: first steps")
    expect(output.get_by_role("link", name="Thinking in warps")).to_be_hidden()
    output.get_by_text(re.compile(r"All \d+ lessons")).click()
    expect(output.get_by_role("link", name="Thinking in warps")).to_be_visible()
    expect(
        output.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']")
    ).to_have_count(0)


@pytest.fixture(scope="module")
def lecture(welcome: Tab) -> Tab:
    """The first lecture, opened by its link and run as a whole."""
    welcome.page.get_by_role("link", name="Why GPUs, and when not").first.click()
    expect(welcome.page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Why GPUs")
    welcome.wait_for_kernel("lectures/02_why_gpus.ipynb")
    welcome.run_all()
    figure = welcome.page.locator(".jp-NotebookPanel:visible .jp-OutputArea-output img").first
    figure.scroll_into_view_if_needed()
    welcome.picture("2-lecture")
    return welcome


def test_a_lecture_runs_as_a_whole_and_its_checks_say_what_is_missing(lecture: Tab):
    panel = lecture.page.locator(".jp-NotebookPanel:visible")
    prompts = panel.locator(".jp-CodeCell .jp-InputArea-prompt").all_text_contents()
    assert len(prompts) > 10
    assert all(re.fullmatch(r"\[\d+\]:", prompt.strip()) for prompt in prompts), prompts
    # Starters are not answers: each check says ✗, none passes, and nothing else has gone wrong.
    boxes = panel.locator(".jp-OutputArea-output b").all_text_contents()
    assert any(box.startswith("✗") for box in boxes) and not any(b.startswith("✓") for b in boxes)


@pytest.fixture(scope="module")
def project(lecture: Tab) -> Tab:
    """The project, fetched from the exchange, its first exercise answered by typing."""
    tab = lecture
    tab.shut_down_kernel("lectures/02_why_gpus.ipynb")
    tab.menu("Nbgrader", "Assignment List")
    row = tab.page.locator("#released_assignments_list .list_item", has_text=PROJECT)
    row.get_by_role("button", name="Fetch").click()
    expect(tab.page.locator("#fetched_assignments_list")).to_contain_text(PROJECT)
    tab.picture("3-fetched")
    tab.page.locator(".lm-TabBar-tab", has_text="welcome.ipynb").click()
    tab.page.get_by_role("link", name="Filling a histogram in parallel").first.click()
    expect(tab.page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Filling")
    tab.wait_for_kernel(f"projects/{PROJECT}/{PROJECT}.ipynb")
    answer = tab.cell("def bin_index(")
    tab.into(answer)
    tab.menu("Run", "Run All Above Selected Cell")
    tab.wait_for_cells(
        answer.locator("xpath=preceding-sibling::*[contains(@class, 'CodeCell')][1]")
    )
    answer.locator(".cm-line", has_text="raise NotImplementedError()").click()
    expect(answer.locator(".cm-editor.cm-focused")).to_be_visible()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("Shift+Home")
    for number, line in enumerate(BIN_INDEX):
        # The editor indents by what it has parsed of the line before, beside what one types.
        tab.page.wait_for_timeout(200)
        if line is None:  # the editor indents by itself, and Backspace ends the block
            tab.page.keyboard.press("Enter")
            tab.page.keyboard.press("Backspace")
            continue
        if number and BIN_INDEX[number - 1] is not None:
            tab.page.keyboard.press("Enter")
        tab.page.keyboard.type(line)
    tab.picture("4-typed")
    tab.run(answer)
    return tab


def test_what_was_typed_is_what_stands_there(project: Tab):
    lines = project.cell("def bin_index(").locator(".cm-line").all_text_contents()
    assert lines[4:9] == [
        "    if value < low:",
        "        return 0",
        "    if value < high:",
        "        return 1 + int((value - low) / (high - low) * bins)",
        "    return bins + 1",
    ]


def test_its_tests_pass_with_a_tick(project: Tab):
    for name, text in (("inside", "[0.0, 1.9"), ("outside", "[-5.0, 20.0")):
        cell = project.cell(text)
        project.run(cell)
        expect(cell.locator(".jp-OutputArea")).to_contain_text("✓ passed")
        project.picture(f"5-test-{name}")


@pytest.fixture(scope="module")
def validated(project: Tab) -> Tab:
    """Validate has graded the notebook; its dialogue is open."""
    project.save()
    project.page.get_by_role("button", name="Validate").click()
    expect(project.dialog()).to_contain_text("Validation Results")
    project.picture("6-validated")
    return project


def test_validate_shows_the_table_of_grade(validated: Tab):
    said = validated.dialog().inner_text()
    assert "4 of 33 points" in said and "The following cell failed" not in said
    assert re.search(r"✓ test-bin-inside +│ +2/2", said), said
    assert re.search(r"✗ test-fill-private +│ +0/3 +│ .*nothing is written in", said), said
    table = validated.dialog().locator("pre").last
    assert table.evaluate("e => e.scrollWidth <= e.clientWidth"), "lines of the table are cut"
    validated.page.keyboard.press("Escape")
    expect(validated.dialog()).to_have_count(0)


@pytest.fixture(scope="module")
def submitted(validated: Tab) -> Tab:
    """Handed in through the exchange."""
    validated.menu("Nbgrader", "Assignment List")
    row = validated.page.locator("#fetched_assignments_list .list_item", has_text=PROJECT)
    row.get_by_role("button", name="Submit").click()
    expect(validated.page.locator("#submitted_assignments_list")).to_contain_text(PROJECT)
    validated.picture("7-submitted")
    return validated


@pytest.fixture(scope="module")
def graded(submitted: Tab, instructor: Path) -> str:
    """The instructor has collected, graded and returned; what `gpucourse grade` said."""
    instruct(instructor, "collect")
    done = subprocess.run(
        [sys.executable, "-m", "gpucourse", "grade"],
        cwd=instructor,
        text=True,
        capture_output=True,
        env={**os.environ, "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for command in ("generate_feedback", "release_feedback"):
        instruct(instructor, command)
    return done.stdout


def test_the_grader_gives_the_points_of_the_first_exercise(graded: str, instructor: Path):
    (verdict,) = instructor.glob(f"verdicts/*/{PROJECT}/*.json")
    assert '"earned": 4' in verdict.read_text(), graded


@pytest.fixture(scope="module")
def feedback(submitted: Tab, graded: str) -> Tab:
    """The learner has fetched the feedback and opened it."""
    tab = submitted
    tab.page.locator("#refresh_assignments_list").click()
    tab.page.get_by_role("button", name="Fetch Feedback").click()
    expect(tab.page.get_by_text("(view feedback)")).to_be_visible()
    tab.picture("8-feedback-fetched")
    return tab


def test_the_feedback_can_be_read_and_shows_no_hidden_test(feedback: Tab, repository: Path):
    feedback.page.get_by_text("(view feedback)").click()
    feedback.page.locator(".jp-DirListing-item", has_text=".html").dblclick()
    page = feedback.page.frame_locator(".jp-HTMLViewer iframe")
    expect(page.get_by_text("hidden tests ran here").first).to_be_visible()
    feedback.picture("9-feedback")
    text = page.locator("body").inner_text()
    assert "Score: 4.0 / 36.0" in text
    assert "nothing is written in" in text
    hidden = [
        one
        for one in release.secrets(read_course(repository)[1])
        if one.place.startswith(f"hidden tests of {PROJECT}")
    ]
    assert len(hidden) > 30
    assert not [one for one in hidden if one.text in release.squeeze(text)]
    page.get_by_text("nothing is written in").first.scroll_into_view_if_needed()
    feedback.picture("10-feedback-of-an-answer")
