"""The streams of "More than one GPU" on each of four virtual devices, and with a wait left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rehearsal

SOURCE = Path(__file__).parents[2] / "course" / "lectures" / "21_more_than_one_gpu" / "notebook.py"

PROGRAM = """
import sys
import numpy as np
import virtualgpu
virtualgpu.activate(force=True)
from numba import cuda
cell = open(sys.argv[1]).read()
whole, forgetful = (compile(text, sys.argv[1], "exec") for text in (
    cell, cell.replace("cuda.synchronize()", "pass")))
for device in cuda.gpus:
    with device:
        with virtualgpu.check(streams=True) as report:
            exec(whole, {"np": np})
        print("device", device.id, len(report.findings), "findings")
        with virtualgpu.check(streams=True) as report:
            exec(forgetful, {"np": np})
        print("forgetful", sorted({(one.kind, one.line, one.other.line)
                                   for one in report.findings}))
"""


def test_streams_of_each_of_four_devices(tmp_path):
    cell = re.search(r'# %% id="streams"\n(.*?)(?=\n# %%)', SOURCE.read_text(), re.S)[1]
    at = {
        mark: next(k for k, line in enumerate(cell.splitlines(), 1) if mark in line)
        for mark in ("copy_to_host", "np.array_equal")
    }
    script, text = tmp_path / "program.py", tmp_path / "cell.py"
    script.write_text(PROGRAM)
    text.write_text(cell)
    done = subprocess.run(
        [sys.executable, str(script), str(text)],
        capture_output=True,
        text=True,
        env={**os.environ, "VIRTUALGPU_DEVICES": "4"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("device")] == [
        f"device {k} 0 findings" for k in range(4)
    ]
    assert sum(line.startswith("right: True") for line in lines) == 8
    found = [("stream", at["np.array_equal"], at["copy_to_host"])]
    assert [line for line in lines if line.startswith("forgetful")] == [f"forgetful {found}"] * 4
