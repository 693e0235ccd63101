"""The labelled fault kernels of ``tests/labelled`` as recorded launches.

    python -m gpucourse.hardware.labelled FOLDER

writes one file for each and ``labels.json``: what is wrong with it and at which lines, in which
memory, and what the virtual GPU finds.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from gpucourse.hardware.lesson_run import find_root

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


def record(folder: Path) -> list[Label]:
    """Run every labelled kernel under the checkers and keep its first launch."""
    from gpucourse.hardware.recorder import RecordingDevice
    from virtualgpu import device

    tests = find_root() / "tests"
    sys.path.insert(0, str(tests))
    for module in sorted((tests / "labelled").glob("*_*.py")):
        importlib.import_module(f"labelled.{module.stem}")
    cases = importlib.import_module("labelled.catalog").CASES
    folder.mkdir(parents=True, exist_ok=True)
    kept: list = []
    device.set_current(RecordingDevice(kept.append, faulty=True))
    labels = []
    for name, case in cases.items():
        kept.clear()
        report, _, _ = case.run(None)
        if not kept:
            continue
        kept[0].note = name
        kept[0].save(folder / f"{name}.npz")
        text = "\n".join(kept[0].texts)
        findings = [(found.kind, found.line) for found in report.findings]
        labels.append(Label(
            name, case.kind, sorted(case.lines), _space(report.findings, case.kind), findings,
            ".shared" in text, bool(re.search(r"\bbar(rier)?\.", text))))
    (folder / LABELS).write_text(json.dumps([asdict(label) for label in labels], indent=1))
    return labels


def _space(findings: list, kind: str) -> str:
    """Where the fault is, from the words of the finding."""
    for found in findings:
        if found.kind == kind and (match := re.search(r"\b(global|shared|local) memory",
                                                      found.message)):
            return match[1]
    return "global" if kind in ("memory", "uninitialised") else ""


def read(folder: Path) -> list[Label]:
    """What :func:`record` wrote; nothing where it did not."""
    try:
        return [Label(**label) for label in json.loads((folder / LABELS).read_text())]
    except (OSError, ValueError, TypeError):
        return []


if __name__ == "__main__":
    print(f"{len(record(Path(sys.argv[1])))} labelled kernels")
