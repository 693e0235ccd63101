"""Recorder of every labelled kernel's first launch, for tools that need a real GPU.

The launches and ``labels.json`` are written to FOLDER:

    python -m lab.gpu_check.record_labelled FOLDER
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

from lab.gpu_check.labelled import LABELS, Label
from lab.gpu_check.lesson_run import find_root
from lab.gpu_check.recorder import RecordingDevice
from virtualgpu import devices

#: The folder with the package ``labelled``.
SUPPORT = Path("packages/virtualgpu/tests/support")


def record(folder: Path) -> list[Label]:
    """Run every labelled kernel under the checkers and save its first launch."""
    sys.path.insert(0, str(find_root() / SUPPORT))
    cases = importlib.import_module("labelled.everything").CASES
    folder.mkdir(parents=True, exist_ok=True)
    kept: list = []
    devices.set_current(RecordingDevice(kept.append, faulty=True))
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
        labels.append(
            Label(
                name,
                case.kind,
                sorted(case.lines),
                _space(report.findings, case.kind),
                findings,
                ".shared" in text,
                bool(re.search(r"\bbar(rier)?\.", text)),
            )
        )
    (folder / LABELS).write_text(json.dumps([asdict(label) for label in labels], indent=1))
    return labels


def _space(findings: list, kind: str) -> str:
    """Return the memory space of the fault, from the text of the finding."""
    for found in findings:
        if found.kind == kind and (
            match := re.search(r"\b(global|shared|local) memory", found.message)
        ):
            return match[1]
    return "global" if kind in ("memory", "uninitialised") else ""


if __name__ == "__main__":
    print(f"{len(record(Path(sys.argv[1])))} labelled kernels")
