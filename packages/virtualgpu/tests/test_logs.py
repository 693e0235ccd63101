"""The log of launches and compilers."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import virtualgpu
from virtualgpu import logs

virtualgpu.activate(force=True)

from numba import cuda  # noqa: E402

PROGRAM = """
import os
import numpy as np, virtualgpu
virtualgpu.activate(force=True)
from numba import cuda
@cuda.jit
def doubled(x):
    x[cuda.grid(1)] *= 2
for switch in "0", "always":
    os.environ["VIRTUALGPU_NATIVE"] = switch
    doubled[1, 32](cuda.to_device(np.ones(32)))
"""


def ran(**environment: str) -> str:
    """Return what the program writes to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_variable_shows_back_ends_reasons_and_compilers():
    said = ran(VIRTUALGPU_LOG="info")
    assert re.search(r"^virtualgpu: kernel doubled compiled by Numba in \d\.\d{3} s$", said, re.M)
    assert "doubled[(1, 1, 1), (32, 1, 1)] ran on the interpreter (VIRTUALGPU_NATIVE=0)" in said
    assert "doubled[(1, 1, 1), (32, 1, 1)] ran on native code in" in said


def test_without_the_variable_nothing_is_written():
    assert ran() == ""


def test_a_level_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VIRTUALGPU_LOG", "loud")
    with pytest.warns(RuntimeWarning, match="'loud'"):
        logs.show_where_asked()


def test_a_program_s_own_logging_takes_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")

    @cuda.jit
    def racing(x):
        x[0] += 1

    with caplog.at_level(logging.INFO, logger="virtualgpu"), virtualgpu.check() as report:
        racing[1, 32](np.zeros(1))
    assert report.findings
    assert "ran on the interpreter (native code refuses it: " in caplog.messages[-1]
