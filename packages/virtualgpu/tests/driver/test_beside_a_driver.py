"""Beside NVIDIA's driver without a device, as login nodes have it, the virtual GPU's is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from virtualgpu.driver import library

pytestmark = pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone")

CORE_AND_TILE = """
from numba import cuda  # opens libcuda.so
import virtualgpu
assert virtualgpu.activate()
from cuda.core import Device
import cuda.tile as ct

@ct.kernel
def twice(x):
    ct.store(x, (0,), 2 * ct.load(x, (0,), (4,)))

import numpy as np

x = cuda.to_device(np.arange(4))
ct.launch(cuda.default_stream(), (1,), twice, (x,))
print(Device(0).name, x.copy_to_host())
"""
KEPT = """
import ctypes, warnings
theirs = ctypes.CDLL("libcuda.so.1")
import virtualgpu
with warnings.catch_warnings(record=True) as told:
    virtualgpu.activate()
print(*(one.message for one in told))
"""


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Run a program where ``libcuda.so.1`` is a library whose cuInit gives CUDA_ERROR_NO_DEVICE."""
    no_device = b"\xb8\x64\x00\x00\x00\xc3"  # mov eax, 100; ret
    functions = dict.fromkeys(("cuInit", "cuDeviceGetCount"), 0)
    for name in functions:
        monkeypatch.setitem(library._ENDED, name, no_device)
    (tmp_path / "libcuda.so.1").write_bytes(library.image("libcuda.so.1", functions))
    (tmp_path / "libcuda.so").symlink_to("libcuda.so.1")
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    environment.pop("CUDA_VISIBLE_DEVICES", None)

    def run(program: str) -> str:
        (tmp_path / "program.py").write_text(program)  # cuTile reads a kernel's text
        ran = subprocess.run(
            [sys.executable, tmp_path / "program.py"],
            text=True,
            capture_output=True,
            env=environment,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    return run


def test_cuda_core_and_cutile_run_beside_it(python):
    assert python(CORE_AND_TILE) == "Virtual GPU (CPU) [0 2 4 6]"


def test_one_that_the_program_holds_is_told(python):
    told = python(KEPT)
    assert told.startswith(
        "this program has already loaded NVIDIA's libcuda.so.1, which has no device"
    )
