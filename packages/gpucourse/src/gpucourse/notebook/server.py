"""Jupyter server extension: the course's kernels, *Validate*, and cleaner saves.

Kernels that start in the course's folder load :mod:`gpucourse.notebook.ready`. Other kernels do
not, because the environment may also serve other notebooks, and its owner's IPython settings must
not change.

The button *Validate* belongs to nbgrader (class ``nbgrader.validator.Validator``). By itself it
runs the whole notebook and then shows the code of the cells that failed. Here, a project whose
tests are available is graded instead, and the dialogue shows the table of ``gpucourse grade``. The
checks of lectures are not nbgrader tests, so for a lecture without any answer it would report
"Success! Your notebook passes all the tests." Here, a check that found a mistake counts as a
failed cell.

When a notebook is opened, JupyterLab writes into it which version of Python runs it, and saves it.
So a clone of the course would differ from its origin after mere reading. For the course's own
notebooks this is not saved. The outputs of welcome.ipynb are not saved either, because they are
outdated when it is opened again. The buttons of a question are not saved, because without their
kernel JupyterLab would show "Error displaying widget" instead of the question's text with folds.
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

#: Option of IPython's kernel that loads the extension.
READY = "--InteractiveShellApp.extra_extensions=gpucourse.notebook.ready"
#: Width in characters of the table of grades, for which the dialogue has room.
COLUMNS = 92
#: The page whose outputs are never saved.
WELCOME = "welcome.ipynb"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "gpucourse.notebook.server"}]


def _load_jupyter_server_extension(app: ServerApp) -> None:
    # nbgrader has no setting for the validator of the button.
    handlers.Validator = ChecksToo
    # This happens later, because Jupytext's extension, which is loaded after this one, replaces the
    # contents manager.
    app.io_loop.add_callback(lambda: _prepare(app.contents_manager))
    make_kernels_ready(app)


def make_kernels_ready(app: ServerApp) -> None:
    """Make kernels of this environment load the course's extension in the course's folder."""
    manager, start = app.kernel_manager, app.kernel_manager.start_kernel

    async def start_ready(*given: Any, **options: Any) -> str:
        name = options.get("kernel_name") or manager.default_kernel_name
        if knows_ipython(manager, name) and in_the_course(manager, options.get("path")):
            options["extra_arguments"] = [*options.get("extra_arguments", ()), READY]
        return await start(*given, **options)

    manager.start_kernel = start_ready  # type: ignore[method-assign]


def knows_ipython(manager: MappingKernelManager, name: str) -> bool:
    """Return True if kernel ``name`` is IPython in this environment, which has the course."""
    specs = manager.kernel_spec_manager
    try:
        command = specs.get_kernel_spec(name).argv if specs else []
    except NoSuchKernel:
        return False
    return "ipykernel_launcher" in command and command[0] in ("python", sys.executable)


def in_the_course(manager: MappingKernelManager, path: str | None) -> bool:
    """Return True if a kernel started in Jupyter's folder ``path`` runs in the course."""
    try:
        course_folder(Path(manager.cwd_for_path(path or "")))
    except NotInTheCourse:
        return False
    return True


def _prepare(manager: ContentsManager) -> None:
    """Make saves write whole files, and leave out changes that no learner made."""
    manager.register_pre_save_hook(keep_as_it_was)
    if hasattr(manager, "atomic_writing"):
        manager.atomic_writing = written_whole(manager.atomic_writing)


class ChecksToo(Validator):
    """Validator that grades projects and counts a failed check as a failed cell."""

    def validate(self, filename: str) -> dict[str, list[dict[str, str]]]:
        """Return the contents of the dialogue, which are empty if everything is right."""
        # The grader is imported only here, so that the server needs less memory.
        from gpucourse.grading.commands.grade_notebook import ALL_POINTS, find_source

        try:
            find_source(Path(filename))
        except LookupError:  # a lecture, or a handout without hidden tests
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
        # The dialogue shows a line and an HTML text per failed cell. With this class in the text,
        # the page omits "The following cell failed".
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
    """Handle Jupyter's hook before a save; Jupyter logs its errors and saves all the same."""
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
