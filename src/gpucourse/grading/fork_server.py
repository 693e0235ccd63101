"""The server that the oracles are forked from. Imports nothing itself, so it is started first."""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver


def warm_up() -> None:
    """Let the server begin its imports (3 s), while this process does its own.

    Optional; a :class:`~gpucourse.grading.batch.Grader` does it when it starts.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gpucourse.grading.preloaded"])
    forkserver.ensure_running()
