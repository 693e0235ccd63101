"""The runner of other people's tests: what it counts, whose a failure is, what it says of it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from lab.evidence import tried_with
from lab.evidence.tried_with import FAULT, PACKAGE, UNKNOWN, Package

TESTS = """
import numpy as np
import pytest
from numba import cuda

@cuda.jit
def summed(x, total):
    total[0] += x[cuda.grid(1)]

@cuda.jit
def doubled(x):
    x[cuda.grid(1)] *= 2

def test_sum():
    summed[1, 32](cuda.device_array(32), cuda.to_device(np.zeros(1)))

def test_double():
    doubled[1, 32](cuda.to_device(np.zeros(32)))

def test_of_an_old_name():
    np.string_

def test_that_nobody_has_looked_at():
    assert 1 + 1 == 3

@pytest.mark.skip(reason="of the package's own")
def test_skipped():
    pass
"""
MADE = Package(
    "somebody/made",
    "Numba",
    ("test_*.py",),
    reasons=(
        (r"race at test_sums.py", FAULT, "a sum without an atomic"),
        (r"np.string_", PACKAGE, "NumPy 1's names"),
    ),
)


@pytest.mark.rehearsal
def test_a_run_is_counted_by_whose_its_failures_are(tmp_path: Path):
    (tmp_path / "test_sums.py").write_text(TESTS)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "tests"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    found = tried_with.run(MADE, tmp_path, sys.executable, 600, nice=0)
    assert (found["passed"], found["skipped"], found["launches"], found["ended"]) == (1, 1, 2, True)
    assert {(one["whose"], one["count"]) for one in found["not_passed"]} == {
        (FAULT, 1),
        (PACKAGE, 1),
        (UNKNOWN, 1),
    }
    assert len(found["unknown"]) == 1 and "test_that_nobody_has_looked_at" in found["unknown"][0]
    row = tried_with.table({"stumpy": found}).splitlines()[2]
    assert "1 a fault of its kernel: a sum without an atomic" in row
    assert "1 unknown" in row
    assert found["commit"] in row
    accepting = dataclasses.replace(MADE, accept=("summed: a sum without an atomic",))
    found = tried_with.run(accepting, tmp_path, sys.executable, 600, nice=0)
    assert (found["passed"], FAULT in {one["whose"] for one in found["not_passed"]}) == (2, False)
    row = tried_with.table({"stumpy": found}).splitlines()[2]
    assert "accepted at `summed`: a sum without an atomic" in row
