"""What every test shares: where the repository is, a private Jupyter home, what a machine lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# The same examples on every run, and no clock: a shared runner may stall at any time.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

# A toolkit of the machine must not stand in for the compiler wheels that the package declares.
for variable in ("CUDA_HOME", "CUDA_PATH"):
    os.environ.pop(variable, None)
# Figures are drawn to files, never to a window.
os.environ["MPLBACKEND"] = "agg"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def private_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jupyter, IPython and nbgrader neither read nor write the user's own settings."""
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(variable, str(home / variable.lower()))
        # What a learner has done is recorded here; see gpucourse/records.py.
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        yield


# Files that test stand-ins, which answer only where there is no GPU.
OF_STANDINS = ("test_awkward_cuda", "test_cudf", "test_cupy", "test_pycuda", "test_standins")


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


@pytest.fixture(scope="module", autouse=True)
def no_shell_is_left() -> Iterator[None]:
    """Whoever asks for the notebook's names would find those of another test's IPython."""
    yield
    core = sys.modules.get("IPython.core.interactiveshell")
    if core is not None and core.InteractiveShell.initialized():
        core.InteractiveShell.instance().restore_sys_module_state()
        core.InteractiveShell.clear_instance()


@pytest.fixture(scope="module", autouse=True)
def jax_computes_in_float32() -> Iterator[None]:
    """As it does by default, whatever a notebook run in this process has set for itself."""
    yield
    if (jax := sys.modules.get("jax")) is not None:
        jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="session", autouse=True)
def awkward_arrays_are_iterated() -> None:
    """As `%load_ext gpucourse` does, before any test compiles a kernel."""
    from gpucourse import awkward_cuda

    awkward_cuda.mend_iteration()


@cache
def has_gpu() -> bool:
    """An NVIDIA driver's device file, under Linux or under WSL."""
    return any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg"))


@cache
def has_browser() -> bool:
    """Chromium or Chrome."""
    return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))


@cache
def has_sandbox() -> bool:
    """bwrap, and a kernel that lets it make its namespaces."""
    command = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    if not shutil.which("bwrap"):
        return False
    return subprocess.run(command, capture_output=True).returncode == 0


@cache
def has_compiler() -> bool:
    """A C compiler, which builds the stub of a CUDA driver."""
    return shutil.which("cc") is not None


@cache
def has_site_tools() -> bool:
    """What `make test`, `make site` and `make slides` install apart."""
    return (REPOSITORY / ".tools" / "site" / "bin" / "python").exists()


# marker: what it needs, and whether that is here
NEEDS = {
    "gpu": ("an NVIDIA GPU", has_gpu),
    "browser": ("Chromium", has_browser),
    "compiler": ("a C compiler (cc)", has_compiler),
    "site_tools": ("the site's tools (make site installs them)", has_site_tools),
    "sandbox": ("bubblewrap (bwrap) and user namespaces", has_sandbox),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what cannot run here; the summary of the run lists it with the reason."""
    for item in items:
        for marker, (what, is_here) in NEEDS.items():
            if item.get_closest_marker(marker) and not is_here():
                reason = f"UNTESTED HERE: needs {what}, which this machine does not have"
                item.add_marker(pytest.mark.skip(reason=reason))
