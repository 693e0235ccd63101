"""The server that the oracles are forked from. Imports nothing itself, so it is started first."""

from __future__ import annotations

import contextlib
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


def heavy_imports(notebooks: Iterable[Path]) -> list[str]:
    """Return which of HEAVY the notebooks import; an unreadable file imports nothing."""
    text = ""
    for path in notebooks:
        try:
            text += path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    return [name for name in HEAVY if re.search(rf"\b(import|from) {re.escape(name)}\b", text)]


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
    """Hide this session's keys from what is started inside the context.

    A process can read for good what its first program was given.
    """
    aside = {name: os.environ.pop(name) for name in list(os.environ) if not is_needed(name)}
    try:
        yield
    finally:
        os.environ.update(aside)
