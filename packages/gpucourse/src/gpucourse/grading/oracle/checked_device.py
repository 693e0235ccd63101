"""The grader's device where there is a GPU: checked on the virtual GPU, computed on the real one.

A real GPU cannot say which line of a kernel races, and a bad address takes it away. So every launch
runs on the virtual GPU first, with all that watches it: there the checkers look and the counters
count. One that gets through runs on the GPU as well, in another process
(:mod:`virtualgpu.devices.real.process`), from the same memory, and the tests see what the GPU
computed. Launches in a random order are the virtual GPU's alone: hardware cannot be told one.

Where the two disagree and nothing excuses it (:mod:`virtualgpu.devices.comparison`), the grader
is at fault and not the answer: that is an infrastructure fault, never a zero.
"""

from __future__ import annotations

import atexit
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from gpucourse.grading.contract import InfrastructureFault
from gpucourse.grading.oracle.untrusted_ptx import UntrustingDevice
from virtualgpu.api import (
    GPU,
    Budget,
    GPUFault,
    GPUProcess,
    LoadedModule,
    Lockstep,
    RecordedLaunch,
    Triple,
    VirtualDevice,
    capture,
    compare,
    finish,
    new_schedule,
)

#: A folder where the agreement of every launch is written down, one JSON object per line.
RECORD = "GPUCOURSE_GPU_RECORD"
#: ``virtual`` puts a second virtual GPU in the part of the real one, to rehearse.
KIND = "GPUCOURSE_GPU_KIND"

_processes: dict[int, GPUProcess] = {}


def gpu_process() -> GPUProcess:
    """Return the GPU of this process; oracles are forked, and each has its own."""
    process = _processes.get(os.getpid())
    if process is None:
        _processes.clear()
        process = _processes[os.getpid()] = GPUProcess(os.environ.get(KIND, GPU))
        atexit.register(process.close)
    return process


def name() -> str:
    """Return the device's name for a verdict.

    Raises InfrastructureFault where there is no GPU.
    """
    try:
        gpu_process().start()
    except GPUFault as fault:
        raise InfrastructureFault(f"grading on a GPU was asked for: {fault}") from None
    return f"{gpu_process().name}, checked on the {VirtualDevice.name}"


#: The time that the GPU has for one launch.
LAUNCH_SECONDS = 30.0


class CheckedDevice(UntrustingDevice):
    """A virtual GPU that takes its memory from a real GPU after each lockstep launch.

    Raises InfrastructureFault in a launch that the GPU does not do, or does differently.
    """

    def __init__(
        self,
        total_memory: int | None = None,
        budget: Budget | None = None,
        gpu: GPUProcess | None = None,
    ):
        super().__init__(total_memory, budget)
        self._gpu = gpu or gpu_process()

    def launch(
        self,
        module: LoadedModule,
        entry: str,
        grid: Triple,
        block: Triple,
        parameters: list[bytes],
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: Triple | None = None,
    ) -> None:
        what = (module, entry, grid, block, parameters, shared_bytes, cooperative, cluster)
        if not isinstance(new_schedule(), Lockstep):
            super().launch(*what)
            return
        launch = capture(self, *what)
        super().launch(*what)
        finish(launch, self)
        try:
            after = self._gpu.play(launch, LAUNCH_SECONDS)
        except GPUFault as fault:
            raise InfrastructureFault(
                f"the kernel '{launch.kernel}' runs on the virtual GPU but not on the GPU: {fault}"
            ) from None
        self._judge(launch, after)
        for piece, array in zip(launch.pieces, after, strict=True):
            # Not `write`: which bytes a kernel has written, the checkers know already.
            self.view(piece.address, (len(array),), np.uint8)[:] = array

    def _judge(self, launch: RecordedLaunch, after: list[np.ndarray]) -> None:
        found = compare(launch, after, UntrustingDevice)
        if folder := os.environ.get(RECORD):
            line = {
                "launch": str(launch),
                "verdict": found.verdict,
                "reasons": found.reasons,
                "worst": found.worst,
                "detail": found.detail,
            }
            with open(Path(folder) / f"{os.getpid()}.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if not found.fine and not found.reasons:
            raise InfrastructureFault(
                f"the GPU and the virtual GPU disagree on {launch}: {found.detail}"
            )


def read_record(folder: Path) -> list[dict]:
    """Return the entries of :data:`RECORD`; a truncated line is left out."""
    lines = []
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(text))
    return lines
