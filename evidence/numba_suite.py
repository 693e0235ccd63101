"""numba-cuda's own test suite on the virtual GPU and on Numba's CUDA simulator.

    python -m evidence.numba_suite            both, side by side (20 minutes on two cores)
    python -m evidence.numba_suite test_sync  some modules only, results not written

The suite is the one in the installed wheel, ``numba.cuda.tests.cudapy``. Every test that does
not pass on the virtual GPU is listed with its reason, and the run fails where one has none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

SUITE = "numba.cuda.tests.cudapy"
SOURCE = Path(__file__).parents[1] / "packages" / "virtualgpu" / "src"

# Python imports a module of this name as it starts: tests that run a child process have the
# virtual GPU there too.
SITECUSTOMIZE = """
import os

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    import virtualgpu
    virtualgpu.activate(force=True)
"""

CONFTEST = '''
import pytest


@pytest.fixture(scope="session")
def initialize_from_pytest_config():
    """The suite's own conftest is not in the wheel; its tests ask for this fixture."""
'''

# Why a test does not pass on the virtual GPU. Keys are the ends of test names, with the class.
REASONS = {
    "TestIpcMemory": "memory shared with another process (CUDA IPC) is not offered",
    "TestIpcStaged": "memory shared with another process (CUDA IPC) is not offered",
    "test_no_lineinfo": "line information is always on, so that messages can name the line",
    "test_dispatcher_cpointer_arguments":
        "fault of the test: it reads and writes 16 elements of arrays of 10 (memcheck)",
    "test_struct_model_type_arr":
        "fault of the test: it writes 10 elements into an array of one (memcheck)",
    "test_spawn_concurrent_compilation": "a spawned process cannot import the suite by its name "
        "under --import-mode=importlib",
    "test_multiprocessing": "its spawned workers cannot import the suite by its name under "
        "--import-mode=importlib, and the test then waits for ever: not run",
    "test_cupy_bfloat16_kernel_interop": "arrays of CuPy's stand-in reach Numba through "
        "__cuda_array_interface__, which has no name for bfloat16 (CuPy's own come by DLPack)",
    "test_datetime_cupy_inputs": "CuPy's stand-in has no datetime64",
    "test_docstring": "compares module names, which --import-mode=importlib shortens",
    "test_signatures_match_overloaded_api":
        "compares module names, which --import-mode=importlib shortens",
    "test_func1_isolated": "runs unittest in a child by module name, which "
        "--import-mode=importlib shortens",
}


def run(*, simulator: bool, modules: list[str]) -> dict[str, tuple[str, str]]:
    """``{class.test: (outcome, message)}`` of the suite."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "conftest.py").write_text(CONFTEST)
        (Path(folder) / "sitecustomize.py").write_text(SITECUSTOMIZE)
        environment = {
            **os.environ, "PYTHONPATH": str(SOURCE), "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
            "VIRTUALGPU_TIME_LIMIT": "120", "NUMBA_ENABLE_CUDASIM": "1" if simulator else "0",
        }
        names = [f"{SUITE}.{m}" for m in modules] or [SUITE]
        subprocess.run(
            [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", folder,
             "--noconftest", "-p", "conftest", "-p", "no:cacheprovider",
             "--import-mode=importlib", "-q", "--no-header", "-W", "ignore", "--tb=no",
             "-k", "not test_multiprocessing", "--junitxml", f"{folder}/result.xml",
             "--pyargs", *names],
            cwd=folder, env={**environment, "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}"},
            check=False)
        return outcomes(Path(folder) / "result.xml")


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
        # A test with subtests is reported once for each that fails, and once as a whole.
        if found.get(name, ("",))[0] != "failed":
            found[name] = (outcome, message)
    return found


def reason(name: str) -> str | None:
    return next((words for key, words in REASONS.items() if key in name), None)


def summary(found: dict[str, tuple[str, str]]) -> dict:
    return dict(Counter(outcome for outcome, _ in found.values()))


def main() -> int:
    modules = sys.argv[1:]
    virtual = run(simulator=False, modules=modules)
    failed = {n: m for n, (o, m) in virtual.items() if o == "failed"}
    unexplained = {n: m for n, m in failed.items() if reason(n) is None}
    print("virtual GPU:", summary(virtual))
    for name, message in failed.items():
        print(f"  {name}: {reason(name) or 'UNEXPLAINED: ' + message}")
    if not modules:
        from benchmarks.report import write

        simulated = run(simulator=True, modules=modules)
        print("simulator:", summary(simulated))
        print(write("numba_suite", {
            "virtual GPU": summary(virtual),
            "simulator": summary(simulated),
            "failed on the virtual GPU": {n: reason(n) or m for n, m in failed.items()},
            "skipped on the virtual GPU": {
                n: m for n, (o, m) in virtual.items() if o == "skipped"},
            "not run on either": {"test_multiprocessing": REASONS["test_multiprocessing"]},
        }))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
