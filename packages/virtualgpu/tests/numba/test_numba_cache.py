"""Kernels that Numba keeps on disk (``cache=True``) come back, here and in another process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

SOURCE = """
import numpy as np
from numba import cuda


@cuda.jit(cache=True)
def write_at(x, offset):
    x[cuda.grid(1) + offset] = 1
"""
CHILD = """
import sys
import numpy as np
import virtualgpu

virtualgpu.activate(force=True)
sys.path.insert(0, sys.argv[1])
from kept import write_at

x = np.zeros(4)
write_at[1, 3](x, 1)
assert x.tolist() == [0, 1, 1, 1] and sum(write_at.stats.cache_hits.values()) == 1
try:
    write_at[1, 3](x, 2)
except virtualgpu.errors.MemoryAccessError as error:
    print(error)
"""


pytestmark = pytest.mark.usefixtures("active")


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "kept.py"
    path.write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("kept", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.write_at

    first = load()
    first[1, 3](np.zeros(4), 1)
    return load


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
def test_a_cached_kernel_beside_the_one_it_was_made_from(kept):
    again, x = kept(), np.zeros(4)
    again[1, 3](x, 1)
    assert x.tolist() == [0, 1, 1, 1]
    assert sum(again.stats.cache_hits.values()) == 1


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
def test_a_cached_kernel_in_another_process_keeps_its_name_and_lines(kept, tmp_path):
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert "kernel write_at, kept.py line 8" in said.stdout
    assert "writes x[4] of 4;" in said.stdout
