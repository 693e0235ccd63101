"""CUDA C++ teaching kernels through CuPy's stand-in, each launch under ``check()``.

    python -m lab.evidence.cuda_samples

The kernels are those of ``lab/evidence/samples``, written for this list: what courses on CUDA teach
and what needs no library. Each is right by a check against NumPy without a finding, or is refused
with a sentence that says why. Ends with status 1 where one is neither.
"""

from __future__ import annotations

import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

import virtualgpu
from lab.benchmarks.report import write

virtualgpu.activate()

from lab.evidence.samples import (  # noqa: E402
    elements,
    grids,
    images,
    language,
    matrices,
    reductions,
    sample,
    scans,
    sorting,
    together,
)

ROOMS = {
    "elements": elements,
    "reductions": reductions,
    "scans": scans,
    "sorting": sorting,
    "matrices": matrices,
    "grids": grids,
    "images": images,
    "together": together,
    "language": language,
}
SAMPLES = {room: module.SAMPLES for room, module in ROOMS.items()}


def main() -> int:
    table = Table("subject", "sample", "outcome")
    outcomes: dict[str, dict[str, str]] = {}
    for room, samples in SAMPLES.items():
        outcomes[room] = {name: sample.outcome(one) for name, one in samples.items()}
        for name, outcome in outcomes[room].items():
            table.add_row(room, name, outcome)
    Console().print(table)
    counts = Counter(
        outcome if outcome in ("right", "refused") else "wrong"
        for room in outcomes.values()
        for outcome in room.values()
    )
    print(
        write(
            "cuda_samples",
            {
                "command": "python -m lab.evidence.cuda_samples",
                "samples": sum(counts.values()),
                **{word: counts[word] for word in ("right", "refused", "wrong")},
                "outcomes": outcomes,
            },
        )
    )
    return bool(counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
