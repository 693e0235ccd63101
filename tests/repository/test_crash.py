"""A test that kills its process fails a parallel run, and does not leave it waiting."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = """
import os
import pytest

@pytest.mark.parametrize("i", range(6))
def test_one(i):
    if i == 2 and __name__.endswith("b"):
        os._exit(1)
"""


def test_a_crash_ends_the_run_and_is_named(repository: Path, tmp_path: Path):
    """With xdist's own number of new workers, --dist loadscope waits for ever at 99 %."""
    said = re.search(r"^PYTEST := .* -m pytest (.+)$", (repository / "Makefile").read_text(), re.M)
    assert said
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin", *said[1].split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
            "PYTEST_XDIST_AUTO_NUM_WORKERS": "2",
        },
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "crashed while running 'test_b.py::test_one[2]'" in ran.stdout
    assert "1 failed" in ran.stdout.splitlines()[-1]
