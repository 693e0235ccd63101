"""``%%writefile`` and ``!python script.py`` find the virtual GPU that the notebook has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from notebook_cells import run_alone, run_cells

SCRIPT = """%%writefile add_one.py
import sys
import numpy as np
from numba import cuda

@cuda.jit
def add_one(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] += 1

if __name__ == "__main__":
    values = cuda.to_device(np.zeros(64, np.int32))
    add_one[1, 64](values)
    print("sum", values.copy_to_host().sum(), "of", sys.argv[1])
"""
# The kernel's own Python, which need not be the first on the PATH.
PYTHON = f"!{sys.executable}"
RUN = f"{PYTHON} add_one.py ours"
#: What a process says of itself, and what it would pass on.
TOLD = (
    f"{PYTHON} -c \"import os, sys; print('sitecustomize' in sys.modules, "
    "'VIRTUALGPU_SCRIPTS' in os.environ, 'startup' in os.environ.get('PYTHONPATH', ''))\""
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts are written in a folder of their own, on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def said(outputs: list) -> str:
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.parametrize(
    "run",
    [
        run_cells,
        pytest.param(
            lambda *cells: run_alone("import virtualgpu; virtualgpu.activate()", *cells),
            marks=pytest.mark.rehearsal,
        ),
    ],
    ids=["extension", "activate"],
)
def test_a_script_finds_the_virtual_gpu(run):
    *_, first, second = run(SCRIPT, RUN, f'{PYTHON} -c "import cupy; print(cupy.arange(4).sum())"')
    assert "sum 64 of ours" in said(first), said(first)
    assert said(second).strip() == "6"


def test_it_is_switched_off_by_a_variable():
    *_, outputs = run_cells(SCRIPT, "%env VIRTUALGPU_SCRIPTS=0", RUN)
    assert "CudaSupportError" in said(outputs)


def test_a_variable_set_before_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VIRTUALGPU_SCRIPTS", "0")
    *_, told = run_cells(TOLD)
    assert said(told).split()[2] == "False"


@pytest.mark.rehearsal
def test_deactivating_takes_it_back():
    during, after = run_alone(
        "import virtualgpu; virtualgpu.activate(); virtualgpu.activate()\n" + TOLD,
        "virtualgpu.deactivate()\n" + TOLD,
    )
    assert said(during).split() == ["True", "True", "True"]
    assert said(after).split() == ["False", "False", "False"]
