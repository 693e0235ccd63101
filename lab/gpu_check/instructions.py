"""Comparison of every instruction form: this GPU, an H200's results and the virtual GPU.

    python -m lab.gpu_check.instructions RESULT --device gpu

The operands and the H200's results are those of ``packages/virtualgpu/tests/operations/h200``. A
row for each form is saved at once, and existing rows are not repeated.
"""

from __future__ import annotations

import argparse
import importlib
import struct
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from lab.gpu_check import jobs, rows
from lab.gpu_check.lesson_run import find_root
from lab.gpu_check.record_labelled import SUPPORT
from lab.gpu_check.rows import AGREES, DIFFERS, NOT_RUN, Row
from virtualgpu.devices.protocol import Device
from virtualgpu.devices.real.gpu import FATAL
from virtualgpu.devices.real.process import GPU, VIRTUAL, open_device
from virtualgpu.devices.recorded import Piece, RecordedLaunch, play
from virtualgpu.errors import VirtualGPUError

#: The addresses of the arrays of a launch; no operand is an address in this range.
PLACES, APART = 0x5EED_0000_0000, 1 << 32


def vectors() -> ModuleType:
    """Return an H200's results, and the kernels that compute the same."""
    sys.path.insert(0, str(find_root() / SUPPORT))
    return importlib.import_module("h200_vectors")


def launch_of(text: str, arrays: list[np.ndarray], grid: int, block: int) -> RecordedLaunch:
    """Return a launch of a kernel ``k`` that takes the addresses of the arrays."""
    pieces = [
        Piece(PLACES + APART * number, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        for number, array in enumerate(arrays)
    ]
    return RecordedLaunch(
        "k",
        "k",
        (text,),
        (grid, 1, 1),
        (block, 1, 1),
        [struct.pack("<Q", piece.address) for piece in pieces],
        0,
        False,
        pieces,
    )


def judge(form: str, there: np.ndarray, here: np.ndarray, recorded: np.ndarray) -> Row:
    """Return the verdict on one form: equal, as on an H200, or neither."""

    def differing(other: np.ndarray) -> int:
        return int((there != other).any(axis=0).sum())

    figures = {
        "threads": there.shape[1],
        "not as the virtual GPU": differing(here),
        "not as an H200": differing(recorded),
    }
    if not figures["not as the virtual GPU"]:
        return Row(form, AGREES, "", figures)
    told = (
        f"{figures['not as the virtual GPU']} of {figures['threads']} threads have other bits "
        "than on the virtual GPU"
    )
    if not figures["not as an H200"]:
        return Row(form, AGREES, f"{told}, but the same as on an H200", figures)
    return Row(
        form,
        DIFFERS,
        f"{told}, and {figures['not as an H200']} other bits than on an H200",
        figures,
    )


def compare(known: ModuleType, forms: list[str], device: Device) -> list[Row]:
    """Return the rows of the forms in one kernel. The device's errors are passed on."""
    text, arrays, grid, block = known.asked(forms)
    left = play(launch_of(text, arrays, grid, block), device, poison=False)[0]
    there = known.results(forms, left)
    here, _ = known.run(forms, None)
    return [judge(form, there[form], here[form], known.recorded().results[form]) for form in forms]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("result", type=Path)
    parser.add_argument("--device", choices=(GPU, VIRTUAL), default=GPU)
    given = parser.parse_args()
    jobs.end_with_parent()
    known = vectors()
    done = {row.what for row in rows.read(given.result)}
    device = open_device(given.device)
    for group in known.groups():
        forms = [form for form in group if form not in done]
        if not forms:
            continue
        try:
            found = compare(known, forms, device)
        except VirtualGPUError:
            found = [row for form in forms for row in alone(known, form, device)]
        for row in found:
            rows.append(given.result, row)


def alone(known: ModuleType, form: str, device: Device) -> list[Row]:
    """Run a form in its own kernel, because a GPU that lacks one form may become unusable."""
    try:
        return compare(known, [form], device)
    except VirtualGPUError as error:
        if getattr(error, "name", "") in FATAL:
            raise
        return [Row(form, NOT_RUN, f"{type(error).__name__}: {str(error).splitlines()[0][:300]}")]


if __name__ == "__main__":
    main()
