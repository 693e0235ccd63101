"""``virtualgpu`` installs without the course, and a kernel runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL = """
import importlib.util
import sys

for name in ("jupyterlab", "IPython", "jax", "nbgrader", "awkward", "pytest"):
    assert importlib.util.find_spec(name) is None, f"{name} came along"

import numpy as np
import virtualgpu
from numba import cuda

virtualgpu.activate(force=True)


@cuda.jit
def add(x, y, total):
    i = cuda.grid(1)
    if i < total.size:
        total[i] = x[i] + y[i]


x = np.arange(1000, dtype=np.float32)
y = np.full(1000, 0.5, dtype=np.float32)
total = np.zeros_like(x)
add[8, 128](x, y, total)
assert np.array_equal(total, x + y), total
print("1000 sums on the virtual GPU, with", "gpucourse" in sys.modules, "course loaded")
"""


@pytest.fixture(scope="module")
def python(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment that holds the package without its extras."""
    folder = tmp_path_factory.mktemp("install")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    python = folder / "venv" / "bin" / "python"
    lock = repository / "requirements" / "virtualgpu.txt"
    install = [*uv, "pip", "install", "--python", python]
    for command in (
        [*uv, "venv", "--python", sys.executable, folder / "venv"],
        [*install, "--require-hashes", "--requirement", lock],
        [*install, "--no-deps", repository],
        # fails where the lock leaves out something that the package asks for
        [*uv, "pip", "check", "--python", python],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return python


def run(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # No path of this checkout, no CUDA toolkit, no user site: only what was installed.
    keep = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [python, "-I", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **keep},
        capture_output=True,
        text=True,
    )


def test_a_kernel_runs_without_the_course(python: Path, tmp_path: Path) -> None:
    # a file, since Numba asks for the source of a kernel
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    done = run(python, tmp_path, str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000 sums on the virtual GPU, with False course loaded\n"
