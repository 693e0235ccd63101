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

    Unless a comment says otherwise, times are the seconds charged to the submission, which do not
    depend on the machine's other load (:mod:`gpucourse.grading.oracle.clocks`).

    The defaults allow ten times what an honest answer to a course project needs on a two-core
    machine: the slowest reference solution compiles its kernels in about 5 s and runs in 3 s.
    """

    # One request to the student's process: run a cell, call a function or compile a kernel.
    request_seconds: float = 20.0
    # Wall-clock limit of one request, under any load. The longest request of the course's own
    # answers takes 2 s, or 12 s on a machine that is slowed down six times.
    request_wall_seconds: float = 60.0
    # One test cell, and all test cells of a submission together.
    test_seconds: float = 60.0
    total_seconds: float = 240.0
    # Wall-clock limit of a submission. The first time that this limit or the one of a request is
    # exceeded, it counts as the machine's fault if the machine was delayed; otherwise it is the
    # submission's fault.
    wall_seconds: float = 1200.0

    # The student's process: memory in addition to the preloaded libraries, size of one file, CPU
    # time.
    memory_bytes: int = 2048 * MEGABYTE
    file_bytes: int = 16 * MEGABYTE
    home_bytes: int = 64 * MEGABYTE
    cpu_seconds: int = 240
    threads: int = 64

    # Size of a message: its JSON part, and all its arrays together.
    header_bytes: int = 8 * MEGABYTE
    array_bytes: int = 256 * MEGABYTE

    # Processor time of one launch on the virtual GPU. The longest of the course takes 0.5 s.
    launch_seconds: float = 10.0
    # Device memory, launches in one call, and size of the PTX (the course's kernels have 5-50 kB).
    device_bytes: int = 1024 * MEGABYTE
    launches: int = 2000
    ptx_bytes: int = 4 * MEGABYTE
    # Memory limit of the oracle's own process. The device takes most of it: its memory, and the
    # records that the checkers keep of every byte.
    oracle_bytes: int = 8192 * MEGABYTE

    # If True, kernels without findings on the virtual GPU also run on this machine's GPU, and the
    # tests judge its results (gpucourse.grading.oracle.checked_device).
    gpu: bool = False

    # The submitted file, the notebook without its outputs, and one cell of it.
    upload_bytes: int = 64 * MEGABYTE
    notebook_bytes: int = 10 * MEGABYTE
    cell_bytes: int = 200_000


def limits_from(settings: Mapping[str, Any]) -> Limits:
    """Return the default limits, changed by `settings` from ``nbgrader_config.py``.

    Raises ValueError, with a message for the teacher, for an unknown name or an invalid value.
    """
    known = {field.name: type(field.default) for field in fields(Limits)}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(
                f"GradeWithOracle.limits: there is no limit {name!r}. The limits are: "
                + ", ".join(known)
            )
        if known[name] is bool and not isinstance(value, bool):
            raise ValueError(f"GradeWithOracle.limits: {name} must be True or False, not {value!r}")
        if known[name] is not bool and (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
            or value <= 0
            or (known[name] is int and value != int(value))
        ):
            raise ValueError(
                f"GradeWithOracle.limits: {name} must be a "
                f"{'whole ' if known[name] is int else ''}number above 0, not {value!r}"
            )
    return replace(Limits(), **settings)
