"""Code in an interpreter of its own that sees no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def installed_cupy(tmp_path: Path) -> Path:
    """A folder with a package that is there, as CuPy's wheel is on a machine without a GPU."""
    package = tmp_path / "cupy"
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    (package / "linalg.py").write_text("REAL = True\n")
    return tmp_path


def in_fresh_python(code: str, *folders: Path) -> object:
    """Run ``code`` where there is no GPU; it must set ``result``, of which JSON is returned."""
    program = f"import json, sys\n{code}\nprint(json.dumps(result))\n"
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")]),
        },
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])
