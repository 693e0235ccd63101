"""Execution of notebooks, and a cache of the executed ones.

``execute`` runs a notebook as it is. ``solved`` runs a lesson with its answers, checks that every
cell does what its source promises, and stores the executed notebook in ``build/executed``. As long
as nothing it depends on has changed, the next call reads it from there.
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

#: Time limit of one cell in seconds; the slowest cell of a lesson takes a few.
CELL_TIMEOUT = 120
#: Attempts to start a kernel. Its ports are chosen before it opens them, so another process may
#: have taken one in the meantime.
STARTS = 3
#: Folder of the executed notebooks, relative to the course's root.
CACHE = Path("build") / "executed"
_HIDDEN_GPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
# Parts of this package that no cell of a lesson uses.
_NOT_USED_BY_LESSONS = ("gpucourse/publish/", "gpucourse/grading/", "gpucourse/cli.py")


class KernelLost(RuntimeError):
    """Error for a kernel that did not start, or that ended while a cell ran."""


def execute(
    notebook: NotebookNode, folder: Path, timeout: int = CELL_TIMEOUT, hidden_gpu: bool = False
) -> NotebookNode:
    """Return an executed copy of ``notebook``, from a fresh kernel that starts in ``folder``.

    A cell that raises does not stop the others. If ``folder`` does not exist, the nearest existing
    parent is used. With ``hidden_gpu``, the virtual GPU is used on every machine. Raises
    KernelLost if no kernel starts, or if it ends while a cell runs.
    """
    start = next(place for place in (folder, *folder.parents) if place.is_dir())
    environment = {**os.environ, **(_HIDDEN_GPU if hidden_gpu else {})}
    for _ in range(STARTS):
        client = nbclient.NotebookClient(
            nbformat.from_dict(notebook),  # a copy, because the client writes outputs into it
            timeout=timeout,
            kernel_name="python3",
            allow_errors=True,
            # Hide the kernels' warning that they use TCP, because the connection stays on this
            # machine.
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(start)}},
        )
        try:
            # client.execute() would leave its event loop open when it is called in a thread.
            return asyncio.run(client.async_execute(env=environment))
        except DeadKernelError as error:
            raise KernelLost(
                f"The kernel ended in code cell {client.code_cells_executed}. The system may have "
                "stopped it because memory ran out. Close other programs and try again."
            ) from error
        except RuntimeError as error:
            if client.km is not None:
                raise
            # The client would otherwise clean up after this kernel again when Python exits.
            atexit.unregister(client._cleanup_kernel)
            reason = error
    raise KernelLost(
        f"No kernel started in {many(STARTS, 'attempt')}: {reason}. The kernel's own messages are "
        "above."
    ) from reason


def solved(
    course: Course,
    source: Source,
    judge: Callable[[NotebookNode], None],
    notice: Callable[[str], object] = str,
) -> NotebookNode:
    """Return the executed solution of a lesson, from the cache if nothing has changed.

    It runs on the virtual GPU, because the site must not show output that needs a GPU.

    ``judge`` is called on a newly executed notebook and raises if a cell did something wrong; such
    a notebook is not stored. ``notice`` is called with the lesson that is running.
    """
    notebook = notebooks.solution(course, source)
    kept = course.root / CACHE / f"{source.lesson.id}-{fingerprint(course, source)}.ipynb"
    if not kept.is_file():
        _run_and_keep(course, source, notebook, kept, judge, notice)
    return nbformat.read(kept, as_version=4)


def _run_and_keep(course, source, notebook, kept, judge, notice) -> None:
    id = source.lesson.id
    notice(id)
    # Drawing the site runs other lessons at the same time, so cells take longer than in a test.
    folder = course.root / "solutions"
    done = execute(notebook, folder, timeout=5 * CELL_TIMEOUT, hidden_gpu=True)
    judge(done)
    _forget_machine(done, course.root)
    for old in kept.parent.glob(f"{id}-*.ipynb"):
        old.unlink()
    write_atomically(kept, nbformat.writes(done))


def _forget_machine(notebook: NotebookNode, root: Path) -> None:
    """Shorten file names in tracebacks to paths relative to the course's folder."""
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
