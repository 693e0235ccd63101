"""Setup of numba-cuda's tests on its successor: no simulator, and the suite's own data."""

import os
import unittest
from pathlib import Path

import pytest
from numba_cuda_mlir.numba_cuda import testing
from numba_cuda_mlir.numba_cuda.core import config

config.ENABLE_CUDASIM = False  # the successor has no simulator
testing.test_data_dir = Path(os.environ["SUITE_SOURCE"]) / "data"  # its wheel has no data
testing.skip_on_cudasim = lambda reason: lambda test: test
for name in ("skip_unless_cudasim", "xfail_unless_cudasim"):
    setattr(testing, name, unittest.skip)


@pytest.fixture(scope="session")
def initialize_from_pytest_config():
    """Replace a fixture of the suite's conftest, which the wheel does not contain."""
