"""A kernel of the course's environment is ready before ``%load_ext gpucourse``."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

from gpucourse.notebook import ready
from gpucourse.notebook.server import make_kernels_ready
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
    assert "→ check comes from the cell at the top of the lesson" in text(name)
    assert "writes x[3] of 3" in text(bad) and "cell In[3] line 3" in text(bad)
    assert loaded[0].text.startswith("Virtual GPU (CPU), compute capability")
    assert [one.text.strip() for one in command] == ["said"]
    # Whoever is asked, the device has one name.
    smi, jax, *others = (
        "".join(one.get("text") or one["data"]["text/plain"] for one in outputs)
        for outputs in devices
    )
    assert smi.splitlines()[1:] == loaded[0].text.splitlines()
    assert (
        jax == "[CpuDevice(id=0): JAX itself runs on the CPU, kernels run on the Virtual GPU (CPU)]"
    )
    assert all("Virtual GPU (CPU)" in text for text in others)


@pytest.mark.parametrize("folder", ["course/lectures", "elsewhere"])
def test_the_server_makes_kernels_ready_in_the_course_alone(tmp_path: Path, folder: str):
    (tmp_path / "course/lectures").mkdir(parents=True)
    (tmp_path / "course/welcome.ipynb").touch()
    (tmp_path / "elsewhere").mkdir()

    async def said_by_a_kernel() -> str:
        manager = AsyncMappingKernelManager(
            root_dir=str(tmp_path), kernel_spec_manager=KernelSpecManager()
        )
        make_kernels_ready(SimpleNamespace(kernel_manager=manager))
        kernel = await manager.start_kernel(path=folder)
        client = manager.get_kernel(kernel).client()
        client.start_channels()
        try:
            await client.wait_for_ready(timeout=60)
            said: list[str] = []
            await client.execute_interactive(
                "print('ready:', bool(get_ipython().custom_exceptions))",
                timeout=60,
                output_hook=lambda message: said.append(str(message["content"])),
            )
            return "".join(said)
        finally:
            client.stop_channels()
            await manager.shutdown_kernel(kernel, now=True)

    assert f"ready: {folder == 'course/lectures'}" in asyncio.run(said_by_a_kernel())


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
