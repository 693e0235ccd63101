"""Running a lesson's notebook, and keeping what came out for the next time.

``execute`` runs a notebook as it is. ``solved`` runs a lesson with its answers in, sees that
every cell did what its source promises, and keeps the executed notebook under ``build/executed``:
as long as nothing that it depends on has changed, the next call reads it from there.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

import nbclient
import nbformat
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode

import gpustandins
import virtualgpu
from gpucourse.course.checkout import PACKAGE
from gpucourse.course.puzzles import puzzle_folder
from gpucourse.course.registry import Course
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.source.reader import Source
from gpucourse.system.atomic import write_atomically
from gpucourse.views import results
from gpucourse.wording import many

#: Seconds that one cell may take: a lesson's longest takes a few.
CELL_TIMEOUT = 120
#: Times that a kernel is started before it counts as one that does not start: its ports are chosen
#: before it takes them, and another process may have taken one meanwhile.
STARTS = 3
#: Where executed notebooks are kept, relative to the course's root.
CACHE = Path("build") / "executed"
_HIDDEN_GPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
# Parts of this package that no cell of a lesson uses.
_NOT_USED_BY_LESSONS = ("gpucourse/publish/", "gpucourse/grading/", "gpucourse/cli.py")


class KernelLost(RuntimeError):
    """A notebook's kernel did not start, or ended while a cell ran."""


def execute(
    notebook: NotebookNode, folder: Path, timeout: int = CELL_TIMEOUT, hidden_gpu: bool = False
) -> NotebookNode:
    """Return an executed copy of ``notebook``, from a fresh kernel that starts in ``folder``.

    A cell that raises stops nothing. Where ``folder`` does not exist, the nearest above it serves.
    With ``hidden_gpu`` the virtual GPU answers, whatever the machine has. Raises KernelLost where
    no kernel starts, or one ends while a cell runs.
    """
    start = next(place for place in (folder, *folder.parents) if place.is_dir())
    environment = {**os.environ, **(_HIDDEN_GPU if hidden_gpu else {})}
    for _ in range(STARTS):
        client = nbclient.NotebookClient(
            nbformat.from_dict(notebook),  # a copy: the client writes outputs into it
            timeout=timeout,
            kernel_name="python3",
            allow_errors=True,
            # Kernels warn on the terminal that they talk over TCP; these stay on this machine.
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(start)}},
        )
        try:
            # client.execute() would leave its event loop open when it is called in a thread.
            return asyncio.run(client.async_execute(env=environment))
        except DeadKernelError as error:
            raise KernelLost(
                f"The kernel ended in code cell {client.code_cells_executed}, as one does that the "
                "system stops for want of memory. Try again with less running beside it."
            ) from error
        except RuntimeError as error:
            if client.km is not None:
                raise
            # It has forgotten this kernel, but would clean up after it once more at Python's end.
            atexit.unregister(client._cleanup_kernel)
            reason = error
    raise KernelLost(
        f"No kernel started in {many(STARTS, 'attempt')}: {reason}. What it said itself stands "
        "above."
    ) from reason


def solved(
    course: Course,
    source: Source,
    judge: Callable[[NotebookNode], None],
    notice: Callable[[str], object] = str,
) -> NotebookNode:
    """Return the executed solution of a lesson, cached where nothing has changed.

    It runs on the virtual GPU: the site shows no output that only a GPU gives.

    ``judge`` is called on a fresh one and raises where a cell did what it should not: such a
    notebook is not kept. ``notice`` is told the lesson that is being run.
    """
    notebook = notebooks.solution(course, source)
    kept = course.root / CACHE / f"{source.lesson.id}-{fingerprint(course, source)}.ipynb"
    if not kept.is_file():
        _run_and_keep(course, source, notebook, kept, judge, notice)
    return nbformat.read(kept, as_version=4)


def _run_and_keep(course, source, notebook, kept, judge, notice) -> None:
    id = source.lesson.id
    notice(id)
    # A machine that also draws the site's other lessons is slower than one that runs a test.
    folder = course.root / "solutions"
    done = execute(notebook, folder, timeout=5 * CELL_TIMEOUT, hidden_gpu=True)
    judge(done)
    _forget_machine(done, course.root)
    for old in kept.parent.glob(f"{id}-*.ipynb"):
        old.unlink()
    write_atomically(kept, nbformat.writes(done))


def _forget_machine(notebook: NotebookNode, root: Path) -> None:
    """Shorten file names in tracebacks to paths from the course's folder."""
    prefixes = {str(root): ".", sys.prefix: ".venv", sys.base_prefix: "python"}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                text = "\n".join(output.traceback)
                for prefix in sorted(prefixes, key=len, reverse=True):
                    text = text.replace(f"{prefix}/", f"{prefixes[prefix]}/")
                output.traceback = text.split("\n")


def fingerprint(course: Course, source: Source) -> str:
    """Return a digest that changes with anything that may change a lesson's outputs."""
    digest = hashlib.sha256(notebooks.notebook_text(notebooks.solution(course, source)).encode())
    digest.update(sys.version.encode())
    files = [
        file
        for lesson in source.made_of or (source.lesson,)
        for file in (
            course.checks(lesson),
            course.predictions(lesson),
            *sorted(puzzle_folder(course.checks(lesson)).glob("*.toml")),
        )
    ]
    files += [
        course.root / "requirements" / "base.txt",
        course.root / "lab" / "results" / results.NAME,
    ]
    files += sorted(
        path
        for package in (
            PACKAGE,
            Path(gpustandins.__file__).parent,
            Path(virtualgpu.__file__).parent,
        )
        for path in package.rglob("*")
        if path.suffix in (".css", ".cuh", ".py", ".root")
        and not path.relative_to(package.parent).as_posix().startswith(_NOT_USED_BY_LESSONS)
    )
    for path in files:
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
