"""A JupyterLab of a test's own, and a tab of headless Chromium in it that is used as people do."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from gpucourse.system.programs import search_path

REPOSITORY = Path(__file__).resolve().parents[2]
TOKEN = "a-token-for-this-test"
#: Where pictures of what the browser showed are kept; CI hands them over with `build/`.
SCREENSHOTS = REPOSITORY / "build" / "browser"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
#: Milliseconds until something counts as not happening at all: a busy runner is slow.
PATIENCE = 120_000
expect.set_options(timeout=PATIENCE)
_NUMBER = re.compile(r"\[\d+\]")
#: JavaScript: the states of the kernels of the notebook at a path, as the server has them.
_KERNEL_STATES = """async path => {
    const config = document.querySelector("#jupyter-config-data").textContent;
    const token = document.cookie.match("_xsrf=([^;]*)");  // a hub asks for it
    const answer = await fetch(JSON.parse(config).baseUrl + "api/sessions",
                               {headers: {"X-XSRFToken": token ? token[1] : ""}});
    const sessions = await answer.json();
    return sessions.filter(session => session.path === path)
                   .map(session => session.kernel.execution_state);
}"""


class Server:
    """JupyterLab on ``folder``, with settings of its own, on a port that stays when it restarts.

    ``wrapper`` is a command in front of Jupyter's own (bwrap, taskset); ``environment`` adds to
    this process's variables. Without ``autosave`` nothing is saved but by hand, so that a test can
    say when.
    """

    def __init__(
        self,
        folder: Path,
        home: Path,
        *,
        wrapper: Sequence[str | Path] = (),
        environment: dict[str, str] | None = None,
        autosave: bool = True,
    ) -> None:
        self.folder, self.home, self.wrapper = folder, home, wrapper
        self.environment = environment or {}
        self.process: subprocess.Popen | None = None
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        if not autosave:
            settings = home / "config/lab/user-settings/@jupyterlab/docmanager-extension"
            settings.mkdir(parents=True)
            (settings / "plugin.jupyterlab-settings").write_text('{"autosave": false}')

    def start(self) -> None:
        """Returns once it answers. Raises AssertionError with its log if it never does."""
        home = self.home
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PATH": search_path(),
            "HOME": str(home),
            # What a learner has done is recorded here: nothing yet, whoever graded before.
            "XDG_DATA_HOME": str(home / "data"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            # What the package brings along for the server and JupyterLab, as it is here now.
            "JUPYTER_CONFIG_PATH": str(REPOSITORY / "packages/gpucourse/jupyter"),
            "JUPYTER_PATH": str(REPOSITORY / "packages/gpucourse/share"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            **self.environment,
        }
        command = [
            *self.wrapper,
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            f"--port={self.port}",
            "--port-retries=0",
            f"--IdentityProvider.token={TOKEN}",
        ]
        with (home / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE / 1000
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.get("api/status")
            except OSError:  # refused, reset, or no answer in time
                time.sleep(0.1)
            else:
                return
        self.stop()
        raise AssertionError(f"JupyterLab did not answer:\n{self.log()}")

    def stop(self) -> None:
        """All at once, kernels included, as when a machine goes down."""
        if self.process is not None:
            kernels = children(self.process.pid)
            for group in {self.process.pid, *kernels}:
                try:
                    os.killpg(group, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.wait()
            self.process = None

    def get(self, path: str) -> bytes:
        """What the server answers to GET."""
        request = urllib.request.Request(
            f"{self.address}/{path}", headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def log(self) -> str:
        """All that it has written so far."""
        return (self.home / "server.log").read_text(errors="replace")


def free_port() -> int:
    """A free port, below those that the system gives where any will do: a kernel started
    meanwhile would take it from a server that is stopped."""
    while True:
        number = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", number))
            return number


def children(pid: int) -> list[int]:
    """Process groups of the descendants of ``pid``; each kernel leads one."""
    import psutil

    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    groups = set()
    for process in below:
        try:
            groups.add(os.getpgid(process.pid))
        except ProcessLookupError:
            continue
    return sorted(groups)


def copy_course(folder: Path) -> Path:
    """What a learner has: the notebooks as released, pages and pictures; returns ``folder``."""
    for name in ("lectures", "projects", "docs", "img"):
        shutil.copytree(REPOSITORY / name, folder / name)
    shutil.copy(REPOSITORY / "welcome.ipynb", folder)
    return folder


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium: the machine's own, none is downloaded."""
    program = next(filter(None, map(shutil.which, CHROMIUM)))
    options = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """A tab of the browser with JupyterLab in it."""

    def __init__(self, page: Page, server: Server | None) -> None:
        self.page, self.server = page, server
        page.set_default_timeout(PATIENCE)

    def open(self, path: str = "") -> None:
        """Open a file, or JupyterLab as it opens by itself, in an empty workspace."""
        assert self.server is not None, "a tab of another server: its page is opened by address"
        page = f"lab/tree/{path}" if path else "lab"
        self.page.goto(f"{self.server.address}/{page}?reset&token={TOKEN}")
        expect(self.page.locator("#jp-top-bar, #jp-top-panel").first).to_be_visible()

    def open_notebook(self, path: str) -> None:
        """Open a notebook and wait until its kernel can be used."""
        self.open(path)
        expect(self.cells().first).to_be_visible()
        self.wait_for_kernel(path)

    def wait_for_kernel(self, path: str) -> None:
        """The kernel of the notebook ``path``, in front, is connected and does nothing.

        JupyterLab runs no cell, and says nothing, while there is none. The status bar tells what it
        does, but still of the notebook that was in front before; the server knows whose it is. The
        circle at the top says idle before there is a kernel too.
        """
        self._wait_for_states(path, lambda states: "idle" in states)
        bar = self.page.locator("#jp-main-statusbar")
        expect(bar).to_contain_text(Path(path).name)
        expect(bar).to_contain_text("| Idle")

    def shut_down_kernel(self, path: str) -> None:
        """Shut down the kernel of the notebook ``path``, in front, and wait until it is gone.

        A kernel takes seconds to end on a busy machine. A notebook opened before then is given
        the one that ends, and runs nothing.
        """
        self.menu("Kernel", "Shut Down Kernel")
        self._wait_for_states(path, lambda states: not states)

    def _wait_for_states(self, path: str, enough: Callable[[list[str]], bool]) -> None:
        """Wait until the states of the kernels of the notebook ``path`` are ``enough``.

        Playwright's ``wait_for_function`` takes any promise for true, so the server is asked here.
        """
        end = time.monotonic() + PATIENCE / 1000
        while not enough(states := self.page.evaluate(_KERNEL_STATES, path)):
            assert time.monotonic() < end, f"the kernels of {path}: {states}"
            self.page.wait_for_timeout(100)

    def cells(self) -> Locator:
        """The cells of the notebook in front, first to last."""
        return self.page.locator(".jp-NotebookPanel:visible .jp-Notebook-cell")

    def cell(self, containing: str) -> Locator:
        """The first code cell whose text has this in it; the same one when its text changes."""
        code = self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell")
        expect(code.filter(has_text=containing).first).to_be_attached()
        # A folded cell has no editor.
        texts = code.evaluate_all(
            "all => all.map(e => e.querySelector('.jp-InputArea-editor')?.textContent ?? '')"
        )
        return code.nth(next(n for n, text in enumerate(texts) if containing in text))

    def menu(self, *names: str) -> None:
        """Press the entry of a menu: ``menu("Run", "Run All Cells")``."""
        bar = self.page.locator("#jp-MainMenu")
        bar.locator(".lm-MenuBar-itemLabel").get_by_text(names[0], exact=True).click()
        for name in names[1:]:
            entry = self.page.locator(".lm-Menu-itemLabel").get_by_text(name, exact=True)
            entry.last.click()

    def run(self, cell: Locator) -> None:
        """Select the cell, press Shift-Enter and wait for its end."""
        self.start_cell(cell)
        self.wait_for_cells(cell)

    def start_cell(self, cell: Locator) -> None:
        """Click into the cell and press Shift-Enter; a number beside it then is this run's."""
        cell.locator(".jp-InputArea-prompt").evaluate("prompt => { prompt.textContent = '' }")
        self.into(cell)
        self.page.keyboard.press("Shift+Enter")

    def into(self, cell: Locator) -> None:
        """Click into the cell's text, and wait until keys go there."""
        cell.locator(".cm-content").click()
        expect(cell.locator(".cm-editor.cm-focused")).to_be_visible()

    def run_all(self) -> None:
        """*Run All Cells*, and wait for the last of them."""
        self.menu("Run", "Run All Cells")
        self.wait_for_cells(self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell").last)

    def wait_for_cells(self, last: Locator) -> None:
        """``last`` has a number, and so no cell before it waits any more."""
        expect(last.locator(".jp-InputArea-prompt")).to_contain_text(_NUMBER, timeout=2 * PATIENCE)

    def write(self, cell: Locator, text: str) -> None:
        """Replace a cell's text by another, at once; returns when it counts as not saved yet.

        For a server without autosave, which might save it in the same moment.
        """
        self.into(cell)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)
        expect(cell).to_contain_text(text.partition("\n")[0])
        expect(self.unsaved()).to_have_count(1)

    def save(self) -> None:
        """Control-S, as people do, and wait until nothing is unsaved.

        Where it meets JupyterLab's own autosave, JupyterLab thinks that the file was changed
        elsewhere, and asks: then this tab's text is the right one. Other dialogues are closed, and
        Control-S is pressed again.
        """
        self.page.keyboard.press("Control+s")
        end = time.monotonic() + PATIENCE / 1000
        while self.unsaved().count() or self.dialog().count():
            assert time.monotonic() < end, "it was not saved"
            if self.dialog().filter(has_text="File Changed").count():
                self.answer("Overwrite")
            elif self.dialog().count():
                self.answer("Close")
                self.page.keyboard.press("Control+s")
            self.page.wait_for_timeout(100)

    def unsaved(self) -> Locator:
        """The black dot in the tab of the notebook in front, if there is one."""
        return self.page.locator(".lm-TabBar-tab.jp-mod-current.jp-mod-dirty")

    def dialog(self) -> Locator:
        """The dialogue that asks for an answer now."""
        return self.page.locator(".jp-Dialog-content")

    def answer(self, button: str) -> None:
        """Press a button of the dialogue; returns when it is gone."""
        dialog = self.dialog().first.element_handle()
        self.dialog().first.get_by_role("button", name=button, exact=True).click()
        dialog.wait_for_element_state("hidden")

    def picture(self, name: str) -> None:
        """Keep what the tab shows, as ``build/browser/NAME.png``."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")
