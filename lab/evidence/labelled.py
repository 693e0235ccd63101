"""Every labelled kernel under check(): in lockstep, in ten random orders and in native code.

    python -m lab.evidence.labelled

The kernels and their labels are those of ``packages/virtualgpu/tests/support/labelled``; ``make
test`` uses two of the ten orders. The exit status is 1 if a fault was not found at its line, if a
clean kernel was reported, or if native code reported anything different.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

from rich.progress import track

import lab.benchmarks.support  # noqa: F401
from lab.benchmarks.report import write
from labelled.everything import CASES, KINDS, SEEDS
from virtualgpu import devices


def main() -> int:
    orders = (None, *SEEDS)
    problems = {}
    device = devices.current()
    for name, case in track(CASES.items(), "labelled kernels"):
        if problem := case.same_in_native_code(device, os.environ.__setitem__):
            problems[f"{name}, in native code"] = problem
        for seed in orders:
            if problem := case.problem(seed):
                problems[f"{name}, {'lockstep' if seed is None else f'seed {seed}'}"] = problem
    counts = Counter(case.kind for case in CASES.values())
    print(
        write(
            "labelled",
            {
                "command": "python -m lab.evidence.labelled",
                "kernels": {kind: counts[kind] for kind in KINDS},
                "orders of each": len(orders),
                "launches": len(orders) * len(CASES),
                "compared with native code": len(CASES),
                "wrong": problems,
            },
        )
    )
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
