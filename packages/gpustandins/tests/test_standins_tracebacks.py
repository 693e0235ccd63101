"""An error of a stand-in that ends a program is shown by the program's own lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtualgpu import tracebacks


@pytest.mark.parametrize(
    ("line", "hidden"),
    [
        pytest.param("cp.hstack([object()])", False, marks=pytest.mark.rehearsal),
        pytest.param("cp.zeros(3) + 'a'", False, marks=pytest.mark.rehearsal),
        ("cp.nothing_of_that_name", False),
        ("cp.RawKernel('void k() { oops }', 'k')((1,), (1,), ())", True),
    ],
)
def test_frames_are_named_where_compiler_or_launch_had_some(tmp_path: Path, line, hidden):
    script = tmp_path / "program.py"
    script.write_text(f"import virtualgpu\nvirtualgpu.activate()\nimport cupy as cp\n{line}\n")
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", script],
        capture_output=True,
        text=True,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.returncode == 1 and "line 4, in <module>" in ran.stderr
    assert ran.stderr.endswith(f"{tracebacks.KEY}\n") == hidden, ran.stderr
    assert not ran.stderr.endswith("\n\n")
