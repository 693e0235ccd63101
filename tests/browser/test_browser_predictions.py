"""A prediction in JupyterLab: buttons, a guess by keyboard and by click, the answer folded, and the
guess in the learner's records and in the room's counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, writes
from playwright.sync_api import Locator, expect

from gpucourse.learner import records
from jupyter_lab import Server, Tab, chromium, copy_course

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]

FETCH = (
    "from gpucourse.exercises.predictions import predictions\n"
    'predict = predictions("06_numba_cuda")\n'
    'predict("pipeline", "32: energy is float32", "64", "16")'
)

LONG = (
    "from gpucourse.exercises.predictions import predictions\n"
    'predictions("05_cupy")("differences", "nowhere: CuPy is NumPy",\n'
    '    "sums, lists of indices, lists, strings; an index out of bounds gives no error",\n'
    '    "only in speed")'
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course, with a notebook that asks twice and then asks how many were recorded."""
    folder = copy_course(tmp_path_factory.mktemp("learner"))
    cells = [
        new_code_cell(FETCH),
        new_code_cell('predict("too-large", "faster: more threads at once", "slower", "an error")'),
    ]
    cells.append(new_code_cell(LONG))
    about = {
        "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"},
        "gpucourse": {"lesson": "06_numba_cuda"},
    }
    (folder / "lectures" / "asked.ipynb").write_text(
        writes(new_notebook(cells=cells, metadata=about))
    )
    return folder


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Tab]:
    home, room = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("room")
    (home / "data" / "gpucourse").mkdir(parents=True)
    (room / "0123456789abcdef.jsonl").touch()
    (home / "data" / "gpucourse" / "room.json").write_text(
        json.dumps({"folder": str(room), "name": "0123456789abcdef"})
    )
    server = Server(folder, home)
    server.start()
    try:
        with chromium() as browser:
            tab = Tab(browser.new_page(viewport={"width": 1280, "height": 800}), server)
            tab.room = room
            tab.open_notebook("lectures/asked.ipynb")
            yield tab
    finally:
        server.stop()


def asked(tab: Tab, name: str) -> Locator:
    """The output of the question, its cell run."""
    cell = tab.cell(f'predict("{name}"')
    tab.run(cell)
    output = cell.locator(".jp-OutputArea")
    expect(output.get_by_role("button", name="show me")).to_be_visible()
    return output


def test_a_guess_by_keyboard_is_recorded_and_its_verdict_folded(tab: Tab):
    output = asked(tab, "pipeline")
    tab.picture("predict-1-asked")
    output.get_by_role("button", name="16", exact=True).focus()
    tab.page.keyboard.press("Enter")
    expect(output).to_contain_text("Your guess: 16.")
    verdict = output.get_by_text("Numba uses half precision only")
    expect(verdict).to_have_count(1)
    expect(verdict).to_be_hidden()
    output.get_by_text("Was it right?").click()
    expect(output).to_contain_text("16? ")
    expect(output).to_contain_text("The answer: 64.")
    tab.picture("predict-2-answered")
    home = tab.server.home / "data" / "gpucourse" / "progress.jsonl"
    assert records.read(home).guesses == {"06_numba_cuda": {"pipeline": "16"}}
    (file,) = tab.room.glob("*.jsonl")
    assert json.loads(file.read_text()) == {
        "lesson": "06_numba_cuda",
        "asked": "pipeline",
        "guess": "16",
    }


def test_show_me_shows_all_and_records_nothing(tab: Tab):
    output = asked(tab, "too-large")
    output.get_by_role("button", name="show me").click()
    expect(output).to_contain_text("a multiprocessor holds")
    home = tab.server.home / "data" / "gpucourse" / "progress.jsonl"
    assert "too-large" not in records.read(home).guesses["06_numba_cuda"]


def test_after_a_restart_the_guess_stands_and_the_buttons_say_what_to_do(tab: Tab):
    question = asked(tab, "too-large")
    tab.menu("Kernel", "Restart Kernel…")
    tab.answer("Confirm Kernel Restart")
    expect(question).to_contain_text("no longer work. Run this cell again")
    expect(question.get_by_role("button", name="show me")).to_be_hidden()
    cell = tab.cell('predict("pipeline"')
    tab.run(cell)
    expect(cell.locator(".jp-OutputArea")).to_contain_text("Your guess: 16.")
    expect(cell.locator(".jp-OutputArea").get_by_role("button", name="show me")).to_have_count(0)


def test_a_notebook_that_is_opened_again_shows_text_to_unfold(tab: Tab):
    asked(tab, "too-large")
    tab.save()
    tab.shut_down_kernel("lectures/asked.ipynb")
    tab.open_notebook("lectures/asked.ipynb")
    output = tab.cell('predict("too-large"').locator(".jp-OutputArea")
    expect(output).to_contain_text("Your guess? Choose one")
    expect(output).not_to_contain_text("Error displaying widget")


def test_a_long_choice_is_read_in_full_in_a_narrow_window(tab: Tab):
    tab.page.set_viewport_size({"width": 820, "height": 800})
    cell = tab.cell('"only in speed"')
    tab.run(cell)
    buttons = cell.locator(".jupyter-button")
    expect(buttons.first).to_be_visible()
    tab.picture("predict-3-narrow")
    cut = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"
    assert len(buttons.all()) == 4
    assert buttons.evaluate_all(cut) == []
