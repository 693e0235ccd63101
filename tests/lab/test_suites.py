"""The runner of other people's test suites: its counts, its reasons, and numba-cuda's tests."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from lab.suites.__main__ import SUITES, Suite, run, source_of, table
from lab.suites.successor import changed, with_its_imports
from virtualgpu.driver import library

CHECKED = """
import os

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

def test_without_a_known_reason():
    assert 1 + 1 == 3

def test_that_ends_the_process():
    os._exit(3)

@pytest.mark.parametrize("n", range(4))
def test_after_it(n):
    pass

@pytest.mark.skip(reason="of the package's own")
def test_skipped():
    pass
"""
MADE = Suite(
    "made",
    "somebody/made",
    "Numba",
    ["test_*.py"],
    checked=True,
    cases=2,
    failures=[
        (r"race at test_sums.py", "fault", "a sum without an atomic"),
        (r"np.string_", "package", "NumPy 1's names"),
        (r"ended the process", "limit", "exits"),
    ],
)
SUCCESSOR = """
import unittest
from numba_cuda_mlir.numba_cuda.testing import (
    skip_on_cudasim, skip_on_standalone_numba_cuda, test_data_dir,
)


class Test(unittest.TestCase):
    @skip_on_standalone_numba_cuda
    def test_beside_numba(self):
        self.fail("it ran")

    @skip_on_cudasim("no simulator here")
    def test_not_in_a_simulator(self):
        self.assertTrue((test_data_dir / "jitlink.ptx").exists())
"""


def causes(found: dict) -> set[tuple[str, int]]:
    return {(one["whose"], one["count"]) for one in found["not_passed"]}


@pytest.mark.rehearsal
def test_failures_are_counted_by_cause(tmp_path: Path):
    (tmp_path / "test_sums.py").write_text(CHECKED)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "tests"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    found = run(MADE, tmp_path, sys.executable, [])
    assert found["outcomes"] == {"passed": 3, "failed": 3, "ended the process": 1, "skipped": 1}
    assert causes(found) == {("fault", 1), ("package", 1), ("limit", 1), ("unknown", 1)}
    assert len(found["unknown"]) == 1 and "test_without_a_known_reason" in found["unknown"][0]
    row = next(line for line in table({"stumpy": found}).splitlines() if "3 (and 1" in line)
    assert "1 a fault of its kernel: a sum without an atomic" in row
    assert "1 unknown" in row and found["version"] in row
    accepting = dataclasses.replace(MADE, accept=["summed: a sum without an atomic"])
    found = run(accepting, tmp_path, sys.executable, [])
    assert found["outcomes"]["passed"] == 4
    assert "fault" not in {cause for cause, _ in causes(found)}


@pytest.mark.rehearsal
def test_numba_cudas_tests_run_from_a_checkout_that_holds_the_environment(tmp_path: Path):
    suite = SUITES["numba-cuda"]
    source = source_of(suite, None, sys.executable, tmp_path)
    found = run(suite, source, sys.executable, ["test_idiv"])
    assert set(found["outcomes"]) == {"passed"} and found["outcomes"]["passed"] >= 2


def test_imports_are_the_successors():
    assert changed(
        "from numba import cuda, vectorize\n"
        "from numba import njit\n"
        "    from numba.cuda import float32\n"
        "from numba.cuda.np import numpy_support\n"
        "import numba.cuda.tests.cudapy.cache_usecases\n"
    ) == (
        "from numba_cuda_mlir import cuda\nfrom numba_cuda_mlir.cuda import vectorize\n"
        "from numba import njit\n"
        "    from numba_cuda_mlir.cuda import float32\n"
        "from numba_cuda_mlir.numba_cuda.np import numpy_support\n"
        "import cudapy.cache_usecases\n"
    )


@pytest.mark.parametrize(
    ("test", "message", "cause", "words"),
    [
        (
            "test_x",
            "x/virtualgpu/numba/arguments.py:62: in add\n"
            "    size = kind.dtype.bitwidth // 8\n           ^^^^\n"
            "E   AttributeError: 'Boolean' object has no attribute 'bitwidth'",
            "ours",
            "our own code",
        ),
        ("test_x", "Call to cuMemAllocManaged: CUDA_ERROR_NOT_SUPPORTED", "limit", "managed"),
        ("test_x", "E   NotImplementedError: not implemented", "package", "not implemented"),
        ("test_x", "E   AssertionError: 'cvt.rni' not found in '//", "package", "messages, PTX"),
        ("test_x", "E   AssertionError: np.int64(-3) != -2", "unknown", "unknown"),
        ("test_round_f4", "E   AssertionError: np.int64(-3) != -2", "package", "halves"),
        ("test_round_f4x", "E   AssertionError: np.int64(-3) != -2", "unknown", "unknown"),
    ],
)
def test_successors_failures_have_their_cause(test, message, cause, words):
    found = SUITES["numba-cuda-mlir"].cause(f"test_x.py::Test::{test}\nfailed\n{message}")
    assert found[0] == cause and words in found[1]


@pytest.mark.rehearsal
@pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")
def test_a_file_of_the_successors_suite(tmp_path: Path):
    """A test that needs Numba beside the successor is skipped; none passes without running."""
    suite = SUITES["numba-cuda-mlir"]
    source = source_of(suite, None, sys.executable, tmp_path)
    assert source == tmp_path
    (tmp_path / "cudapy" / "test_zz_runs.py").write_text(SUCCESSOR)
    (tmp_path / "cudapy" / "test_zz_fails.py").write_text("njit = None\n\n@njit\ndef f(): pass\n")
    found = run(suite, source, sys.executable, ["test_zz"])
    assert found["outcomes"] == {"skipped": 1, "passed": 1, "failed": 1}
    assert "never imports Numba" in found["not_passed"][0]["reason"]


def test_a_suite_is_copied_with_its_data(tmp_path: Path):
    tests = tmp_path / "tests" / "cudapy"
    tests.mkdir(parents=True)
    tests.with_name("data").mkdir()
    (tests / "test_a.py").write_text("from numba import cuda\n")
    made = with_its_imports(tests, tmp_path / "made")
    assert (made / "data").is_dir()
    assert (made / "cudapy" / "test_a.py").read_text() == "from numba_cuda_mlir import cuda\n"
