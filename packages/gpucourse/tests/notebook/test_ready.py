"""A kernel of the course's environment is ready before ``%load_ext gpucourse``."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from gpucourse.notebook import ready
from notebook_cells import run_alone

CELLS = (
    "import cupy\nfrom numba import cuda\nimport numpy as np\n"
    "int(cupy.arange(4).sum()), cuda.get_current_device().name",
    "check('half', 1)",
    "@cuda.jit\ndef beyond(x):\n    x[cuda.grid(1)] = 1\n\nbeyond[1, 4](np.zeros(3))",
    "%load_ext gpucourse",
    # What JAX does when it is imported.
    "import os, warnings\n"
    "def warn(): warnings.warn('os.fork() was called. That will deadlock.', RuntimeWarning)\n"
    "os.register_at_fork(before=warn)",
    "!echo said",
    "!nvidia-smi",
    "import jax\njax.devices()",
    "cuda.detect()",
    "cupy.show_config()",
)


def text(outputs: list) -> str:
    (error,) = (one for one in outputs if one.output_type == "error")
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))


def test_the_first_cell_finds_the_virtual_gpu_and_errors_that_teach():
    first, name, bad, loaded, _, command, *devices = run_alone(*CELLS)
    assert first[-1]["data"]["text/plain"].startswith("(6, ")
    assert "Virtual GPU (CPU)" in first[-1]["data"]["text/plain"]
    assert "→ check comes with the cell at the top of the lesson" in text(name)
    assert "writes x[3] of 3" in text(bad) and "cell In[3] line 3" in text(bad)
    assert loaded[0].text.startswith("Virtual GPU (CPU), compute capability")
    assert [one.text.strip() for one in command] == ["said"]
    # Whoever is asked, the device has one name.
    smi, jax, *others = (
        "".join(one.get("text") or one["data"]["text/plain"] for one in outputs)
        for outputs in devices
    )
    assert smi.splitlines()[1:] == loaded[0].text.splitlines()
    assert jax == "[CpuDevice(id=0): JAX itself runs on the CPU; kernels on the Virtual GPU (CPU)]"
    assert all("Virtual GPU (CPU)" in text for text in others)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GPUCOURSE_READY", "0")
    (outputs,) = run_alone("get_ipython().custom_exceptions")
    assert outputs[-1]["data"]["text/plain"] == "()"


def test_nothing_is_imported_for_it_before_the_first_cell():
    program = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        f"shell.run_line_magic('load_ext', {ready.__name__!r})\n"
        "waits = lambda: any(one.__name__ == 'make_ready'\n"
        "                    for one in shell.events.callbacks['pre_run_cell'])\n"
        "before = 'virtualgpu' in sys.modules, waits()\n"
        "shell.run_cell('import sys')\n"
        "print(before, 'virtualgpu' in sys.modules, waits())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert ran.stdout == "(False, True) True False\n", ran.stderr
