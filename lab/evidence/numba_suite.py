"""numba-cuda's own test suite on the virtual GPU and on Numba's CUDA simulator.

    python -m lab.evidence.numba_suite            both, in turn (20 minutes of two cores)
    python -m lab.evidence.numba_suite test_sync  some modules only, results not written

Where the wheel nvidia-curand is installed, the test that includes its header runs too.

The suite is the one in the installed wheel, ``numba.cuda.tests.cudapy``. Every test that does
not pass on the virtual GPU is listed with its reason, and the run fails where one has none. Tests
that are skipped on one virtual GPU since they ask for two run again on two; each counts once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

SUITE = "numba.cuda.tests.cudapy"
AT_ONCE = 4  # processes, each with some of the modules
#: With tests for several GPUs.
FOR_TWO = ("test_caching", "test_multigpu")
SOURCE = Path(__file__).parents[2] / "packages" / "virtualgpu" / "src"

# Python imports a module of this name as it starts: tests that run a child process have the
# virtual GPU there too.
SITECUSTOMIZE = """
import os

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    import virtualgpu
    virtualgpu.activate(force=True)
"""

CONFTEST = '''
import importlib
import inspect
from pathlib import Path

import numba.cuda
import pytest
from cuda.pathfinder._dynamic_libs import load_nvidia_dynamic_lib as search

# A child process that looks for CUDA's libraries has ten seconds: too few on busy cores.
for name in ("_loadable_via_canary_subprocess", "_resolve_system_loaded_abs_path_in_subprocess"):
    inspect.unwrap(getattr(search, name)).__kwdefaults__["timeout"] = 300.0

TESTS = Path(numba.cuda.__file__).parents[1]


class Module(pytest.Module):
    """A module of the suite by its own name, as its child processes import it."""

    def _getobj(self):
        parts = self.path.relative_to(TESTS).with_suffix("").parts
        module = importlib.import_module(".".join(("numba", *parts)))
        if hasattr(module, "FUTURE_TIMEOUT"):
            # test_ipc gives a spawned Python four seconds to import all: too few on busy cores.
            module.FUTURE_TIMEOUT = 60
        return module


def pytest_pycollect_makemodule(module_path, parent):
    return Module.from_parent(parent, path=module_path)


@pytest.fixture(scope="session")
def initialize_from_pytest_config():
    """The suite's own conftest is not in the wheel; its tests ask for this fixture."""
'''

# Why a test does not pass on the virtual GPU. Keys are the ends of test names, with the class.
REASONS = {
    "test_no_lineinfo": "line information is always on, so that messages can name the line",
    "test_dispatcher_cpointer_arguments": (
        "fault of the test: it reads and writes 16 elements of arrays of 10 (memcheck)"
    ),
    "test_struct_model_type_arr": (
        "fault of the test: it writes 10 elements into an array of one (memcheck)"
    ),
    "test_cupy_bfloat16_kernel_interop": "arrays of CuPy's stand-in reach Numba through "
    "__cuda_array_interface__, which has no name for bfloat16 (CuPy's own come by DLPack)",
    "test_inspect_lto_asm": "lto=True links PTX as it is: a call of CUDA C++ is not inlined, and "
    "stands in inspect_lto_ptx() too",
    "test_fork": "a forked process goes on with its own copy of the virtual GPU's memory; CUDA "
    "refuses a fork after it has begun",
}


def run(*, simulator: bool, modules: Sequence[str], devices: int = 1) -> dict[str, tuple[str, str]]:
    """``{class.test: (outcome, message)}`` of the suite, or of some of its modules."""
    package = find_spec(SUITE)
    assert package and package.submodule_search_locations
    names = sorted(modules) or [
        str(path.relative_to(folder).with_suffix("")).replace("/", ".")
        for folder in package.submodule_search_locations
        for path in sorted(Path(folder).rglob("test_*.py"))
    ]
    parts = [names[k::AT_ONCE] for k in range(min(AT_ONCE, len(names)))]
    found: dict[str, tuple[str, str]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for some in pool.map(lambda part: run_in_one(part, simulator, devices), parts):
            for name, outcome in some.items():
                note(found, name, outcome)
    return found


def run_in_one(modules: Sequence[str], simulator: bool, devices: int) -> dict[str, tuple[str, str]]:
    """As :func:`run`, in one process."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "conftest.py").write_text(CONFTEST)
        (Path(folder) / "sitecustomize.py").write_text(SITECUSTOMIZE)
        environment = {
            **os.environ,
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
            "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}",
            "VIRTUALGPU_TIME_LIMIT": "120",
            "VIRTUALGPU_DEVICES": str(devices),
            "NUMBA_ENABLE_CUDASIM": "1" if simulator else "0",
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:randomly",
            "-c",
            os.devnull,
            "--rootdir",
            folder,
            "--noconftest",
            "-p",
            "conftest",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            "-q",
            "--no-header",
            "-W",
            "ignore",
            "--tb=no",
            "--junitxml",
            f"{folder}/result.xml",
            "--pyargs",
            *(f"{SUITE}.{module}" for module in modules),
        ]
        subprocess.run(command, cwd=folder, env=environment)
        return outcomes(Path(folder) / "result.xml")


def note(found: dict[str, tuple[str, str]], name: str, outcome: tuple[str, str]) -> None:
    """A test with subtests is reported once for each that fails, and once as a whole."""
    if found.get(name, ("",))[0] != "failed":
        found[name] = outcome


def outcomes(path: Path) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname', '').split('.')[-1]}.{case.get('name')}"
        outcome, message = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, message = "failed", (child.get("message") or "")[:200]
            elif child.tag == "skipped":
                outcome = "expected to fail" if child.get("type") == "pytest.xfail" else "skipped"
                message = (child.get("message") or "")[:200]
        note(found, name, (outcome, message))
    return found


def reason(name: str) -> str | None:
    return next((words for key, words in REASONS.items() if key in name), None)


def summary(found: dict[str, tuple[str, str]]) -> dict:
    return dict(Counter(outcome for outcome, _ in found.values()))


def main() -> int:
    modules = sys.argv[1:]
    virtual = run(simulator=False, modules=modules)
    two = [m for m in FOR_TWO if not modules or m in modules]
    again = run(simulator=False, modules=two, devices=2) if two else {}
    virtual |= {
        n: found
        for n, found in again.items()
        if virtual[n][0] == "skipped" and found[0] != "skipped"
    }
    failed = {n: m for n, (o, m) in virtual.items() if o == "failed"}
    unexplained = {n: m for n, m in failed.items() if reason(n) is None}
    print("virtual GPU:", summary(virtual))
    for name, message in failed.items():
        print(f"  {name}: {reason(name) or 'UNEXPLAINED: ' + message}")
    if not modules:
        from lab.benchmarks.report import write

        simulated = run(simulator=True, modules=modules)
        print("simulator:", summary(simulated))
        print(
            write(
                "numba_suite",
                {
                    "virtual GPU": summary(virtual),
                    "simulator": summary(simulated),
                    "failed on the virtual GPU": {n: reason(n) or m for n, m in failed.items()},
                    "skipped on the virtual GPU": {
                        n: m for n, (o, m) in virtual.items() if o == "skipped"
                    },
                    "of these on two virtual GPUs": summary(
                        {n: found for n, found in again.items() if virtual[n] is found}
                    ),
                },
            )
        )
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
