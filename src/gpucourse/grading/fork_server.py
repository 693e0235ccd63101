"""The server that the oracles are forked from. Imports nothing itself, so it is started first."""

from __future__ import annotations

import multiprocessing
import re
import sys
from collections.abc import Iterable
from multiprocessing import forkserver
from pathlib import Path

# What takes long to import (jax 1 s, awkward 0.4 s) and has no threads or device until it is used.
HEAVY = ("jax", "awkward", "vector", "hist", "matplotlib.pyplot")


def heavy_imports(notebooks: Iterable[Path]) -> list[str]:
    """Which of HEAVY the notebooks import somewhere; a file that cannot be read imports nothing."""
    text = ""
    for path in notebooks:
        try:
            text += path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
    return [name for name in HEAVY if re.search(rf"\b(import|from) {re.escape(name)}\b", text)]


def leave_out_iris() -> None:
    """Have jsonschema, which nbformat imports, do without its grammar of IRIs.

    Building it takes 1.2 of nbformat's 1.3 s, in each process that starts, and no schema of
    nbformat's asks for that format. jsonschema works without the package, which is optional.
    """
    sys.modules.setdefault("rfc3987_syntax", None)


def warm_up(imports: Iterable[str] = ()) -> None:
    """Let the server begin its imports (3 s), while this process does its own.

    Optional; a :class:`~gpucourse.grading.batch.Grader` does it when it starts. A server that runs
    already stays as it is: what it has not imported, each oracle does.
    """
    leave_out_iris()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gpucourse.grading.preloaded", *imports])
    forkserver.ensure_running()
