"""Comparison of a lesson on a GPU and on the virtual GPU: errors, passed checks, arrays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from lab.gpu_check.lesson_run import Ran, read
from lab.gpu_check.rows import AGREES, DIFFERS, FAILS, NOT_RUN, Row
from virtualgpu.devices.comparison import close

_NOTES = 12  # characters kept of one lesson's output


def judge(id: str, there: Path, total: int, last: str = "") -> Row:
    """Return the verdict whether a lesson runs as its source promises, on any device.

    ``total`` is the number of its cells, ``last`` the last output of its process.
    """
    device, cells = read(there)
    if not cells:
        return Row(id, FAILS, f"it did not start: {last}")
    wrong = list(_mistakes(cells))
    if len(cells) < total:
        wrong.insert(
            0,
            f"it ended in the cell after {cells[-1].name!r} (cell {len(cells)} of {total}): {last}",
        )
    first = next((cell for cell in cells if cell.error and cell.error not in cell.expected), None)
    if first is not None and first.error == "ModuleNotFoundError":
        return Row(id, NOT_RUN, f"{first.message} (cell {first.name!r})", {"device": device})
    figures = {
        "cells": len(cells),
        "checks": sum(len(cell.outcomes) for cell in cells),
        "seconds": round(sum(cell.seconds for cell in cells), 1),
        "device": device,
    }
    return Row(id, FAILS if wrong else AGREES, "; ".join(wrong[:_NOTES]), figures)


def _mistakes(cells: list[Ran]):
    for cell in cells:
        if cell.error and cell.error not in cell.expected:
            told = cell.message.splitlines()[0] if cell.message else ""
            yield f"cell {cell.name!r} raises {cell.error}: {told} ({cell.where})"
        for name, passed, message in cell.outcomes:
            if not passed:
                yield f"check {name!r} refuses the solution: {message}"


def compare(id: str, there: Path, here: Path, again: Path | None = None) -> Row:
    """Compare the arrays of a run on a GPU (``there``) with those of the virtual GPU.

    ``again`` is a second run on the virtual GPU, in which uninitialised memory has other contents.
    An element that differs between these two runs is not compared: it is a time, a number drawn
    without a seed, or depends on uninitialised memory.
    """
    device, gpu = read(there)
    _, virtual = read(here)
    if not gpu or not virtual:
        return Row(id, FAILS, "one of the two runs never began")
    repeated = {cell.name: cell for cell in read(again)[1]} if again else {}
    counts: Counter[str] = Counter()
    notes, worst = [], 0.0
    ours = {cell.name: cell for cell in virtual}
    for cell in gpu:
        other = ours.get(cell.name)
        if other is None:
            continue
        errors = (cell.error, other.error)
        if errors[0] != errors[1] and not set(errors) <= {*cell.expected, ""}:
            notes.append(
                f"cell {cell.name!r}: {cell.error or 'no error'} on the GPU, "
                f"{other.error or 'none'} on the virtual GPU"
            )
        for name in sorted(cell.arrays.keys() & other.arrays.keys()):
            twice = repeated[cell.name].arrays.get(name) if cell.name in repeated else None
            varying = None
            if twice is not None and twice[2] != other.arrays[name][2]:
                varying = _varying(here, other.arrays[name], again, twice)
                if varying is None or varying.all():
                    counts["not repeatable"] += 1
                    continue
                counts["repeatable in part"] += 1
            verdict, off, detail = _arrays(
                there, cell.arrays[name], here, other.arrays[name], varying
            )
            counts[verdict] += 1
            worst = max(worst, off)
            if verdict == "different":
                notes.append(f"cell {cell.name!r}, {name}: {detail}")
    figures = {"device": device, "worst": worst, **counts}
    return Row(id, DIFFERS if notes else AGREES, "; ".join(notes[:_NOTES]), figures)


def _varying(here: Path, one: tuple, again: Path, other: tuple) -> np.ndarray | None:
    """Return the elements of an array that differ between two runs; None if unknown."""
    if tuple(one[:2]) != tuple(other[:2]) or not one[3] or not other[3]:
        return None
    a, b = (
        np.load(folder / kept[3], allow_pickle=False).reshape(-1)
        for folder, kept in ((here, one), (again, other))
    )
    raw = [array.view(np.uint8).reshape(len(array), -1) for array in (a, b)]
    return (raw[0] != raw[1]).any(axis=1)


def _arrays(
    there: Path, one: tuple, here: Path, other: tuple, varying: np.ndarray | None = None
) -> tuple[str, float, str]:
    """Return ``equal``, ``within bounds`` or ``different``, the worst difference, its place."""
    if tuple(one[:3]) == tuple(other[:3]):
        return "equal", 0.0, ""
    if tuple(one[:2]) != tuple(other[:2]):
        return (
            "different",
            0.0,
            (
                f"{one[0]} of shape {tuple(one[1])} on the GPU, {other[0]} of "
                f"shape {tuple(other[1])} on the virtual GPU"
            ),
        )
    if not one[3] or not other[3]:
        return "different", 0.0, "too large to be compared number by number"
    a, b = (
        np.load(folder / kept[3], allow_pickle=False).reshape(-1)
        for folder, kept in ((there, one), (here, other))
    )
    if varying is not None:
        a, b = a[~varying], b[~varying]
    if a.dtype.kind == "c":
        a, b = a.view(f"f{a.itemsize // 2}"), b.view(f"f{b.itemsize // 2}")
    if a.dtype.kind == "f" and a.itemsize in (4, 8):
        good, off = close(b, a)
        if good.all():
            return "within bounds", off, ""
        bad = ~good
    else:
        bad = a != b
    if not bad.any():
        return "equal", 0.0, ""
    at = int(np.flatnonzero(bad)[0])
    return (
        "different",
        0.0,
        (
            f"{int(bad.sum()):,} of {len(a):,} elements, first at {at}: {a[at]} "
            f"on the GPU, {b[at]} on the virtual GPU"
        ),
    )
