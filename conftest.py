"""Fixtures and hooks of all tests: the repository, a private Jupyter home, missing software."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import virtualgpu_fixtures
from fresh_python import installed_cupy  # noqa: F401
from standin_fixtures import cp  # noqa: F401
from virtualgpu_fixtures import active, cuda, four_devices, stand_ins_answer  # noqa: F401

REPOSITORY = Path(__file__).resolve().parent

if not entry_points(group="virtualgpu.standins"):
    pytest.exit("packages/gpustandins is not installed: make setup", returncode=4)

# All test processes share compiled code in this folder; `make clean` removes it.
os.environ["VIRTUALGPU_CACHE"] = str(REPOSITORY / "build" / "code")
# This folder's module stops jsonschema from building a grammar that no test uses.
WITHOUT = str(REPOSITORY / "tests" / "support" / "without")
sys.path.insert(0, WITHOUT)
os.environ["PYTHONPATH"] = os.pathsep.join([WITHOUT, *filter(None, [os.environ.get("PYTHONPATH")])])
# Figures are drawn to files, never to a window.
os.environ["MPLBACKEND"] = "agg"
os.environ.pop("GPUCOURSE_LANGUAGE", None)  # tests use English, except those that choose a language


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session", autouse=True)
def private_jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep Jupyter, IPython and nbgrader away from the user's own settings."""
    home = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(variable, str(home / variable.lower()))
        # The learner's records are kept here; see gpucourse/learner/records.py.
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        yield


# Compilers make many short-lived objects. Collecting them 30 times less often saves 6 % of the
# time.
gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="module", autouse=True)
def the_collector_looks_at_what_is_new() -> Iterator[None]:
    """Freeze existing objects, so that collections at a change of devices are fast.

    Such a collection took 2 s in a process with everything that earlier tests had imported,
    compiled and cached.
    """
    gc.freeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def no_shell_is_left() -> Iterator[None]:
    """Remove IPython's shell, so that no test finds the notebook names of another."""
    yield
    core = sys.modules.get("IPython.core.interactiveshell")
    if core is not None and core.InteractiveShell.initialized():
        core.InteractiveShell.instance().restore_sys_module_state()
        core.InteractiveShell.clear_instance()


@pytest.fixture(scope="module", autouse=True)
def jax_computes_in_float32() -> Iterator[None]:
    """Reset JAX to its default float32, in case a notebook in this process has changed it."""
    yield
    if (jax := sys.modules.get("jax")) is not None:
        jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="session", autouse=True)
def awkward_arrays_are_iterated() -> None:
    """Prepare Awkward Arrays as `%load_ext gpucourse` does, before tests compile kernels."""
    from virtualgpu.awkward.kernels import mend_iteration

    mend_iteration()


@cache
def has_browser() -> bool:
    """Return True if Chromium or Chrome is installed."""
    return any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))


@cache
def has_sandbox() -> bool:
    """Return True if bwrap is installed and the kernel lets it create namespaces."""
    command = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    if not shutil.which("bwrap"):
        return False
    return subprocess.run(command, capture_output=True).returncode == 0


@cache
def has_site_tools() -> bool:
    """Return True if the separately installed tools of `make site` and `make slides` are there."""
    return (REPOSITORY / ".tools" / "site" / "bin" / "python").exists()


# For each marker: its requirement, the command that installs it, and True if it is met.
NEEDS = virtualgpu_fixtures.NEEDS | {
    "browser": ("Chromium: sudo apt-get install chromium", has_browser),
    "site_tools": ("the site's tools: make site", has_site_tools),
    "sandbox": (
        "bubblewrap and user namespaces: sudo apt-get install bubblewrap (on Ubuntu since 24.04 "
        "also sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)",
        has_sandbox,
    ),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    virtualgpu_fixtures.skip_what_cannot_run(items, NEEDS)
    if config.pluginmanager.hasplugin("randomly"):
        return
    # Workers receive the groups in this order, because a long one at the end would leave a core
    # idle.
    slow = Counter(_room(item.nodeid) for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[_room(item.nodeid)])


# --- what runs beside what: pytest-xdist ----------------------------------------------------------


def _room(nodeid: str) -> str:
    """Return the group of a test, which one worker runs: a file, or a lecture's tests.

    >>> _room("tests/course/test_lectures.py::test_x[06:race-histogram]")
    'lecture 06'
    """
    of_lecture = re.match(r"tests/course/test_lecture(?:s\.py::.*?\[|_)(\d\d)", nodeid)
    return f"lecture {of_lecture[1]}" if of_lecture else nodeid.split("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one more than the number of cores, because workers wait; each takes up to 2 GB."""
    return min(8, len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Schedule whole groups in the tests' order, because large groups are not the longest."""
    from xdist.scheduler import LoadScopeScheduling

    class Rooms(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _room(nodeid)

    config.option.loadscopereorder = False
    return Rooms(config, log)
