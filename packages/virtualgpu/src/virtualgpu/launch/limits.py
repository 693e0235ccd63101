"""Limits of a launch: those of the device, and the launch's budget."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from virtualgpu.lanes.wave import WARP

MAX_THREADS = 1024  # per block (CUDA C++ Programming Guide, "Compute Capabilities")
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
# The interpreter runs waves of 32,768 lanes: as many as sixteen multiprocessors of 2048 threads.
MULTIPROCESSORS = 16
THREADS_PER_MULTIPROCESSOR = 2048
BLOCKS_PER_MULTIPROCESSOR = 32
MAX_SHARED = 232_448  # bytes a block may request at compute capability 9.0


def blocks_per_multiprocessor(threads: int) -> int:
    """Return the number of resident blocks; only the limits on threads and blocks apply."""
    whole_warps = -(-threads // WARP) * WARP
    return min(BLOCKS_PER_MULTIPROCESSOR, THREADS_PER_MULTIPROCESSOR // whole_warps)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a launch on instructions, processor time and host memory.

    Attributes
    ----------
    instructions : float
        Executed instructions, counted once per lane.
    seconds : float
        Total processor time of the threads that do the work, so that a kernel is not stopped sooner
        on a busy machine. The environment variable ``VIRTUALGPU_TIME_LIMIT`` sets the default.
    nbytes : int
        Host memory for the shared and local memory of one wave.
    """

    instructions: float = float("inf")
    seconds: float = field(
        default_factory=lambda: float(os.environ.get("VIRTUALGPU_TIME_LIMIT", "60"))
    )
    nbytes: int = 1 << 30
