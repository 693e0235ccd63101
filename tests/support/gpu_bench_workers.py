"""Workers for tests of the benchmark's parent process; each simulates a problem with a GPU.

Each has the interface of :func:`lab.benchmarks.gpu_worker.main`, ``(pipe, todo, trial,
deadline)``, and runs in a separate process. They are in a module because that process has to
import them.
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
    """Do everything and report the device."""
    pipe.send(("machine", {"name": "made up"}))
    for task in todo:
        _do(pipe, task, "a", "b")


def dies_making(pipe, todo, trial, deadline) -> None:
    """End the process at contender "b" of group "two", like a segmentation fault."""
    for task in todo:
        if task.group == "two" and "b" not in task.without:
            pipe.send(("begin", task))
            pipe.send(("making", "a"))
            pipe.send(("row", _row(task, "a", 1.0)))
            pipe.send(("making", "b"))
            os._exit(11)
        _do(pipe, task, "a", "b")


def breaks_the_device(pipe, todo, trial, deadline) -> None:
    """Report an illegal address at contender "b" of group "two"."""
    for task in todo:
        if task.group == "two" and "b" not in task.without:
            pipe.send(("begin", task))
            pipe.send(("making", "b"))
            pipe.send(("row", {**_row(task, "b"), "error": "CUDARuntimeError: illegal address"}))
            pipe.send(("broken", "CUDARuntimeError: illegal address"))
            return
        _do(pipe, task, "a", "b")


def hangs_timing(pipe, todo, trial, deadline) -> None:
    """Never finish the timing of group "two"."""
    for task in todo:
        if task.group == "two":
            pipe.send(("begin", task))
            pipe.send(("making", None))
            time.sleep(600)
        _do(pipe, task, "a", "b")


def never_starts(pipe, todo, trial, deadline) -> None:
    """Fail as if a library could not be imported."""
    os._exit(1)


def is_refused(pipe, todo, trial, deadline) -> None:
    """Fail as if the GPU were too old, in use by another process, or full."""
    pipe.send(("refused", BUSY))


def loses_the_gpu(pipe, todo, trial, deadline) -> None:
    """Finish the first group, then lose the GPU, also for later workers."""
    if todo[0].group != "one":
        pipe.send(("refused", BUSY))
        return
    _do(pipe, todo[0], "a", "b")
    pipe.send(("begin", todo[1]))
    pipe.send(("making", "a"))
    pipe.send(("broken", "CUDARuntimeError: cudaErrorECCUncorrectable"))


def stops_early(pipe, todo, trial, deadline) -> None:
    """Stop as at the deadline, after one group."""
    pipe.send(("machine", {"name": "made up"}))
    _do(pipe, todo[0], "a")
    time.sleep(max(0.0, deadline - time.time()))
