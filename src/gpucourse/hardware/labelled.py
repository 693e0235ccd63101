"""The labelled fault kernels as recorded launches, which the checkout's own program makes.

``tests/labelled/record.py FOLDER`` writes one file for each and ``labels.json``: what is wrong with
it and at which lines, in which memory, and what the virtual GPU finds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpucourse.hardware.lesson_run import find_root

RECORDER = Path("tests") / "labelled" / "record.py"
LABELS = "labels.json"


@dataclass
class Label:
    """``kind`` as in ``tests/labelled/catalog.py``; ``space`` is ``global``, ``shared``, ``local``
    or, where no memory is involved, empty. ``found``: (kind, line) of the virtual GPU's findings.
    """

    name: str
    kind: str
    lines: list[int]
    space: str
    found: list[tuple[str, int | None]]
    shared: bool  # uses shared memory
    barriers: bool


def recorder() -> Path:
    """The program, in the checkout around the working directory."""
    return find_root() / RECORDER


def read(folder: Path) -> list[Label]:
    """What the recorder wrote; nothing where it did not."""
    try:
        return [Label(**label) for label in json.loads((folder / LABELS).read_text())]
    except (OSError, ValueError, TypeError):
        return []
