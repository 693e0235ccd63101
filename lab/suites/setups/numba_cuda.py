"""Setup of numba-cuda's own tests: their own module names, and longer time limits."""

import importlib
import inspect
from pathlib import Path

import numba.cuda
import pytest
from cuda.pathfinder._dynamic_libs import load_nvidia_dynamic_lib as search

# A child process that looks for CUDA's libraries has ten seconds, which is too few on busy cores.
for name in ("_loadable_via_canary_subprocess", "_resolve_system_loaded_abs_path_in_subprocess"):
    inspect.unwrap(getattr(search, name)).__kwdefaults__["timeout"] = 300.0

PACKAGE = Path(numba.cuda.__file__).parents[1]


class Module(pytest.Module):
    """Module of the suite under its own name, with which its child processes import it."""

    def _getobj(self):
        parts = self.path.relative_to(PACKAGE).with_suffix("").parts
        module = importlib.import_module(".".join(("numba", *parts)))
        if hasattr(module, "FUTURE_TIMEOUT"):
            # test_ipc gives a spawned Python four seconds for all imports, which is too few on busy
            # cores.
            module.FUTURE_TIMEOUT = 60
        return module


def pytest_pycollect_makemodule(module_path, parent):
    return Module.from_parent(parent, path=module_path)


@pytest.fixture(scope="session")
def initialize_from_pytest_config():
    """Replace a fixture of the suite's conftest, which the wheel does not contain."""
