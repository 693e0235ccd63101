"""``pytest --virtual-gpu`` in a project of its own, as its authors would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = '''
import warnings

import numpy as np
import pytest
from numba import cuda, float32, int32

pytestmark = pytest.mark.filterwarnings("ignore")


@cuda.jit("void(int32[:])")
def number(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i


@cuda.jit
def turned(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    out[t] = s[63 - t]


@cuda.jit
def too_far(out):
    out[cuda.grid(1) + 1] = 1


def test_right():
    out = np.zeros(100, np.int32)
    number[2, 64](out)
    assert (out == np.arange(100)).all()


def turn():
    x = np.arange(64, dtype=np.float32)
    out = np.zeros_like(x)
    turned[1, 64](x, out)
    return x, out


def test_right_by_luck():
    turn()


@pytest.mark.virtualgpu_unchecked
def test_on_purpose():
    turn()


def test_wrong_anyway():
    x, out = turn()
    assert (out == x).all()


def test_error_is_expected():
    with pytest.raises(Exception, match="illegal address"):
        too_far[1, 64](np.zeros(64, np.int32))


'''


def run(tmp_path: Path, *options: str, project: str = PROJECT) -> tuple[dict[str, str], str]:
    """Outcome of each test, and what was printed."""
    (tmp_path / "test_kernels.py").write_text(project)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # Only this plugin: those that happen to be installed here take seconds to import.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "virtualgpu.pytest_plugin", "-v",
         "-p", "no:cacheprovider", *options],
        cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    outcomes = {}
    for line in done.stdout.splitlines():
        if line.startswith("test_kernels.py::"):
            name, outcome = line.split()[:2]
            outcomes[name.removeprefix("test_kernels.py::test_")] = outcome
    return outcomes, done.stdout + done.stderr


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    return run(tmp_path_factory.mktemp("project"), "--virtual-gpu")


def test_a_test_that_passes_by_luck_fails(checked):
    outcomes, output = checked
    assert outcomes == {
        "right": "PASSED", "right_by_luck": "FAILED", "on_purpose": "PASSED",
        "wrong_anyway": "FAILED", "error_is_expected": "PASSED",
    }, output


def test_the_failure_names_both_lines(checked):
    _, output = checked
    assert "virtual GPU, 1 launch: 1 finding" in output
    assert "race: thread" in output
    assert "s[t] = x[t]" in output
    assert "out[t] = s[63 - t]" in output


def test_a_failure_of_the_test_itself_shows_the_report_beside(checked):
    _, output = checked
    failure = output.split("test_wrong_anyway ___")[1]
    assert "assert (out == x).all()" in failure
    assert "virtual GPU" in failure
    assert "race: thread" in failure


def test_header_says_what_runs_the_kernels(checked):
    assert "virtual GPU: numba.cuda kernels run on the CPU, every launch checked" in checked[1]


def test_random_order(tmp_path):
    outcomes, output = run(tmp_path, "--virtual-gpu", "--virtual-gpu-seed", "3", "-k", "right")
    assert outcomes == {"right": "PASSED", "right_by_luck": "FAILED"}, output
    assert "random order 3" in output


def test_nothing_changes_without_the_option(tmp_path):
    outcomes, output = run(tmp_path, project="""
def test_numba_is_not_even_imported():
    import sys
    assert "numba" not in sys.modules
""")
    assert outcomes == {"numba_is_not_even_imported": "PASSED"}, output
    assert "virtual GPU:" not in output
