"""Server from which the oracles are forked.

This module imports nothing heavy, so that the server can start first.
"""

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

# Modules that take long to import (jax 1 s, awkward 0.4 s) and start no threads and open no device
# until they are used.
HEAVY = ("jax", "awkward", "vector", "hist", "matplotlib.pyplot")


def with_work(course: Path) -> list[Path]:
    """Return the sources in a course directory that have submissions, otherwise all sources."""
    sources = [*course.glob("source/*/*.ipynb")]
    given = {path.name for path in course.glob("submitted/*/*")}
    return [path for path in sources if path.parent.name in given] or sources


def heavy_imports(notebooks: Iterable[Path]) -> list[str]:
    """Return the modules of HEAVY that the text or the graded cells import.

    An unreadable file adds no module. Cells that are not graded are left out, because the grader
    does not run them: all projects draw with Matplotlib in such a cell, and each of two servers
    would import it (0.35 s of processor time).
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
    """Start the server and its imports (3 s), which run while this process does its own.

    Calling it is optional, because a :class:`~.classes.batch.Grader` does it when it starts. A
    server that is already running does not change; each oracle then does the missing imports.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [without_iris.__name__, "gpucourse.grading.oracle.preloaded", *imports]
    )
    with _needed_variables():
        forkserver.ensure_running()


@contextlib.contextmanager
def _needed_variables() -> Iterator[None]:
    """Remove this session's keys from the environment of processes started in the context.

    A process can always read the environment with which it was started.
    """
    aside = {name: os.environ.pop(name) for name in list(os.environ) if not is_needed(name)}
    try:
        yield
    finally:
        os.environ.update(aside)
