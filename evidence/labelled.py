"""Every labelled kernel under check(), in lockstep and in ten random orders.

    python -m evidence.labelled

The kernels and their labels are those of ``packages/virtualgpu/tests/support/labelled``; ``make
test`` takes two of the ten orders. Ends with status 1 where a fault was not found
at its line, or a clean kernel was blamed.
"""

from __future__ import annotations

import sys
from collections import Counter

from rich.progress import track

import benchmarks.support  # noqa: F401
from benchmarks.report import write
from labelled.everything import CASES, KINDS, SEEDS


def main() -> int:
    orders = (None, *SEEDS)
    problems = {}
    for name, case in track(CASES.items(), "labelled kernels"):
        for seed in orders:
            if problem := case.problem(seed):
                problems[f"{name}, {'lockstep' if seed is None else f'seed {seed}'}"] = problem
    counts = Counter(case.kind for case in CASES.values())
    print(write("labelled", {
        "command": "python -m evidence.labelled",
        "kernels": {kind: counts[kind] for kind in KINDS},
        "orders of each": len(orders),
        "launches": len(orders) * len(CASES),
        "wrong": problems,
    }))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
