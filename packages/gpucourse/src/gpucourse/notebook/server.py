"""Jupyter server extension: the course's kernels, *Validate*, and saves without needless changes.

Kernels that start in the course's folder load :mod:`gpucourse.notebook.ready`. No other does: the
environment may serve other notebooks too, and its owner's settings of IPython stay as they are.

The button *Validate* (nbgrader's; the class is ``nbgrader.validator.Validator``) runs a whole
notebook before it says anything, then shows the code of the cells that failed. A project whose
tests are here is graded instead, and the dialogue shows the table of ``gpucourse grade``. Checks of
lectures are no tests of nbgrader's: it told an untouched lecture "Success! Your notebook passes all
the tests." Here a check that found a mistake counts as a cell that failed.

JupyterLab notes in a notebook which Python ran it as soon as it is opened, and saves that: a clone
of the course would differ from its origin for having been read. In the course's own notebooks that
is not saved, nor what welcome.ipynb showed, which is of another day when it is opened again. Nor
are the buttons of a question: opened without their kernel, JupyterLab would show "Error displaying
widget" where it now shows the question's other form, text to unfold.
"""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.kernelspec import NoSuchKernel
from nbformat import NotebookNode
from nbgrader.server_extensions.validate_assignment import handlers
from nbgrader.validator import Validator

from gpucourse.course.checkout import NotInTheCourse, course_folder
from gpucourse.exercises.outcomes import CHECK_MIME
from gpucourse.exercises.predictions import WIDGET
from gpucourse.notebook.whole_files import written_whole

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from jupyter_server.services.contents.manager import ContentsManager
    from jupyter_server.services.kernels.kernelmanager import MappingKernelManager

#: An option of IPython's kernel.
READY = "--InteractiveShellApp.extra_extensions=gpucourse.notebook.ready"
#: Width of the table of grades in letters, as the dialogue has room for.
COLUMNS = 92
#: The page whose outputs are of now.
WELCOME = "welcome.ipynb"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "gpucourse.notebook.server"}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # nbgrader has no trait for the validator that the button uses.
    handlers.Validator = ChecksToo
    # Not now: Jupytext's extension, loaded after this one, puts another contents manager in place.
    app.io_loop.add_callback(lambda: _prepare(app.contents_manager))
    make_kernels_ready(app)


def make_kernels_ready(app: ServerApp) -> None:
    """Have kernels of this environment that start in the course's folder know the course."""
    manager, start = app.kernel_manager, app.kernel_manager.start_kernel

    async def start_ready(*given: Any, **options: Any) -> str:
        name = options.get("kernel_name") or manager.default_kernel_name
        if knows_ipython(manager, name) and in_the_course(manager, options.get("path")):
            options["extra_arguments"] = [*options.get("extra_arguments", ()), READY]
        return await start(*given, **options)

    manager.start_kernel = start_ready  # type: ignore[method-assign]


def knows_ipython(manager: MappingKernelManager, name: str) -> bool:
    """Return True if kernel ``name`` is IPython of this environment, which has the course."""
    specs = manager.kernel_spec_manager
    try:
        command = specs.get_kernel_spec(name).argv if specs else []
    except NoSuchKernel:
        return False
    return "ipykernel_launcher" in command and command[0] in ("python", sys.executable)


def in_the_course(manager: MappingKernelManager, path: str | None) -> bool:
    """Return True if a kernel of the folder ``path``, as Jupyter names it, runs in the course."""
    try:
        course_folder(Path(manager.cwd_for_path(path or "")))
    except NotInTheCourse:
        return False
    return True


def _prepare(manager: ContentsManager) -> None:
    """Have the server's saves leave files whole, and notebooks as they were released."""
    manager.register_pre_save_hook(keep_as_it_was)
    if hasattr(manager, "atomic_writing"):
        manager.atomic_writing = written_whole(manager.atomic_writing)


class ChecksToo(Validator):
    """nbgrader's validator, which grades a project, and to which a check is a test."""

    def validate(self, filename: str) -> dict[str, list[dict[str, str]]]:
        """Return the text of the dialogue; empty if all is right."""
        # The grader is imported when it is asked for: a server without it is smaller.
        from gpucourse.grading.commands.grade_notebook import ALL_POINTS, find_source

        try:
            find_source(Path(filename))
        except LookupError:  # a lecture, or a handout, which has no hidden tests
            return super().validate(filename)
        graded = subprocess.run(
            [sys.executable, "-m", "gpucourse", "grade", filename],
            cwd=Path(filename).parent,
            env={**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
        )
        if graded.returncode == ALL_POINTS:
            return {}
        # The dialogue has a line and a text of HTML for each cell that failed; for a text of this
        # class the page leaves its words "The following cell failed" away.
        title, _, table = f"{graded.stdout}{graded.stderr}".strip().partition("\n")
        table = f'<span class="gpuc-grades">{html.escape(table)}</span>'
        return {"failed": [{"source": title, "error": table}]}

    def _get_failed_cells(self, nb: NotebookNode) -> list[NotebookNode]:
        failed = super()._get_failed_cells(nb)
        return [cell for cell in nb.cells if cell in failed or said(cell)]

    def _extract_error(self, cell: NotebookNode) -> str:
        return "\n".join(said(cell)) or super()._extract_error(cell)


def said(cell: NotebookNode) -> list[str]:
    """Return the messages of a cell's checks that did not pass."""
    return [
        str(output.data["text/plain"])
        for output in cell.get("outputs", ())
        if not output.get("data", {}).get(CHECK_MIME, {"passed": True})["passed"]
    ]


def keep_as_it_was(
    model: dict[str, Any], path: str, contents_manager: ContentsManager, **_: object
) -> None:
    """Handle Jupyter's hook before each save; errors here are logged and stop no save."""
    if model.get("type") != "notebook" or not hasattr(contents_manager, "_get_os_path"):
        return
    file, now = Path(contents_manager._get_os_path(path.strip("/"))), model["content"]
    if "gpucourse" not in now["metadata"] or not file.is_file():
        return
    before = json.loads(file.read_text(encoding="utf-8"))["metadata"]
    if "language_info" in before:
        now["metadata"]["language_info"] = before["language_info"]
    if file.name == WELCOME:
        for cell in now["cells"]:
            if cell["cell_type"] == "code":
                cell.update(outputs=[], execution_count=None)
    for cell in now["cells"]:
        for output in cell.get("outputs", ()):
            shown = output.get("data", {})
            if "text/html" in shown:
                shown.pop(WIDGET, None)
