"""Setup of CuPy's own tests, which puts the source's ``cupy.testing`` over the stand-in."""

import contextlib
import importlib.util
import math
import os
import sys
import types

import virtualgpu

virtualgpu.activate(force=True)

import cupy  # noqa: E402
import cupyx  # noqa: E402


class Private(types.ModuleType):
    """Private module whose functions accept any arguments and have no effect."""

    available, _CUB_REDUCE_SIZE_THRESHOLD = False, 1
    PerformanceWarning = type("PerformanceWarning", (Warning,), {})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: []


for name in (
    "cupy._util",
    "cupy._indexing",
    "cupy._indexing.generate",
    "cupy._core",
    "cupy._core.internal",
    "cupy._core._accelerator",
    "cupy._core._cub_reduction",
    "cupy._core._routines_linalg",
    "cupy.cuda.cub",
    "cupy.cuda.cutensor",
    "cupyx.scipy",
    "cupyx.scipy.sparse",
):
    made = sys.modules[name] = Private(name)
    package, _, short = name.rpartition(".")
    setattr(sys.modules[package], short, made)
cupy._core.__path__ = []
cupy._core.internal.prod = math.prod
cupy._core.get_compute_type = cupy._core.set_compute_type = lambda *args: None
cupyx.scipy.sparse.issparse = lambda x: False
# Code inside it must not wait for the device; here nothing waits.
cupyx.allow_synchronize = contextlib.nullcontext
folder = os.path.join(os.environ["SUITE_SOURCE"], "cupy", "testing")
for name in [name for name in sys.modules if name.partition(".testing")[0] == "cupy"]:
    if name.startswith("cupy.testing"):
        del sys.modules[name]
spec = importlib.util.spec_from_file_location(
    "cupy.testing", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
cupy.testing = sys.modules["cupy.testing"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cupy.testing)
