"""check() finds every fault of the labelled kernels, at its line, and nothing else.

Each runs in lockstep, and each second one in one of ten random orders too. `make rehearse` runs the
others and another order, ``python -m lab.evidence.labelled`` all of them.
"""

from __future__ import annotations

import zlib

import pytest

import sampling
from labelled.everything import CASES, SEEDS


def seed(name: str, number: int = 0) -> int:
    """One of the ten random orders, another for each kernel."""
    return (zlib.crc32(name.encode()) + number) % len(SEEDS)


def found(name: str, seed: int | None) -> None:
    """Assert that the fault is found with this seed; None is lockstep."""
    problem = CASES[name].problem(seed)
    assert not problem, f"{name}, seed {seed}: {problem}"


@pytest.mark.parametrize("name", CASES)
def test_fault_is_found_and_nothing_else(name):
    found(name, None)


@pytest.mark.parametrize("name", sampling.each(2, list(CASES)))
def test_fault_is_found_in_a_random_order(name):
    found(name, seed(name))


@pytest.mark.rehearsal
@pytest.mark.parametrize("name", CASES)
def test_fault_is_found_in_another_order_too(name):
    found(name, seed(name, 5))
