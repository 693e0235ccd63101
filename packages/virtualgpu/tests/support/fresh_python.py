"""Code in an interpreter of its own that sees no GPU, and as a notebook's kernel starts one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtualgpu import scripts


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


def started(
    code: str, *folders: Path, prefix: str | None = sys.prefix, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess:
    """``python -c code`` as a kernel starts it, the folders on its PYTHONPATH too."""
    env = {key: value for key, value in os.environ.items() if key != scripts.SWITCH}
    paths = [scripts.FOLDER, *map(str, folders), os.environ.get("PYTHONPATH", "")]
    env |= {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(paths)}
    if prefix is not None:
        env[scripts.SWITCH] = os.path.realpath(prefix)
    return subprocess.run(
        [sys.executable, *options, "-c", code], env=env, capture_output=True, text=True, check=False
    )


def said(*arguments, **options) -> str:
    ran = started(*arguments, **options)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout.strip()
