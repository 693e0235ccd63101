"""numba-cuda's suite with its successor's imports (lab.evidence.successor_suite)."""

from __future__ import annotations

import pytest

from lab.evidence import successor_suite


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
        ("E   FileNotFoundError: jitlink.ptx", "test data"),
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
    assert "successor: its PTX" in successor_suite.who("test_x.py::Test::test_round_f4", message)
    assert successor_suite.who("test_x.py::Test::test_round_f4x", message) == successor_suite.ELSE
