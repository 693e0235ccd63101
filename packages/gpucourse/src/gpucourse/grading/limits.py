"""Limits that the grader sets on a submission, and the choice of its device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one submission.

    Times are seconds that it is charged with, whatever else the machine does
    (:mod:`gpucourse.grading.oracle.clocks`), unless they say otherwise.

    The defaults leave an honest answer to a course project a factor of ten on a two-core
    machine: the slowest reference solution compiles its kernels in about 5 s and runs in 3 s.
    """

    # One request to the student's process: run a cell, call a function, compile a kernel.
    request_seconds: float = 20.0
    # The same by the clock on the wall, whoever else has the processors. The longest request of the
    # course's own answers takes 2 s: on a machine that is slowed six times, 12.
    request_wall_seconds: float = 60.0
    # One test cell, and all test cells of a submission together.
    test_seconds: float = 60.0
    total_seconds: float = 240.0
    # The same by the clock on the wall. Passing it, or that of a request, is the machine's fault
    # once, if the machine was held up, and else the submission's.
    wall_seconds: float = 1200.0

    # The student's process: memory on top of the preloaded libraries, one file, CPU time.
    memory_bytes: int = 2048 * MEGABYTE
    file_bytes: int = 16 * MEGABYTE
    home_bytes: int = 64 * MEGABYTE
    cpu_seconds: int = 240
    threads: int = 64

    # Limits on a message: its JSON part, and one array.
    header_bytes: int = 8 * MEGABYTE
    array_bytes: int = 256 * MEGABYTE

    # One launch on the virtual GPU, of processor time. The longest of the course takes 0.5 s.
    launch_seconds: float = 10.0
    # Device memory, launches in one call, and PTX text (a kernel of the course has 5-50 kB).
    device_bytes: int = 1024 * MEGABYTE
    launches: int = 2000
    ptx_bytes: int = 4 * MEGABYTE
    # Memory limit of the oracle's own process. Most of it is the device: its memory, and the
    # checkers' records of every byte.
    oracle_bytes: int = 8192 * MEGABYTE

    # True if kernels without findings on the virtual GPU also run on this machine's GPU, and tests
    # judge its results (gpucourse.grading.oracle.checked_device).
    gpu: bool = False

    # The file that was handed in; the notebook without its outputs, and one cell of it.
    upload_bytes: int = 64 * MEGABYTE
    notebook_bytes: int = 10 * MEGABYTE
    cell_bytes: int = 200_000


def limits_from(settings: Mapping[str, Any]) -> Limits:
    """Return the limits with those of `settings` changed, as ``nbgrader_config.py`` sets them.

    Raises ValueError, in words for the teacher, for a name that is none or a value that cannot be.
    """
    known = {field.name: type(field.default) for field in fields(Limits)}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(
                f"GradeWithOracle.limits: there is no limit {name!r}. There are: "
                + ", ".join(known)
            )
        if known[name] is bool and not isinstance(value, bool):
            raise ValueError(f"GradeWithOracle.limits: {name} is True or False, not {value!r}")
        if known[name] is not bool and (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
            or value <= 0
            or (known[name] is int and value != int(value))
        ):
            raise ValueError(
                f"GradeWithOracle.limits: {name} is a number above 0"
                f"{', a whole one' if known[name] is int else ''}, not {value!r}"
            )
    return replace(Limits(), **settings)
