"""The labelled fault kernels as recorded launches.

:mod:`.record_labelled` writes one file for each and ``labels.json``: what is wrong with it and at
which lines, in which memory, and what the virtual GPU finds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LABELS = "labels.json"


@dataclass
class Label:
    """``kind`` as in ``labelled/catalog.py``; ``space`` is ``global``, ``shared``, ``local`` or,
    where no memory is involved, empty. ``found``: (kind, line) of the virtual GPU's findings.
    """

    name: str
    kind: str
    lines: list[int]
    space: str
    found: list[tuple[str, int | None]]
    shared: bool  # uses shared memory
    barriers: bool


def read(folder: Path) -> list[Label]:
    """Read the recorder's output; nothing if there is none."""
    try:
        return [Label(**label) for label in json.loads((folder / LABELS).read_text())]
    except (OSError, ValueError, TypeError):
        return []
