"""numba-cuda's test suite on its successor, numba-cuda-mlir, and the virtual GPU.

    uv pip install --no-deps --target FOLDER numba-cuda-mlir filecheck
    PYTHONPATH=FOLDER python -m lab.evidence.successor_suite           all (8 minutes on two cores)
    PYTHONPATH=FOLDER python -m lab.evidence.successor_suite test_sync some modules, nothing written

The successor's wheel has no tests; in its repository are numba-cuda's, with other imports. So those
of the installed numba-cuda are run with their imports changed likewise, each file in a process of
its own, in which a test that ends the process counts as one that ended it. What the successor has
not, or writes otherwise, fails here as on a GPU: failures are sorted by who is meant.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from lab.evidence.numba_suite import SITECUSTOMIZE, SOURCE, SUITE

AT_ONCE = 2
LIMIT = 1200  # seconds for a file, on busy cores too
NO_TESTS = 5  # pytest's status where it collects none, or deselects all
# Some 300 compilations for each of its tests: a quarter of an hour.
LEFT_OUT = {"test_array_alignment.py"}
# These wait for ever for processes that cannot import the changed suite.
DESELECTED = "not test_multiprocessing and not spawn"

CONFTEST = '''
import json
import os
import unittest
from pathlib import Path

import pytest
from numba_cuda_mlir.numba_cuda import testing
from numba_cuda_mlir.numba_cuda.core import config

config.ENABLE_CUDASIM = False  # the successor has no simulator
testing.test_data_dir = Path(__file__).parent / "data"  # the successor's wheel has none
testing.skip_on_cudasim = lambda reason: lambda test: test
for name in ("skip_unless_cudasim", "xfail_unless_cudasim"):
    setattr(testing, name, unittest.skip)
subtests = {}


@pytest.fixture(scope="session")
def initialize_from_pytest_config():
    """The suite's own conftest is not in the wheel; its tests ask for this fixture."""


def note(*what):
    with open(os.environ["OUTCOMES"], "a") as file:
        file.write(json.dumps(what) + "\\n")


def pytest_runtest_logstart(nodeid):
    note(nodeid, "ended the process", "")


def pytest_runtest_logreport(report):
    if "Subtest" in type(report).__name__:
        if report.failed:
            subtests[report.nodeid] = str(report.longrepr)
    elif report.when == "call" or report.outcome != "passed":
        outcome = "expected to fail" if hasattr(report, "wasxfail") else report.outcome
        if outcome == "passed" and report.nodeid in subtests:
            outcome = "failed"
        words = subtests.get(report.nodeid, str(report.longrepr))
        note(report.nodeid, outcome, words[-2000:] if outcome == "failed" else "")
'''

# Who is meant by a failure, by its name or words of its message; the first that is found counts.
# What its PTX computes was read in the PTX, what its cache and its options do in its source. On a
# GPU the four bytes that print never stores may be 0; here they are poison.
WHO = (
    (
        "the virtual GPU: an error of its own code",
        r"virtualgpu/\S+:\d+: in \w+\n(?: .*\n)*E   (Attribute|Type|Key|Index|Name|Assertion)Error",
    ),
    (
        "the virtual GPU: managed memory, which has one address for host and device",
        "cuMemAllocManaged",
    ),
    ("the virtual GPU: CUDA IPC", "cuIpc"),
    (
        "the virtual GPU: LTO-IR, by which the successor links CUDA C++",
        "LTO-IR is linked|_linker.Linker'> returned NULL|LinkerError",
    ),
    (
        "the successor's PTX: print of an int32 stores four bytes and formats eight",
        r"(test_cuhello|TestPrint::test_string|test_printfloat)$",
    ),
    (
        "the successor's PTX: round takes halves away from zero",
        r"(test_round_f4|test_round_f8|test_round_to_f4_halfway)$",
    ),
    (
        "the successor's PTX: mean and var add to memory that they never set",
        r"(test_mean_basic|test_var_basic)$",
    ),
    (
        "the successor's PTX: nanmax and nanmin of NaN alone are the infinity that they begin with",
        r"(test_nanmax_basic|test_nanmin_basic)$",
    ),
    (
        "the successor's PTX: an atomic max or min takes the place of a NaN in memory",
        r"test_atomic_(max|min)_nan_location$",
    ),
    ("the successor's PTX: an index into complex numbers is doubled", r"test_const_array_3d$"),
    ("the successor's PTX: a shuffle of float64 is one of float32", r"test_shfl_sync_types$"),
    (
        "the successor's PTX: activemask is asked once before two branches",
        r"TestCudaWarpOperations::test_activemask$",
    ),
    (
        "the successor's PTX: no division is checked under debug",
        r"(test_divf_exception|test_zero_division_error_in_debug)$",
    ),
    (
        "the successor's PTX: grid(1) is a product of 32 bits, not of 64",
        r"test_issue_9229$",
    ),
    (
        "the successor's PTX: hexp10 rounds x ln 10 to a float16 before it takes the power",
        r"TestCudaIntrinsic::test_hexp10$",
    ),
    (
        "the successor: its cache forgets that a kernel is cooperative",
        r"CUDACooperativeGroupTest::test_cache_cg$",
    ),
    (
        "the successor: forceinline changes nothing, since it inlines by default",
        r"test_compile_forceinline$",
    ),
    (
        "the successor: its extension ends the process where the driver has no kernel of that name",
        r"test_device_func_as_kernel_disallowed$",
    ),
    (
        "the successor: not implemented, or a fault of its compiler",
        r"NotImplementedError|compiler bug|Failed in \w+ mode|MLIRError|llvm70 translation|To be "
        r"implemented|Unsupported (numpy )?dtype|_library_class|should not launch Numba-CUDA|"
        r"Enum members with tuple|During: Pass",
    ),
    (
        (
            "the successor: its compiler accepts what the test has refused, or refuses it in its "
            "own way"
        ),
        r"(Typing|Pickling)Error not raised|test_record_alignment_error|Runtime error in kernel|"
        r"debug=True requires opt_level=0",
    ),
    (
        "the successor: other words, PTX, LLVM or classes than the test looks for",
        r"not found in|Regex didn't match|_dump_failed_filechecks|ImportError|AttributeError|"
        r"inspect_|criterion\.check|No matching definition|test_declare_device_cabi_propagate|"
        r"cannot pickle|KeyError|is not true : |does not match|"
        r"unexpectedly None|target datalayout|!llvm\.|declare void|^E\s+!\d|\.param|ld\.param",
    ),
    (
        "the successor: it is never beside Numba for the test's file, which so has no njit",
        r"'NoneType' object is not callable",
    ),
)
ELSE = "a result or an error that is not the test's"


def changed(text: str) -> str:
    """A module of the suite with the successor's imports."""
    places = {
        "types": "numba_cuda_mlir.numba_cuda",
        "errors": "numba_cuda_mlir.numba_cuda.core",
        "typeof": "numba_cuda_mlir.numba_cuda.typing.typeof",
        "cuda": "numba_cuda_mlir",
        "vectorize": "numba_cuda_mlir.cuda",
        "guvectorize": "numba_cuda_mlir.cuda",
    }

    def imports(found: re.Match) -> str:
        names = found[2].split(", ")
        return "\n".join(
            f"{found[1]}from {places.get(name.split()[0], 'numba')} import {name}" for name in names
        )

    text = re.sub(r"^([ \t]*)from numba import ([^(\n]*)$", imports, text, flags=re.M)
    text = text.replace("from numba.cuda import", "from numba_cuda_mlir.cuda import")
    text = text.replace(SUITE, "cudapy")
    # Four seconds for a spawned Python to import all are too few on busy cores.
    text = text.replace("FUTURE_TIMEOUT = 4\n", "FUTURE_TIMEOUT = 60\n")
    return re.sub(r"\bnumba\.cuda\b", "numba_cuda_mlir.numba_cuda", text)


def prepare(folder: Path) -> list[Path]:
    """Write the changed suite; its files with tests."""
    package = find_spec(SUITE)
    assert package and package.submodule_search_locations
    tests = Path(package.submodule_search_locations[0])
    for part in (tests, tests.with_name("data")):
        shutil.copytree(part, folder / part.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / "cudapy").rglob("*.py"):
        path.write_text(changed(path.read_text()))
    (folder / "cudapy" / "__init__.py").write_text("")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "sitecustomize.py").write_text(SITECUSTOMIZE)
    return sorted(
        path for path in (folder / "cudapy").rglob("test_*.py") if path.name not in LEFT_OUT
    )


def outcomes(folder: Path, path: Path) -> dict[str, tuple[str, str]]:
    """``{test: (outcome, message)}`` of a file; begun anew where a test ends the process."""
    log = folder / f"{path.stem}.jsonl"
    before = os.environ.get("PYTHONPATH", "")
    environment = {
        **os.environ,
        "OUTCOMES": str(log),
        "VIRTUALGPU_TIME_LIMIT": "20",
        "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
        "PYTHONPATH": os.pathsep.join([str(folder), str(SOURCE), before]),
    }
    found: dict[str, tuple[str, str]] = {}
    while True:
        known = len(found)
        log.write_text("")
        try:
            ran = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-p",
                    "no:randomly",
                    "-c",
                    os.devnull,
                    "--rootdir",
                    folder,
                    "-p",
                    "no:cacheprovider",
                    "-q",
                    "-W",
                    "ignore",
                    "--tb=short",
                    "-k",
                    DESELECTED,
                    str(path),
                    *(word for name in found for word in ("--deselect", name)),
                ],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
            unread = (
                {} if ran.returncode == NO_TESTS else {path.name: ("failed", ran.stdout[-2000:])}
            )
        except subprocess.TimeoutExpired:
            unread = {path.name: ("failed", f"no end after {LIMIT} s")}
        for line in log.read_text().splitlines():
            name, outcome, message = json.loads(line)
            found[name] = outcome, message
        if len(found) == known or "ended the process" not in [o for o, _ in found.values()]:
            break
    print(path.name, dict(Counter(outcome for outcome, _ in found.values())), flush=True)
    return found or unread


def who(test: str, message: str) -> str:
    told = f"{test}\n{message}"
    return next((words for words, pattern in WHO if re.search(pattern, told, re.M)), ELSE)


def main() -> int:
    if find_spec("numba_cuda_mlir") is None:
        print("numba-cuda-mlir is not installed: see this module's first lines")
        return 2
    wanted = {f"{name}.py" for name in sys.argv[1:]}
    found: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(name)
        paths = [path for path in prepare(folder) if not wanted or path.name in wanted]
        for some in pool.map(lambda path: outcomes(folder, path), paths):
            found |= {name.split("/")[-1]: what for name, what in some.items()}
    meant: dict[str, list[str]] = {}
    for test, (outcome, message) in found.items():
        if outcome in ("failed", "ended the process"):
            meant.setdefault(who(test, message), []).append(test)
    total = dict(Counter(outcome for outcome, _ in found.values()))
    print(total, {words: len(tests) for words, tests in meant.items()})
    for test in meant.get(ELSE, []):
        print(f"  {test}: {found[test][1].strip().splitlines()[-1][:150]}")
    if not wanted:
        from lab.benchmarks.report import write

        print(
            write(
                "successor_suite",
                {
                    "outcomes": total,
                    "failed": {words: len(tests) for words, tests in meant.items()},
                    "tests that failed": {words: sorted(tests) for words, tests in meant.items()},
                },
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
