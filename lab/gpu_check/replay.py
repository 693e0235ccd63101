"""Replay of the virtual GPU's recorded launches on the GPU, with a comparison.

    python -m lab.gpu_check.replay FOLDER RESULT.jsonl

The command writes one row for each ``.npz`` file in the folder, as soon as the row is known.
Launches that already have a row are skipped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.gpu_check import jobs, rows
from lab.gpu_check.rows import AGREES, DIFFERS, FAILS, Row
from virtualgpu.devices import comparison
from virtualgpu.devices.real.process import GPU, VIRTUAL, GPUFault, GPUProcess
from virtualgpu.devices.recorded import RecordedLaunch

SECONDS = 20.0  # for one launch, which takes milliseconds on a GPU


def replay(path: Path, gpu: GPUProcess) -> Row:
    """Run one launch on the GPU and compare it with the virtual GPU's record."""
    launch = RecordedLaunch.load(path)
    what = f"{launch} ({launch.note})" if launch.note else str(launch)
    try:
        got = gpu.play(launch, SECONDS)
    except GPUFault as fault:
        return Row(what, FAILS, str(fault), {"bytes": launch.nbytes})
    found = comparison.compare(launch, got)
    figures = {"agreement": found.verdict, "bytes": found.nbytes}
    if found.verdict != comparison.EQUAL:
        figures |= {"why": found.reasons, "differing": found.differing, "worst": found.worst}
    if found.unknown:
        figures["not known"] = found.unknown
    return Row(what, AGREES if found.fine else DIFFERS, found.detail, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("--device", choices=(GPU, VIRTUAL), default=GPU)
    given = parser.parse_args()
    jobs.end_with_parent()
    known = rows.read(given.result)
    rows.write(given.result, known)
    # Rows are in the order of the files, so the existing rows are those of the first files.
    with GPUProcess(given.device) as gpu:
        for path in sorted(given.folder.glob("*.npz"))[len(known) :]:
            rows.append(given.result, replay(path, gpu))


if __name__ == "__main__":
    main()
