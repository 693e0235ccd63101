"""``virtualgpu run`` with stand-ins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def run(names: str, path: Path) -> str:
    command = [sys.executable, "-m", "virtualgpu", "run", "--standins", names, path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_stand_ins_are_chosen(tmp_path: Path):
    path = tmp_path / "asks.py"
    path.write_text(
        "from importlib.util import find_spec\n"
        "print([bool(find_spec(name)) for name in ('cupy', 'cudf', 'pycuda')])\n"
    )
    for names, said in (
        ("cupy", "[True, False, False]"),
        ("", "[False, False, False]"),
        ("cudf,pycuda", "[True, True, True]"),
    ):
        assert run(names, path) == said
