"""The server that the oracles are forked from. Imports nothing itself, so it is started first."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
from collections.abc import Iterable, Iterator
from multiprocessing import forkserver
from pathlib import Path

from gpucourse.grading.oracle.confined import is_needed
from gpucourse.system import without_iris

# What takes long to import (jax 1 s, awkward 0.4 s) and has no threads or device until it is used.
HEAVY = ("jax", "awkward", "vector", "hist", "matplotlib.pyplot")


def with_work(course: Path) -> list[Path]:
    """Return the sources in a course directory for which something was handed in, else all."""
    sources = [*course.glob("source/*/*.ipynb")]
    given = {path.name for path in course.glob("submitted/*/*")}
    return [path for path in sources if path.parent.name in given] or sources


def heavy_imports(notebooks: Iterable[Path]) -> list[str]:
    """Return the modules of HEAVY that the text or the graded cells name.

    An unreadable file imports nothing.

    Code that only shows something is not run by the grader: all projects draw with Matplotlib in
    such a cell, and each of two servers would import it (0.35 s of a processor).
    """
    text = "\n".join(map(_graded_text, notebooks))
    return [name for name in HEAVY if re.search(rf"\b(import|from) {re.escape(name)}\b", text)]


def _graded_text(notebook: Path) -> str:
    try:
        return "\n".join(
            "".join(cell["source"])
            for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "markdown" or cell["metadata"].get("nbgrader")
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""


def warm_up(imports: Iterable[str] = ()) -> None:
    """Let the server begin its imports (3 s), while this process does its own.

    Optional; a :class:`~.classes.batch.Grader` does it when it starts. A server that runs already
    stays as it is: what it has not imported, each oracle does.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [without_iris.__name__, "gpucourse.grading.oracle.preloaded", *imports]
    )
    with _needed_variables():
        forkserver.ensure_running()


@contextlib.contextmanager
def _needed_variables() -> Iterator[None]:
    """Hide this session's keys from processes that start inside the context.

    A process can read for good what its first program was given.
    """
    aside = {name: os.environ.pop(name) for name in list(os.environ) if not is_needed(name)}
    try:
        yield
    finally:
        os.environ.update(aside)
