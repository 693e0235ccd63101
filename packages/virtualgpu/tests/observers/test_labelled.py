"""check() finds every fault of the labelled kernels, at its line, and nothing else.

Each runs in lockstep and in random orders: two of the ten here, all of them under
``python -m evidence.labelled``.
"""

from __future__ import annotations

import zlib

import pytest

from labelled.everything import CASES, KINDS, SEEDS


def seeds(name: str) -> list[int | None]:
    """None is lockstep."""
    first = zlib.crc32(name.encode()) % len(SEEDS)
    return [None, first, (first + 5) % len(SEEDS)]


@pytest.mark.parametrize("name", CASES)
def test_fault_is_found_and_nothing_else(name):
    for seed in seeds(name):
        problem = CASES[name].problem(seed)
        assert not problem, f"{name}, seed {seed}: {problem}"


def test_labels_cover_every_kind():
    counts = {kind: sum(case.kind == kind for case in CASES.values()) for kind in KINDS}
    assert len(CASES) >= 60
    assert min(counts.values()) >= 2, counts
