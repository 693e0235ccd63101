"""Workers for tests of the benchmark's parent: they do what a GPU's trouble looks like from there.

Each is what :func:`lab.benchmarks.gpu_worker.main` is: ``(pipe, todo, trial, deadline)`` in a
process of its own. A module, since that process has to import them.
"""

from __future__ import annotations

import os
import time

BUSY = "CUDARuntimeError: cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy"


def _row(task, contender: str, ms: float = 2.0) -> dict:
    return {
        "id": f"{task.group}/{contender}/{task.size}",
        "group": task.group,
        "title": "made up",
        "size": task.size,
        "contender": contender,
        "label": contender,
        "right": True,
        "call_ms": [ms, ms, ms],
    }


def _do(pipe, task, *contenders: str) -> None:
    pipe.send(("begin", task))
    for contender in contenders:
        if contender not in task.without:
            pipe.send(("making", contender))
            pipe.send(("row", _row(task, contender)))
    pipe.send(("done", task))


def good(pipe, todo, trial, deadline) -> None:
    """Does all; says where."""
    pipe.send(("machine", {"name": "made up"}))
    for task in todo:
        _do(pipe, task, "a", "b")


def dies_making(pipe, todo, trial, deadline) -> None:
    """Contender "b" of group "two" ends the process, as a segmentation fault does."""
    for task in todo:
        if task.group == "two" and "b" not in task.without:
            pipe.send(("begin", task))
            pipe.send(("making", "a"))
            pipe.send(("row", _row(task, "a", 1.0)))
            pipe.send(("making", "b"))
            os._exit(11)
        _do(pipe, task, "a", "b")


def breaks_the_device(pipe, todo, trial, deadline) -> None:
    """Contender "b" of group "two" leaves an illegal address behind, and says so."""
    for task in todo:
        if task.group == "two" and "b" not in task.without:
            pipe.send(("begin", task))
            pipe.send(("making", "b"))
            pipe.send(("row", {**_row(task, "b"), "error": "CUDARuntimeError: illegal address"}))
            pipe.send(("broken", "CUDARuntimeError: illegal address"))
            return
        _do(pipe, task, "a", "b")


def hangs_timing(pipe, todo, trial, deadline) -> None:
    """Group "two" is never done with its timing."""
    for task in todo:
        if task.group == "two":
            pipe.send(("begin", task))
            pipe.send(("making", None))
            time.sleep(600)
        _do(pipe, task, "a", "b")


def never_starts(pipe, todo, trial, deadline) -> None:
    """As where a library cannot be imported."""
    os._exit(1)


def is_refused(pipe, todo, trial, deadline) -> None:
    """As where the GPU is too old, another process has it, or its memory is full."""
    pipe.send(("refused", BUSY))


def loses_the_gpu(pipe, todo, trial, deadline) -> None:
    """The first group is done; then the GPU is gone, for the next workers too."""
    if todo[0].group != "one":
        pipe.send(("refused", BUSY))
        return
    _do(pipe, todo[0], "a", "b")
    pipe.send(("begin", todo[1]))
    pipe.send(("making", "a"))
    pipe.send(("broken", "CUDARuntimeError: cudaErrorECCUncorrectable"))


def stops_early(pipe, todo, trial, deadline) -> None:
    """As at the deadline: one group, and no more."""
    pipe.send(("machine", {"name": "made up"}))
    _do(pipe, todo[0], "a")
    time.sleep(max(0.0, deadline - time.time()))
