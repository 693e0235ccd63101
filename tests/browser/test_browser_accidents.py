"""What a learner sees, and keeps, when a kernel is killed, the server goes, the disk is full or two
tabs hold one notebook: done in a browser, as docs/when_something_breaks.md tells it.

JupyterLab saves by itself at its own times, and asks when it meets another save; so that is
switched off here, and each save is the test's. What the browser showed is kept in build/browser/.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, BrowserContext, expect
from typer.testing import CliRunner

from gpucourse.cli import app
from jupyter_lab import Server, Tab, chromium

pytestmark = [pytest.mark.browser, pytest.mark.rehearsal]

ANSWER = "answer = 0"
FILL = """\
try:
    with open("filler", "wb", buffering=0) as file:
        while file.write(bytes(1000)):
            pass
except OSError as error:
    print(error)"""


def write_notebook(folder: Path) -> Path:
    """A notebook of the course's kind: the first cell of all, and an answer."""
    cells = ["%load_ext gpucourse", ANSWER, "answer"]
    notebook = new_notebook(
        cells=[new_code_cell(cell, id=f"c{n}") for n, cell in enumerate(cells)],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    path = folder / "work.ipynb"
    nbformat.write(notebook, path)
    return path


def saved(path: Path) -> str:
    """The answer as it lies on the disk, in a notebook that is whole."""
    return nbformat.read(path, as_version=4).cells[1].source


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(
        tmp_path_factory.mktemp("learner"), tmp_path_factory.mktemp("home"), autosave=False
    )
    # The kernels killed for memory are counted by the system; here, in a file.
    startup = server.home / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "kills.py").write_text(
        "from pathlib import Path\nfrom gpucourse.notebook import last_kernel\n"
        f"last_kernel.memory_kills = lambda: len(Path({str(server.home / 'kills')!r}).read_text())"
    )
    (server.home / "kills").write_text("")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    yield context
    context.close()


@pytest.fixture
def tab(request: pytest.FixtureRequest, context: BrowserContext, server: Server) -> Iterator[Tab]:
    """A tab in which a notebook is open that is freshly written for each test."""
    write_notebook(server.folder)
    if server.process is None:  # the test before has failed while it was stopped
        server.start()
    tab = Tab(context.new_page(), server)
    tab.open_notebook("work.ipynb")
    yield tab
    tab.picture(f"{request.node.name}-at-the-end")


@pytest.mark.parametrize(
    ("plugin", "setting", "value"),
    [
        ("docmanager-extension:plugin", "autosaveInterval", 30),
        # Else it asks whether to fetch news of the Jupyter project, over the first notebook.
        ("apputils-extension:notification", "fetchNews", "false"),
        # Else lectures are called "10_awkward_and_…" and "18_one_problem_…".
        ("filebrowser-extension:browser", "showLastModifiedColumn", False),
    ],
)
def test_jupyterlab_is_set_as_the_package_says(
    server: Server, plugin: str, setting: str, value: object
):
    answer = json.loads(server.get(f"lab/api/settings/@jupyterlab/{plugin}"))
    assert answer["schema"]["properties"][setting]["default"] == value


def test_a_kernel_killed_for_memory(tab: Tab, server: Server):
    first, answer = tab.cell("%load_ext"), tab.cell(ANSWER)
    tab.run(first)
    tab.write(answer, "answer = 42\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    (server.home / "kills").write_text("x")
    tab.start_cell(answer)
    expect(tab.dialog()).to_contain_text("appears to have died. It will restart automatically")
    tab.picture("killed-1-kernel-died")
    tab.answer("Ok")
    tab.wait_for_kernel("work.ipynb")
    expect(answer).to_contain_text("answer = 42")
    tab.run(first)
    said = first.locator(".jp-OutputArea")
    expect(said).to_contain_text(
        "The last kernel of this notebook was killed because memory ran out"
    )
    expect(said).to_contain_text("(`answer = 42`)")
    tab.picture("killed-2-first-cell-says-why")
    tab.save()
    assert saved(server.folder / "work.ipynb").startswith("answer = 42")


def test_a_lost_connection(tab: Tab, server: Server):
    answer = tab.cell(ANSWER)
    tab.run(answer)
    server.stop()
    expect(tab.dialog()).to_contain_text("JupyterLab will continue trying to reconnect")
    tab.picture("lost-1")
    # Else it comes again and again, and may come while something is typed.
    tab.dialog().get_by_role("checkbox").check()
    tab.answer("Close")
    tab.write(answer, "answer = 'while the server was away'")
    tab.page.keyboard.press("Control+s")
    expect(tab.dialog()).to_contain_text("File Save Error for work.ipynb")
    tab.picture("lost-2")
    tab.answer("Close")
    assert saved(server.folder / "work.ipynb") == ANSWER
    server.start()
    expect(answer).to_contain_text("while the server was away")
    tab.save()
    tab.picture("lost-3-saved")
    assert saved(server.folder / "work.ipynb") == "answer = 'while the server was away'"
    # The page, loaded anew, has a kernel.
    tab.open_notebook("work.ipynb")
    tab.run(tab.cell("%load_ext"))
    expect(tab.cell("%load_ext").locator(".jp-OutputArea")).to_contain_text("Virtual GPU")


def test_two_tabs_and_overwrite(tab: Tab, context: BrowserContext, server: Server):
    path = server.folder / "work.ipynb"
    other = Tab(context.new_page(), server)
    other.open_notebook("work.ipynb")
    other.write(other.cell(ANSWER), "answer = 'of the other tab'")
    other.save()
    assert saved(path) == "answer = 'of the other tab'"
    tab.page.bring_to_front()
    tab.write(tab.cell(ANSWER), "answer = 'of this tab'")
    tab.page.keyboard.press("Control+s")
    expect(tab.dialog()).to_contain_text("has changed on disk since the last time it was opened")
    tab.picture("tabs-1-file-changed")
    tab.answer("Overwrite")
    expect(tab.unsaved()).to_have_count(0)
    assert saved(path) == "answer = 'of this tab'"
    # What the other tab had written is kept, and comes back beside it.
    runner = CliRunner()
    listed = runner.invoke(app, ["versions", str(path)]).output
    assert "answer = 'of the other tab'" in listed.splitlines()[0], listed
    assert runner.invoke(app, ["versions", str(path), "--take", "1"]).exit_code == 0
    (back,) = server.folder.glob("work of *.ipynb")
    assert saved(back) == "answer = 'of the other tab'"
    assert saved(path) == "answer = 'of this tab'"


def test_two_tabs_and_revert(tab: Tab, context: BrowserContext, server: Server):
    other = Tab(context.new_page(), server)
    other.open_notebook("work.ipynb")
    other.write(other.cell(ANSWER), "answer = 'saved by the other'")
    other.save()
    tab.page.bring_to_front()
    answer = tab.cell(ANSWER)
    tab.write(answer, "answer = 'run in this tab'")
    tab.run(answer)
    tab.page.keyboard.press("Control+s")
    expect(tab.dialog()).to_contain_text("has changed on disk")
    tab.answer("Revert")
    expect(answer).to_contain_text("saved by the other")
    # What was run in this tab is in the history of the kernel, which both tabs share.
    last = tab.page.locator(".jp-NotebookPanel:visible .jp-CodeCell").nth(2)
    tab.write(last, "%history")
    tab.run(last)
    expect(last.locator(".jp-OutputArea")).to_contain_text("answer = 'run in this tab'")


@pytest.mark.sandbox
def test_a_full_disk(browser: Browser, tmp_path: Path):
    small = tmp_path / "small"
    small.mkdir()
    write_notebook(tmp_path)
    # A disk of 2 MB that only this server and its kernels see; their settings lie elsewhere.
    wrapper = [
        "bwrap",
        "--dev-bind",
        "/",
        "/",
        "--size",
        "2000000",
        "--tmpfs",
        small,
        "--die-with-parent",
        "--",
        "sh",
        "-c",
        f'cp "{tmp_path}/work.ipynb" "{small}" && cd "{small}" && exec "$@"',
        "sh",
    ]
    server = Server(small, tmp_path / "home", wrapper=wrapper, autosave=False)
    server.start()
    try:
        tab = Tab(browser.new_page(viewport={"width": 1280, "height": 800}), server)
        tab.open_notebook("work.ipynb")
        answer, last = tab.cell(ANSWER), tab.page.locator(".jp-CodeCell").nth(2)
        tab.write(answer, "answer = 'before'")
        tab.save()
        tab.write(last, FILL)
        tab.run(last)
        expect(last.locator(".jp-OutputArea")).to_contain_text("No space left on device")
        tab.write(answer, "answer = 'on a full disk'")
        tab.page.keyboard.press("Control+s")
        expect(tab.dialog()).to_contain_text("File Save Error for work.ipynb")
        expect(tab.dialog()).to_contain_text("No space left on device")
        tab.picture("full-1-not-saved")
        tab.answer("Close")
        assert "answer = 'before'" in server.get("api/contents/work.ipynb").decode()
        tab.run(tab.cell("%load_ext"))
        expect(tab.cell("%load_ext").locator(".jp-OutputArea")).to_contain_text(
            "This disk is full, so your work may not be saved"
        )
        tab.picture("full-2-first-cell-says-so")
        tab.write(last, "import os; os.remove('filler')")
        tab.run(last)
        expect(answer).to_contain_text("on a full disk")
        tab.save()
        assert "answer = 'on a full disk'" in server.get("api/contents/work.ipynb").decode()
        tab.page.close()
    finally:
        server.stop()
