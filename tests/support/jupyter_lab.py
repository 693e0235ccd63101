"""JupyterLab server of a test, and a tab of headless Chromium in which a test works."""

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
#: Folder for pictures of what the browser showed; CI uploads it with `build/`.
SCREENSHOTS = REPOSITORY / "build" / "browser"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
#: Milliseconds to wait before something counts as not happening, because a busy runner is slow.
PATIENCE = 120_000
expect.set_options(timeout=PATIENCE)
_NUMBER = re.compile(r"\[\d+\]")
#: JavaScript that returns the kernel states of the notebook at a path, from the server.
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
    """JupyterLab in ``folder``, with its own settings and a port that stays the same on restart.

    ``wrapper`` is a command before Jupyter's own (bwrap, taskset). ``environment`` is added to
    this process's variables. Without ``autosave`` only explicit saves happen, so that a test can
    choose the time.
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
        """Start and wait until it answers; raise AssertionError with its log if it never does."""
        home = self.home
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PATH": search_path(),
            "HOME": str(home),
            # The learner's records are kept here and are empty, even if something was graded
            # before.
            "XDG_DATA_HOME": str(home / "data"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            # The files that the package installs for the server and JupyterLab, in their present
            # state.
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
        """Stop everything at once, including kernels, like a machine that is switched off."""
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
        """Return the server's answer to a GET request."""
        request = urllib.request.Request(
            f"{self.address}/{path}", headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def log(self) -> str:
        """Return everything that it has written so far."""
        return (self.home / "server.log").read_text(errors="replace")


def free_port() -> int:
    """Return a free port below the system's ephemeral ports.

    A kernel that starts while the server is stopped might otherwise take its port.
    """
    while True:
        number = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", number))
            return number


def children(pid: int) -> list[int]:
    """Return the process groups of the descendants of ``pid``; each kernel leads one."""
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
    """Copy a learner's folder (released notebooks, pages and pictures) and return ``folder``."""
    for name in ("lectures", "projects", "docs", "img"):
        shutil.copytree(REPOSITORY / name, folder / name)
    shutil.copy(REPOSITORY / "welcome.ipynb", folder)
    return folder


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a headless Chromium that is installed on the machine; none is downloaded."""
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
        """Open a file, or JupyterLab without one, in an empty workspace."""
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
        """Wait until the kernel of the notebook ``path``, in front, is connected and idle.

        JupyterLab runs no cell without a kernel, and gives no message. The status bar shows a
        state, but may still show that of the notebook that was in front before, so the server is
        asked as well. The circle at the top shows "idle" even before there is a kernel.
        """
        self._wait_for_states(path, lambda states: "idle" in states)
        bar = self.page.locator("#jp-main-statusbar")
        expect(bar).to_contain_text(Path(path).name)
        expect(bar).to_contain_text("| Idle")

    def shut_down_kernel(self, path: str) -> None:
        """Shut down the kernel of the notebook ``path``, in front, and wait until it is gone.

        A kernel takes seconds to end on a busy machine. A notebook that is opened before that gets
        the ending kernel, and runs nothing.
        """
        self.menu("Kernel", "Shut Down Kernel")
        self._wait_for_states(path, lambda states: not states)

    def _wait_for_states(self, path: str, enough: Callable[[list[str]], bool]) -> None:
        """Wait until the states of the kernels of the notebook ``path`` are ``enough``.

        Playwright's ``wait_for_function`` treats any promise as true, so the server is asked here.
        """
        end = time.monotonic() + PATIENCE / 1000
        while not enough(states := self.page.evaluate(_KERNEL_STATES, path)):
            assert time.monotonic() < end, f"the kernels of {path}: {states}"
            self.page.wait_for_timeout(100)

    def cells(self) -> Locator:
        """Return the cells of the notebook in front, first to last."""
        return self.page.locator(".jp-NotebookPanel:visible .jp-Notebook-cell")

    def cell(self, containing: str) -> Locator:
        """Return the first code cell whose text contains this, even after its text changes."""
        code = self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell")
        expect(code.filter(has_text=containing).first).to_be_attached()
        # A folded cell has no editor.
        texts = code.evaluate_all(
            "all => all.map(e => e.querySelector('.jp-InputArea-editor')?.textContent ?? '')"
        )
        return code.nth(next(n for n, text in enumerate(texts) if containing in text))

    def menu(self, *names: str) -> None:
        """Choose the entry of a menu: ``menu("Run", "Run All Cells")``."""
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
        """Click into the cell and press Shift-Enter; its next number belongs to this run."""
        cell.locator(".jp-InputArea-prompt").evaluate("prompt => { prompt.textContent = '' }")
        self.into(cell)
        self.page.keyboard.press("Shift+Enter")

    def into(self, cell: Locator) -> None:
        """Click into the cell's text, and wait until it receives key presses."""
        cell.locator(".cm-content").click()
        expect(cell.locator(".cm-editor.cm-focused")).to_be_visible()

    def run_all(self) -> None:
        """Choose *Run All Cells* and wait for the last of them."""
        self.menu("Run", "Run All Cells")
        self.wait_for_cells(self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell").last)

    def wait_for_cells(self, last: Locator) -> None:
        """Wait until ``last`` has a number and no cell before it is waiting."""
        expect(last.locator(".jp-InputArea-prompt")).to_contain_text(_NUMBER, timeout=2 * PATIENCE)

    def write(self, cell: Locator, text: str) -> None:
        """Replace a cell's text at once; return when the notebook counts as unsaved.

        This is for a server without autosave, which might otherwise save it at the same moment.
        """
        self.into(cell)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)
        expect(cell).to_contain_text(text.partition("\n")[0])
        expect(self.unsaved()).to_have_count(1)

    def save(self) -> None:
        """Press Control-S, and wait until everything is saved.

        If this coincides with JupyterLab's autosave, JupyterLab believes that another program
        changed the file and asks. Then this tab's text is kept. Other dialogues are closed, and
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
        """Return the black dot in the tab of the notebook in front, if there is one."""
        return self.page.locator(".lm-TabBar-tab.jp-mod-current.jp-mod-dirty")

    def dialog(self) -> Locator:
        """Return the dialogue that is waiting for an answer."""
        return self.page.locator(".jp-Dialog-content")

    def answer(self, button: str) -> None:
        """Press a button of the dialogue and wait until it is closed."""
        dialog = self.dialog().first.element_handle()
        self.dialog().first.get_by_role("button", name=button, exact=True).click()
        dialog.wait_for_element_state("hidden")

    def picture(self, name: str) -> None:
        """Save a screenshot of the tab as ``build/browser/NAME.png``."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")
