"""``virtualgpu run`` with stand-ins."""

from __future__ import annotations

import os
from pathlib import Path

from warm_python import run_module


def run(names: str, path: Path) -> str:
    arguments = ["run", "--standins", names, str(path)]
    done = run_module("virtualgpu", arguments, path.parent, os.environ)
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
