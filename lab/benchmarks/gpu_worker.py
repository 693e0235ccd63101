"""Worker process that runs the groups of a benchmark and reports every row at once.

It is separate from its parent, because a faulty kernel makes the GPU unusable for its process. The
parent records the row that failed and starts another worker for the rest.
"""

from __future__ import annotations

import gc
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import SimpleNamespace

from lab.benchmarks import (
    gpu_cub,
    gpu_histogram,
    gpu_jaxpile,
    gpu_lessons,
    gpu_machine,
    gpu_mandelbrot,
    gpu_measuring,
    gpu_provenance,
    gpu_quadratic,
    gpu_reduction,
    gpu_sampling,
    gpu_work,
    gpu_zmass,
)
from lab.benchmarks.gpu_work import Contender, Group, Work

#: Set before any library starts.
ENVIRONMENT = {
    # By default JAX would take three quarters of the memory at once.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "2",  # XLA's messages on standard error
}

_ALL = {
    group.id: group
    for module in (
        gpu_machine,
        gpu_quadratic,
        gpu_reduction,
        gpu_histogram,
        gpu_mandelbrot,
        gpu_sampling,
        gpu_zmass,
        gpu_lessons,
        gpu_jaxpile,
    )
    for group in module.GROUPS
}
#: The most valuable groups come first, so that a run that is cut short has them.
ORDER = (
    "copy",
    "quadratic.float64",
    "reduction",
    "histogram.peaks",
    "mandelbrot.picture",
    "launch",
    "jaxpile.equation_of_state",
    "jaxpile.isoneutral_mixing",
    "jaxpile.turbulent_kinetic_energy",
    "sampling.disc",
    "zmass",
    "link",
    "peak.float32",
    "peak.float64",
    "quadratic.float32",
    "scaling.quadratic",
    "scaling.reduction",
    "histogram.even",
    "mandelbrot.area",
    "lesson.coalescing",
    "lesson.product",
    "lesson.turning",
    "lesson.banks",
    "lesson.columns",
    "sampling.numbers",
)
GROUPS = tuple(_ALL[id] for id in ORDER)
assert set(ORDER) == set(_ALL), sorted(set(_ALL) ^ set(ORDER))


@dataclass(frozen=True)
class Task:
    """Group in one size; ``without`` contains contenders that have failed and are skipped."""

    group: str
    size: int
    without: frozenset[str] = frozenset()


def tasks(groups: Iterable[Group], trial: bool) -> list[Task]:
    """Return a run's tasks, in order."""
    return [
        Task(group.id, size) for group in groups for size in (group.tries if trial else group.sizes)
    ]


def prepare_environment(trial: bool) -> None:
    """Set the variables that libraries read when they start."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if trial:
        os.environ["JAX_PLATFORMS"] = "cpu"


def main(pipe: Connection, todo: list[Task], trial: bool, deadline: float) -> None:
    """Do the tasks and send messages, which are tuples (kind, …).

    The kinds are "machine", "begin", "making", "row", "done", "broken" and "refused". ``deadline``
    is a time.time(). The output of libraries goes to standard error.
    """
    os.dup2(2, 1)
    prepare_environment(trial)
    warnings.simplefilter("ignore")
    try:
        watch = begin(pipe, todo, trial)
    except Exception as error:  # too old, busy or out of memory: the next worker may succeed
        pipe.send(("refused", gpu_measuring.told(error)))
        return
    for task in todo:
        if time.time() > deadline:
            break
        pipe.send(("begin", task))
        do(task, pipe.send, watch, lambda: deadline - time.time())
        pipe.send(("done", task))
        _free()
        if not trial and (trouble := _trouble()):
            pipe.send(("broken", trouble))
            return


def begin(pipe: Connection, todo: list[Task], trial: bool) -> gpu_measuring.Stopwatch | None:
    """Identify the machine and prepare its clock. The GPU's errors are passed on."""
    gpu_work.prepare(virtual=trial)
    if trial:
        return None
    pipe.send(("machine", gpu_provenance.gpu()))
    watch = gpu_measuring.GPUStopwatch()
    if any(_ALL[task.group].id in ("reduction", "histogram.peaks") for task in todo):
        gpu_cub.start(_capability())
    return watch


def do(
    task: Task,
    send: Callable[[tuple], None],
    watch: gpu_measuring.Stopwatch | None,
    time_left: Callable[[], float],
) -> None:
    """Do one task: create its contenders' rows, with times if there is a ``watch``."""
    group = _ALL[task.group]
    gpu_work.precision(group.x64)
    try:
        work = group.build(task.size)
    except Exception as error:
        send(("row", {**named(group, task.size, None, None), "error": gpu_measuring.told(error)}))
        return
    timed = []
    for contender in work.contenders:
        if contender.id in task.without:
            continue
        send(("making", contender.id))
        row = named(group, task.size, work, contender)
        try:
            timed.append(gpu_measuring.make_ready(contender))
        except gpu_work.Untried as reason:
            send(("row", {**row, "untried": str(reason)}))
        except Exception as error:
            send(("row", {**row, "error": gpu_measuring.told(error)}))
            if watch is not None and (trouble := _trouble()):
                send(("broken", trouble))
                sys.exit(1)
    send(("making", None))
    if watch is not None:
        gpu_measuring.measure(timed, watch, group.patience, time_left)
    for one in timed:
        row = named(group, task.size, work, one.contender)
        send(("row", {**row, **samples(one, measured=watch is not None)}))


def named(group: Group, size: int, work: Work | None, contender: Contender | None) -> dict:
    """Return the fields common to all rows."""
    row = {
        "id": f"{group.id}/{contender.id if contender else 'build'}/{size}",
        "group": group.id,
        "title": group.title,
        "size": size,
    }
    if contender:
        row |= {
            "contender": contender.id,
            "label": contender.label,
            "made_by": contender.made_by,
            "clock": contender.clock,
        }
    if work:
        row |= {"items": work.items, "unit": work.unit, "bytes": work.bytes, "flops": work.flops}
    return row


def samples(timed: gpu_measuring.Timed, *, measured: bool) -> dict:
    """Return a row's outcome: its samples in milliseconds, its error, or its success."""
    if timed.error:
        return {"error": timed.error}
    if not measured:
        return {"right": True}
    found = {"right": True, "calls_in_a_row": timed.calls}
    for clock in ("device_ms", "queue_ms", "call_ms"):
        if values := getattr(timed, clock):
            found[clock] = [float(f"{value:.5g}") for value in values]
            if not all(math.isfinite(value) and value > 0 for value in values):
                return {"error": f"{clock}: the clock gave no time"}
    return found


def _free() -> None:
    """Free the memory of the last group as far as libraries release it."""
    gc.collect()
    cupy = sys.modules.get("cupy")
    if cupy is not None and not gpu_work.virtual():
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


def _trouble() -> str:
    """Return the device's error if it can no longer be used, else an empty string."""
    import cupy as cp

    try:
        cp.cuda.runtime.deviceSynchronize()
        float(cp.ones(1).sum())
    except Exception as error:
        return gpu_measuring.told(error)
    return ""


def _capability() -> tuple[int, int]:
    import cupy as cp

    properties = cp.cuda.runtime.getDeviceProperties(0)
    return properties["major"], properties["minor"]


def trial(group: str, size: int | None = None) -> list[SimpleNamespace]:
    """Run one group in this process on the virtual GPU and return its rows, for tests."""
    rows: list[SimpleNamespace] = []

    def send(message: tuple) -> None:
        if message[0] == "row":
            rows.append(SimpleNamespace(**message[1]))

    gpu_work.prepare(virtual=True)
    for one in _ALL[group].tries if size is None else (size,):
        do(Task(group, one), send, None, lambda: 0.0)
    return rows
