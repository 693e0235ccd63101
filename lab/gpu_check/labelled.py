"""Recorded launches of the labelled fault kernels.

:mod:`.record_labelled` writes one file for each kernel, and ``labels.json`` with the fault, its
lines, its memory and the virtual GPU's findings.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LABELS = "labels.json"


@dataclass
class Label:
    """Label of a kernel.

    ``kind`` is as in ``labelled/catalog.py``. ``space`` is ``global``, ``shared`` or ``local``, or
    empty if no memory is involved. ``found`` has (kind, line) of each finding of the virtual GPU.
    """

    name: str
    kind: str
    lines: list[int]
    space: str
    found: list[tuple[str, int | None]]
    shared: bool  # uses shared memory
    barriers: bool


def read(folder: Path) -> list[Label]:
    """Read the recorder's output; empty if there is none."""
    try:
        return [Label(**label) for label in json.loads((folder / LABELS).read_text())]
    except (OSError, ValueError, TypeError):
        return []
