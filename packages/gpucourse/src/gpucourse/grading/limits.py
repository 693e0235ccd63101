"""Every bound that the grader puts on a submission, in one place; and which device it uses."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Times are seconds that it is charged with, whatever else the
    machine does (:mod:`gpucourse.grading.oracle.clocks`), unless they say otherwise.

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

    # What may come over the wire: the JSON part of a message, and one array.
    header_bytes: int = 8 * MEGABYTE
    array_bytes: int = 256 * MEGABYTE

    # One launch on the virtual GPU, of processor time. The longest of the course takes 0.5 s.
    launch_seconds: float = 10.0
    # Device memory, launches in one call, and PTX text (a kernel of the course has 5-50 kB).
    device_bytes: int = 1024 * MEGABYTE
    launches: int = 2000
    ptx_bytes: int = 4 * MEGABYTE
    # What the oracle's own process may hold, of which the device is the most: its memory, and
    # what the checkers know of every byte.
    oracle_bytes: int = 8192 * MEGABYTE

    # Whether kernels that the virtual GPU finds nothing wrong with run on this machine's GPU too,
    # and tests judge what that computed (gpucourse.grading.oracle.checked_device).
    gpu: bool = False

    # The submitted notebook, and one cell of it.
    notebook_bytes: int = 10 * MEGABYTE
    cell_bytes: int = 200_000
