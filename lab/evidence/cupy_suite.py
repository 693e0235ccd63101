"""CuPy's own tests on the stand-in that answers where there is no GPU.

    pip download cupy==14.2.0 --no-deps --no-binary :all:   CuPy's source, tests included
    python -m lab.evidence.cupy_suite FOLDER                    every area (3 min of processor time)
    python -m lab.evidence.cupy_suite FOLDER math logic         some areas, results not written

FOLDER is the source unpacked, as released (nothing in it is built or imported but its tests and
``cupy.testing``, which is plain Python). Every test that does not pass is listed with its reason,
and the run fails where one has none.
"""

from __future__ import annotations

import sys

from lab.evidence.own_tests import Suite, main

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
folder = os.path.join(os.environ["SUITE_SOURCE"], "cupy", "testing")
for name in [name for name in sys.modules if name.partition(".testing")[0] == "cupy"]:
    if name.startswith("cupy.testing"):
        del sys.modules[name]
spec = importlib.util.spec_from_file_location(
    "cupy.testing", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
cupy.testing = sys.modules["cupy.testing"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cupy.testing)
'''

# Why a test does not pass. Keys are parts of "area Class.test: message".
REASONS = {
    "AxisConcatenator": "the test calls a private class of CuPy's",
    "TestSelect.": "TypeError for what is no array, where CuPy has other errors",
    "test_delete_array_like": "TypeError for a list, where CuPy has ValueError",
    "invalid_order": "TypeError for an order that is no text, where CuPy has ValueError",
    "TestTrilIndices.": "an array for a length: ValueError as in NumPy, where CuPy has TypeError",
    "TestTriuIndices.": "an array for a length: ValueError as in NumPy, where CuPy has TypeError",
    "TestRepeatNdarrayErrors": "the error's text is NumPy's",
    "disallow_arraylike_bins": "lists of edges are taken; CuPy refuses them",
    "test_lexsort_three": "keys of three dimensions are sorted; CuPy lacks that",
    "TestVectorize": "cupy.vectorize calls the Python function; CuPy translates it to CUDA C++ and "
    "refuses what it cannot translate",
    "TestWho": "cupy.who is not in the stand-in",
    "TestPoly.test_poly_2d": "any square matrix is taken; CuPy takes symmetric ones only",
    "TestRoots.test_roots_bool": "roots of booleans are found; CuPy lacks that",
}


SUITE = Suite(
    name="cupy_suite",
    package="CuPy",
    tests="tests/cupy_tests/{area}_tests",
    conftest=CONFTEST,
    areas=(
        "indexing",
        "logic",
        "manipulation",
        "math",
        "sorting",
        "statistics",
        "binary",
        "creation",
        "functional",
        "io",
        "lib",
        "misc",
        "padding",
        "polynomial",
    ),
    # Arrays of 2 GiB and more, which is all that the virtual device has, and NumPy's beside.
    not_run=("index_32_bits", "huge_size", "BigArray"),
    reasons=REASONS,
)

if __name__ == "__main__":
    sys.exit(main(SUITE, __doc__))
