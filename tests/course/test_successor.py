"""A lecture on numba-cuda's successor: the same cells, the same checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LECTURE = "07_thinking_in_warps"
#: numba-cuda-mlir 0.6 rounds a float64 to a float32 to shuffle it, on a GPU too.
ITS_OWN = "the check 'warp-max' refuses the solution"


@pytest.mark.rehearsal
@pytest.mark.skipif(sys.platform != "linux", reason="numba-cuda-mlir reaches the virtual GPU "
                    "through the driver's library: Linux alone")
def test_a_lecture_runs_on_numba_cuda_mlir():
    ran = subprocess.run(
        [sys.executable, "-m", "gpucourse", "check", LECTURE], cwd=ROOT, text=True,
        capture_output=True, env={**os.environ, "VIRTUALGPU_NUMBA": "numba-cuda-mlir"})
    complaints = [line for line in ran.stdout.splitlines() if line.startswith("course/lectures")]
    assert len(complaints) == 1 and ITS_OWN in complaints[0], ran.stdout + ran.stderr
