"""A project with CUDA kernels and tests, and ``pytest --virtual-gpu`` run in it by its authors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from warm_python import run_in_new_python, run_module

CONFTEST = """
import numpy as np
from numba import cuda

HAS_GPU = cuda.is_available()


@cuda.jit("void(int32[:])")
def number(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i


counted = np.zeros(3, np.int32)
number[1, 32](counted)
"""

KERNELS = """
from numba import cuda, float32


@cuda.jit
def turned(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]


@cuda.jit
def too_far(out):
    out[cuda.grid(1) + 1] = 1


@cuda.jit
def endless(out):
    while out[0] >= 0:
        out[0] += 1
"""

TESTS = """
import numpy as np
import pytest
from numba import cuda

import conftest
import virtualgpu
from kernels import endless, too_far, turned


def turn():
    x = np.arange(64, dtype=np.float32)
    out = np.zeros_like(x)
    turned[1, 64](x, out)
    return x, out


@pytest.fixture(scope="module")
def made():
    return turn()


@pytest.fixture
def unmade():
    yield
    turn()


@pytest.mark.skipif(not conftest.HAS_GPU, reason="no GPU")
def test_right():
    assert conftest.counted.tolist() == [0, 1, 2]


def test_right_by_luck():
    turn()


@pytest.mark.virtual_gpu_unchecked
def test_on_purpose():
    turn()


def test_wrong_anyway():
    x, out = turn()
    assert (out == x).all()


def test_error_is_expected():
    with pytest.raises(virtualgpu.MemoryAccessError, match="illegal address"):
        too_far[1, 64](np.zeros(64, np.int32))


def test_wrong_after_an_expected_error():
    test_error_is_expected()
    assert not "right"


def test_grid_too_large():
    turned[1, 2048](np.zeros(2048, np.float32), np.zeros(2048, np.float32))


def test_error_is_not_expected():
    too_far[1, 64](np.zeros(64, np.int32))


@pytest.mark.virtual_gpu_time_limit(0.2)
def test_never_ends():
    endless[1, 32](np.zeros(2, np.int32))


@pytest.mark.virtual_gpu_seeds(1, 2)
def test_orders():
    pass


@pytest.mark.xfail(strict=True, reason="known")
def test_known():
    turn()


def test_before(made):
    pass


def test_after(unmade):
    pass
"""

INI = "[pytest]\npythonpath = .\nfilterwarnings = ignore\n"


class Ran(NamedTuple):
    """``status`` of the process, ``outcomes`` of the tests by name, ``text`` that was printed."""

    status: int
    outcomes: dict[str, str]
    text: str


def run(
    folder: Path,
    *options: str,
    files: dict[str, str] | None = None,
    new: bool = False,
    **environment: str,
) -> Ran:
    """Write the project, or other ``files``, and run pytest in it.

    In a new Python where ``new``, else in a fork that has imported Numba already.
    """
    for name, text in (
        files or {"conftest.py": CONFTEST, "kernels.py": KERNELS, "test_kernels.py": TESTS}
    ).items():
        (folder / name).write_text(text)
    if not (folder / "pytest.ini").exists():
        (folder / "pytest.ini").write_text(INI)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "GITHUB_ACTIONS", "GITHUB_WORKSPACE", "PYTEST_ADDOPTS")
    }
    # Only this plugin: those that happen to be installed here take seconds to import.
    done = (run_in_new_python if new else run_module)(
        "pytest",
        ["-p", "virtualgpu.pytest_plugin", "-v", "-p", "no:cacheprovider", *options],
        folder,
        {**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "160", **environment},
    )
    outcomes = {}
    for line in done.stdout.splitlines():
        if line.startswith("test_kernels.py::test_") and len(line.split()) > 1:
            name, outcome = line.split()[:2]
            name = name.removeprefix("test_kernels.py::test_")
            if outcomes.get(name) != "FAILED":  # an error in teardown comes after PASSED
                outcomes[name] = outcome
    return Ran(done.returncode, outcomes, done.stdout + done.stderr)


def line_of(text: str, code: str) -> int:
    """The number of the line of ``text`` that holds ``code``."""
    return next(n for n, line in enumerate(text.splitlines(), 1) if code in line)
