"""Grading device on a machine with a GPU: checks on the virtual GPU, results from the real one.

A real GPU cannot report which line of a kernel races, and an invalid address ends the whole
process's access to it. Every launch therefore runs on the virtual GPU first, with all checkers and
counters. A kernel without findings then also runs on the GPU, in another process
(:mod:`virtualgpu.devices.real.process`) and on the same memory, and the tests see the GPU's
results. Launches in a random order run only on the virtual GPU, because the order of threads on
hardware cannot be chosen.

If the two results differ and no known reason (:mod:`virtualgpu.devices.comparison`) explains it,
the grader is at fault and not the answer. This is an infrastructure fault, never a zero.
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

#: Environment variable with the folder where the comparison of every launch is recorded, one JSON
#: object per line.
RECORD = "GPUCOURSE_GPU_RECORD"
#: Environment variable: with ``virtual``, a second virtual GPU plays the part of the real one.
KIND = "GPUCOURSE_GPU_KIND"

_processes: dict[int, GPUProcess] = {}


def gpu_process() -> GPUProcess:
    """Return the GPU of this process; oracles are forked, and each uses its own."""
    process = _processes.get(os.getpid())
    if process is None:
        _processes.clear()
        process = _processes[os.getpid()] = GPUProcess(os.environ.get(KIND, GPU))
        atexit.register(process.close)
    return process


def name() -> str:
    """Return the device's name for a verdict.

    Raises InfrastructureFault if there is no GPU.
    """
    try:
        gpu_process().start()
    except GPUFault as fault:
        raise InfrastructureFault(f"this run is set to grade on a GPU: {fault}") from None
    return f"{gpu_process().name}, checked on the {VirtualDevice.name}"


#: Time limit of the GPU for one launch.
LAUNCH_SECONDS = 30.0


class CheckedDevice(UntrustingDevice):
    """A virtual GPU that takes over the memory of a real GPU after each lockstep launch.

    A launch raises InfrastructureFault if the GPU fails to run it or its results differ.
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
            # `write` would count as a host copy, but a kernel wrote these bytes, as the checkers
            # know.
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
    """Return the entries of :data:`RECORD` files, without truncated lines."""
    lines = []
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(text))
    return lines
