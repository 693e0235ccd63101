"""Replay of recorded launches on this process's GPU, to be watched by NVIDIA's tools.

    compute-sanitizer --tool racecheck python -m lab.gpu_check.play A.npz B.npz

Before each launch, its file name is printed after ``#### ``, and an error is printed after ``!!!!
``, so that a tool's report can be divided by launch. Nothing else runs on the GPU. After a launch
that makes the GPU unusable for this process, no further launch runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.gpu_check import jobs
from virtualgpu.devices.real.gpu import FATAL
from virtualgpu.devices.real.process import GPU, VIRTUAL, open_device
from virtualgpu.devices.recorded import RecordedLaunch, play
from virtualgpu.errors import VirtualGPUError

LAUNCH, WRONG = "#### ", "!!!! "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--device", choices=(GPU, VIRTUAL), default=GPU)
    parser.add_argument("--unwritten", action="store_true", help="do not fill uninitialised memory")
    given = parser.parse_args()
    jobs.end_with_parent()
    device = open_device(given.device)
    for path in given.files:
        print(f"{LAUNCH}{path.stem}", flush=True)
        try:
            play(RecordedLaunch.load(path), device, poison=not given.unwritten)
        except VirtualGPUError as error:
            print(
                f"{WRONG}{path.stem}: {type(error).__name__}: {str(error).splitlines()[0]}",
                flush=True,
            )
            if getattr(error, "name", "") in FATAL:
                raise SystemExit(1) from None


if __name__ == "__main__":
    main()
