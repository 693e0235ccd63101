"""The text of "Streams" agrees with its cells, also on each of four virtual devices."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.rehearsal

SOURCE = Path(__file__).parents[2] / "course" / "lectures" / "20_streams" / "notebook.py"
RESULTS = Path(__file__).parents[2] / "lab" / "results" / "gpu_bench.json"

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
    cell = "\n".join(line for line in cell.splitlines() if "lesson" not in line and line[:1] != "#")
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


def test_a_forgotten_wait_is_in_the_report(shown):
    (finding,) = shown["forgotten"].names["report"].findings
    assert finding.kind == "stream"


def test_two_hazards_need_two_waits(shown):
    right = [int(re.search(r"right in (\d+)", line)[1]) for line in shown["race"].text.splitlines()]
    assert len(right) == 2 and max(right) < 5
    assert "right in 100 of 100" in shown["both-waits-exercise"].text


def test_pinned_copies_take_a_sixth_of_the_time():
    rows = {
        row["contender"]: np.median(row["call_ms"])
        for row in json.loads(RESULTS.read_text())["rows"]
        if row["group"] == "link"
    }
    assert round(rows["to-device"]) == 30 and round(rows["to-device-pinned"], 1) == 4.9
    assert 5.5 < rows["to-device"] / rows["to-device-pinned"] < 6.5
