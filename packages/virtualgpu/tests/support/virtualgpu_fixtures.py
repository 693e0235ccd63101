"""What the tests of virtualgpu share with those of the course that launch kernels."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

SUPPORT = Path(__file__).resolve().parent

# The same examples on every run, and no clock: a shared runner may stall at any time.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

# A toolkit of the machine must not stand in for the compiler wheels that the package declares.
for variable in ("CUDA_HOME", "CUDA_PATH"):
    os.environ.pop(variable, None)

# Files that test stand-ins, which answer only where there is no GPU.
OF_STANDINS = (
    "test_awkward",
    "test_cudf",
    "test_cupy",
    "test_mirrored",
    "test_pycuda",
    "test_standins",
)


@pytest.fixture(scope="module", autouse=True)
def stand_ins_answer(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of stand-ins run on a machine with a GPU too: virtualgpu is told that it has none.

    Whatever a module switches off, the next ones, which switched the virtual GPU on when they were
    collected, find it on again.
    """
    import virtualgpu

    was_active = virtualgpu.is_active()
    if request.module.__name__.rpartition(".")[2].startswith(OF_STANDINS):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("virtualgpu.activation.gpu_is_present", lambda: False)
            yield
    else:
        yield
    if was_active and not virtualgpu.is_active():
        virtualgpu.activate(force=True)


@pytest.fixture(scope="module")
def active() -> Iterator[None]:
    """The virtual GPU answers ``numba.cuda``, also beside a real one."""
    import virtualgpu

    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    yield
    from numba import cuda

    # Numba frees later what is no longer used; other modules' tests share the device.
    gc.collect()
    cuda.current_context().memory_manager.deallocations.clear()
    if not before:
        virtualgpu.deactivate()


@pytest.fixture(scope="module")
def cuda(active: None) -> ModuleType:
    from numba import cuda

    return cuda


@pytest.fixture
def four_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """Four virtual GPUs in this process."""
    import virtualgpu
    from virtualgpu import devices
    from virtualgpu.cuda.driver_api import API
    from virtualgpu.devices.virtual import several

    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    from numba.cuda.cudadrv import devices as numba_devices
    from numba.cuda.cudadrv import driver

    from virtualgpu.numba import hooks

    monkeypatch.setattr(devices, "_devices", several(4))
    hooks._forget_devices(driver.driver, numba_devices)  # it has counted one
    yield devices.every()
    API._contexts.stack.clear()
    devices.select(0)
    hooks._forget_devices(driver.driver, numba_devices)
    if not before:
        virtualgpu.deactivate()


@cache
def has_gpu() -> bool:
    """An NVIDIA driver's device file, under Linux or under WSL."""
    return any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg"))


@cache
def has_compiler() -> bool:
    """A C compiler, which builds the stub of a CUDA driver."""
    return shutil.which("cc") is not None


# marker: what it needs, with the command that installs it, and whether that is here
NEEDS = {
    "gpu": ("an NVIDIA GPU", has_gpu),
    "compiler": ("a C compiler: sudo apt-get install gcc", has_compiler),
}


def skip_what_cannot_run(items: list[pytest.Item], needs: dict) -> None:
    """Leave out what cannot run here; the last lines of the run say what would have it tested."""
    for item in items:
        for marker in needs.keys() & {mark.name for mark in item.iter_markers()}:
            what, is_here = needs[marker]
            if not is_here():
                reason = f"UNTESTED HERE: needs {what}"
                item.add_marker(pytest.mark.skip(reason=reason))
