"""numba-cuda's suite with its successor's imports (lab.evidence.successor_suite)."""

from __future__ import annotations

import pytest

from lab.evidence import successor_suite
from virtualgpu.driver import library

SUITE = """
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


def test_imports_are_the_successors():
    assert successor_suite.changed(
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
    ("message", "words"),
    [
        (
            "x/virtualgpu/numba/arguments.py:62: in add\n"
            "    size = kind.dtype.bitwidth // 8\n           ^^^^\n"
            "E   AttributeError: 'Boolean' object has no attribute 'bitwidth'",
            "virtual GPU: an error of its own",
        ),
        ("Call to cuMemAllocManaged results in CUDA_ERROR_NOT_SUPPORTED", "virtual GPU: managed"),
        ("E   NotImplementedError: vectorize is not implemented", "successor: not implemented"),
        ("E   AssertionError: 'cvt.rni.s8.f16' not found in '//", "successor: other words"),
        ("E   AssertionError: np.int64(-3) != -2", "a result"),
    ],
)
def test_failures_are_sorted_by_who_is_meant(message: str, words: str):
    assert words in successor_suite.who("test_x.py::Test::test_x", message)


def test_some_are_known_by_their_name():
    message = "E   AssertionError: np.int64(-3) != -2"
    assert "successor's PTX: round" in successor_suite.who(
        "test_x.py::Test::test_round_f4", message
    )
    assert successor_suite.who("test_x.py::Test::test_round_f4x", message) == successor_suite.ELSE


@pytest.mark.rehearsal
@pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")
def test_what_a_file_of_the_suite_says(tmp_path):
    """A test that asks for Numba beside the successor is skipped; none passes unrun."""
    successor_suite.prepare(tmp_path)
    runs, fails = (tmp_path / f"test_{name}.py" for name in ("runs", "fails"))
    runs.write_text(SUITE)
    fails.write_text("njit = None\n\n@njit\ndef f(): pass\n")
    found = successor_suite.outcomes(tmp_path, runs)
    assert {name.split("::")[-1]: outcome for name, (outcome, _) in found.items()} == {
        "test_beside_numba": "skipped",
        "test_not_in_a_simulator": "passed",
    }
    ((name, (outcome, message)),) = successor_suite.outcomes(tmp_path, fails).items()
    assert (name, outcome) == ("test_fails.py", "failed")
    assert "never beside Numba" in successor_suite.who(name, message)
