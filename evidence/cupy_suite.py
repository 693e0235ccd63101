"""CuPy's own tests on the stand-in that answers where there is no GPU.

    pip download cupy==14.2.0 --no-deps --no-binary :all:     CuPy's source, tests included
    python -m evidence.cupy_suite FOLDER                      every area (two minutes on two cores)
    python -m evidence.cupy_suite FOLDER math logic           some areas, results not written

FOLDER is the source unpacked, as released (nothing in it is built or imported but its tests and
``cupy.testing``, which is plain Python). Every test that does not pass is listed with its reason,
and the run fails where one has none.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.progress import track

from evidence.numba_suite import SOURCE, outcomes

AREAS = ("indexing", "logic", "manipulation", "math", "sorting", "statistics", "binary", "creation",
         "functional", "io", "lib", "misc", "padding", "polynomial")

# A module of this name is imported as pytest starts. CuPy's tests take their decorators from
# ``cupy.testing``; those of the source take its place, with the private things they import.
CONFTEST = '''
import contextlib
import importlib.util
import math
import os
import sys
import types

import virtualgpu

virtualgpu.activate(force=True)
import cupy
import cupyx


class Private(types.ModuleType):
    """In the place of a private module: its functions take anything and choose nothing."""

    available, _CUB_REDUCE_SIZE_THRESHOLD = False, 1
    PerformanceWarning = type("PerformanceWarning", (Warning,), {})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: []


for name in ("cupy._util", "cupy._indexing", "cupy._indexing.generate", "cupy._core.internal",
             "cupy._core._accelerator", "cupy._core._cub_reduction", "cupy._core._routines_linalg",
             "cupy.cuda.cub", "cupy.cuda.cutensor", "cupyx.scipy", "cupyx.scipy.sparse"):
    made = sys.modules[name] = Private(name)
    package, _, short = name.rpartition(".")
    setattr(sys.modules[package], short, made)
cupy._core.__path__ = []
cupy._core.internal.prod = math.prod
cupy._core.get_compute_type = cupy._core.set_compute_type = lambda *args: None
cupyx.scipy.sparse.issparse = lambda x: False
# Inside it nothing may wait for the device; here nothing ever does.
cupyx.allow_synchronize = contextlib.nullcontext
folder = os.path.join(os.environ["CUPY_SOURCE"], "cupy", "testing")
for name in [name for name in sys.modules if name.partition(".testing")[0] == "cupy"]:
    if name.startswith("cupy.testing"):
        del sys.modules[name]
spec = importlib.util.spec_from_file_location(
    "cupy.testing", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
cupy.testing = sys.modules["cupy.testing"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cupy.testing)
'''

# Not run: arrays of 2 GiB and more, which is all that the virtual device has, and NumPy's beside.
HUGE = ("index_32_bits", "huge_size", "BigArray")

# Why a test does not pass. Keys are parts of "area Class.test: message".
REASONS = {
    "datetime": "arrays of datetime64 are not in the stand-in",
    "multi_device": "there is one virtual device",
    "multigpu": "there is one virtual device",
    "collection failure": "the file imports CuPy's private modules",
    "TestSelect.": "TypeError for what is no array, where CuPy has other errors",
    "test_delete_array_like": "TypeError for a list, where CuPy has ValueError",
    "invalid_order": "TypeError for an order that is no text, where CuPy has ValueError",
    "test_lexsort_three": "keys of three dimensions are sorted; CuPy lacks that",
    "TestVectorize": "cupy.vectorize calls the Python function; CuPy translates it to CUDA C++ and "
        "refuses what it cannot translate",
    "TestWho": "cupy.who is not in the stand-in",
    "TestComplex.": "a part of an array of no elements has no memory, so no base",
    "meshgrid": "sparse grids that are not copied come as a list, as NumPy's do",
    "test_array_copy_false": "NumPy 2 refuses copy=False where it must copy, CuPy does not",
    "test_array_f_contiguous": "NumPy 2 refuses copy=False where it must copy, CuPy does not",
    "test_array_from_numpy_c_and_f": "an axis of length 1 has other strides",
    "test_void_dtype": "arrays of raw bytes cannot be filled",
    "TestApplyAlongAxis": "a function that returns a tuple is not taken apart",
    "TestApplyOverAxes": "an array of no dimensions passes, as in NumPy",
    "TestSlidingWindowView": "lists are refused; writeable=True is taken as NumPy takes it",
    "TestRoots.test_roots_bool": "roots of booleans are found; CuPy lacks that",
    "oly": "cupy.poly1d has arithmetic and evaluation; functions of polynomials give arrays, and "
        "coefficients cannot be assigned",
}


def run(source: Path, area: str) -> dict[str, tuple[str, str]]:
    """``{file Class.test: (outcome, message)}`` of one area of CuPy's tests."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "conftest.py").write_text(CONFTEST)
        result = Path(folder) / "result.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", source / "tests",
             "--confcutdir", folder, "-p", "conftest", "-p", "no:cacheprovider", "-q",
             "--import-mode=importlib", "--continue-on-collection-errors", "-W", "ignore",
             "--tb=no", "-k", " and ".join(f"not {name}" for name in HUGE),
             "--junitxml", result, source / "tests" / "cupy_tests" / f"{area}_tests"],
            cwd=folder, check=False, stdout=subprocess.DEVNULL,
            env={**os.environ, "CUPY_SOURCE": str(source),
                 "PYTHONPATH": f"{folder}{os.pathsep}{SOURCE}"})
        return outcomes(result)


def reason(name: str, message: str) -> str | None:
    return next((words for key, words in REASONS.items() if key in f"{name}: {message}"), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="CuPy's source, unpacked")
    parser.add_argument("areas", nargs="*", choices=[[], *AREAS], help="default: all")
    given = parser.parse_args()
    source = given.source.resolve()
    if not (source / "tests" / "cupy_tests").is_dir():
        parser.error(f"{given.source} has no tests/cupy_tests: give CuPy's source, unpacked")
    counts, failed = {}, {}
    for area in track(given.areas or AREAS, "CuPy's tests"):
        found = run(source, area)
        counts[area] = dict(Counter(outcome for outcome, _ in found.values()))
        failed |= {f"{area} {name}": message.partition("\n")[0]  # paths follow
                   for name, (outcome, message) in found.items() if outcome == "failed"}
        print(f"{area}: {counts[area]}")
    for name, message in failed.items():
        print(f"  {name}: {reason(name, message) or 'UNEXPLAINED: ' + message}")
    if not given.areas:
        from benchmarks.report import write

        print(write("cupy_suite", {
            "areas": counts, "not run": f"tests with {', '.join(HUGE)} in their name",
            "failed": {name: reason(name, message) or message for name, message in failed.items()},
            "peak memory of a run, GB":
                round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6, 1)}))
    return 1 if any(reason(*one) is None for one in failed.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
