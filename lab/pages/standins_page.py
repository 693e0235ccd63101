"""Generator of ``docs/standins.md`` from the stand-ins' packages themselves.

``python -m lab.pages.standins_page docs/standins.md`` writes the page; ``make check`` reports a
page that is out of date.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np

from lab.pages.standins_differences import DIFFERENCES
from virtualgpu.standins import finder
from virtualgpu.wording import many

_HEAD = """\
# Stand-ins: CuPy, PyCUDA, cuDF and Awkward Arrays without a GPU

<!-- Written by `python -m lab.pages.standins_page docs/standins.md`: edit the code. -->

CuPy, PyCUDA and cuDF cannot work without a GPU. On a machine without one, while the virtual GPU is
active (`virtualgpu.activate()`, or `%load_ext gpucourse`), `import cupy`, `cupyx`, `pycuda` and
`cudf` find stand-ins. On a machine with a GPU nothing on this page applies, because the real
packages are imported. This reference lists the names that each stand-in has and lacks, and its
differences from the original.

- **Kernels are real.** NVRTC compiles CUDA C++, Numba and NVVM compile Python, and the PTX runs on
  the virtual GPU under its checkers ([what is modelled](virtualgpu.md)).
- **NumPy computes array operations and pandas computes table operations**, on arrays in the virtual
  GPU's memory, which CuPy, Numba, PyCUDA, cuDF and Awkward share without a copy.
- **A stand-in refuses what its original refuses**, for example mixing NumPy and CuPy arrays,
  passing one library's arrays to the other's functions, or iterating over a cuDF column.
- **A missing function raises `NotImplementedError`**; the message has its name and an alternative.
- **No times are measured.** Events give NaN, and no number claims to be a GPU's speed.
- **The package gpustandins contains the stand-ins**, separately from virtualgpu. The course
  installs it, and its extra `[cudf]` adds pandas. Without it, `import cupy` fails with an error
  that contains the install command.
- **A stand-in is not an installed CuPy.** `pip list` does not show it, `find_spec` returns the
  stand-in's folder, and `__version__` of CuPy and cuDF ends in `+virtualgpu`. If the real package
  was imported before, it is set aside until `virtualgpu.deactivate()` or `%unload_ext gpucourse`.

PyCUDA's stand-in uses the arrays of the imported `cupy`. On a machine that has a GPU and CuPy but
no PyCUDA, `%load_ext gpucourse` makes `import pycuda` import the stand-in and print how to install
PyCUDA. The stand-in's kernels then run on the GPU. This was tested only on CuPy's stand-in, not on
a GPU.
"""

_OWN_TESTS = (
    "`python -m lab.suites {0} --sources FOLDER` runs the test suite in {1}'s source; "
    "`docs/tried_with.md` lists how many tests pass, and why the others fail."
)
_ABOUT = {
    "cupy": ("CuPy", "Follows CuPy 14.2. " + _OWN_TESTS.format("cupy", "CuPy")),
    "cupyx": (
        "cupyx",
        "`cupyx.scipy` applies SciPy's functions to device arrays (`pip install scipy`). Values "
        "agree with CuPy's up to rounding, and errors have SciPy's messages.",
    ),
    "pycuda": (
        "PyCUDA",
        "Follows PyCUDA 2026.1; kernels are compiled by NVRTC instead of nvcc. "
        + _OWN_TESTS.format("pycuda", "PyCUDA"),
    ),
    "cudf": (
        "cuDF",
        "Follows cuDF 26.10 (nulls are `<NA>` in every dtype), and is built on pandas.",
    ),
    "awkward": (
        "Awkward Arrays",
        'Awkward is the real package. `ak.to_backend(array, "cuda")` returns arrays in the virtual '
        "GPU's memory. Kernels accept them with `extensions=[ak.numba.cuda]`, and support indices, "
        "iteration, `enumerate` and slices. `virtualgpu.activate()` turns this on "
        "(`virtualgpu.awkward`).",
    ),
}

# The modules whose names the page lists, by package.
_MODULES = {
    "cupy": (
        "cupy",
        "cupy.linalg",
        "cupy.fft",
        "cupy.random",
        "cupy.fft.config",
        "cupy.cuda",
        "cupy.cuda.cublas",
        "cupy.cuda.cufft",
        "cupy.cuda.nvtx",
        "cupy.cuda.thrust",
        "cupy.cuda.texture",
        "cupy.testing",
    ),
    "cupyx": (
        "cupyx",
        "cupyx.profiler",
        "cupyx.jit",
        "cupyx.scipy",
        "cupyx.scipy.ndimage",
        "cupyx.scipy.signal",
        "cupyx.scipy.signal.windows",
        "cupyx.scipy.special",
        "cupyx.scipy.linalg",
        "cupyx.scipy.fft",
        "cupyx.scipy.fftpack",
        "cupyx.scipy.stats",
        "cupyx.scipy.interpolate",
        "cupyx.scipy.spatial",
        "cupyx.scipy.spatial.distance",
        "cupyx.scipy.sparse",
        "cupyx.scipy.sparse.linalg",
    ),
    "pycuda": (
        "pycuda.driver",
        "pycuda.compiler",
        "pycuda.gpuarray",
        "pycuda.cumath",
        "pycuda.curandom",
        "pycuda.elementwise",
        "pycuda.reduction",
        "pycuda.scan",
        "pycuda.tools",
    ),
    "cudf": (),
}


def page() -> str:
    """Return the whole page. Imports the stand-ins, and restores ``sys.modules``."""
    was = finder.is_installed()
    finder.install()
    try:
        return _page()
    finally:
        if not was:
            finder.remove()


def _page() -> str:
    parts = [_HEAD]
    for package, (title, about) in _ABOUT.items():
        parts.append(f"\n## {title}\n")
        if about:
            parts.append(textwrap.fill(about, 99) + "\n")
        parts += [_names(one) for one in _surfaces(package)]
        differences = [one for one in DIFFERENCES if one.package == package]
        if differences:
            parts.append(_table(differences))
    return "\n".join(parts)


def _surfaces(package: str) -> list[tuple[str, list[str], list[str]]]:
    """Return each namespace's name with the names that it has and that it lacks."""
    if package == "cudf":
        return cudf_surfaces()
    surfaces = []
    for name in _MODULES.get(package, ()):
        module = importlib.import_module(name)
        lacks = getattr(module, "MISSING", None) or getattr(module, "_MISSING", None)
        if lacks is None and name == "cupy":
            lacks = importlib.import_module("cupy._table").MISSING
        surfaces.append((name, public_names(module), sorted(lacks or ())))
    return surfaces


def cudf_surfaces() -> list[tuple[str, list[str], list[str]]]:
    """Return cuDF's classes with the public names that the stand-in has and lacks."""
    cudf = importlib.import_module("cudf")
    names = importlib.import_module("cudf._names")
    accessors = importlib.import_module("cudf._accessors")
    groupby = importlib.import_module("cudf._groupby")

    def of_accessor(cls) -> set[str]:
        return set(cls._methods | cls._properties) | {
            name for name in vars(cls) if not name.startswith("_")
        }

    has = {
        "cudf": (set(cudf.__all__), names.MODULE),
        "cudf.Series": (set(dir(cudf.Series)) | {"name"}, names.SERIES),
        "cudf.Series.str": (of_accessor(accessors.StringMethods), names.STR),
        "cudf.Series.dt": (of_accessor(accessors.DatetimeProperties), names.DT),
        "cudf.Series.cat": (of_accessor(accessors.CategoricalAccessor), names.CAT),
        "cudf.DataFrame": (set(dir(cudf.DataFrame)), names.DATAFRAME),
        "cudf.DataFrame.groupby(...)": (
            set(groupby.METHODS) | set(dir(groupby.GroupBy)),
            names.GROUPBY,
        ),
        "cudf.Index": (set(dir(cudf.Index)) | set(dir(cudf.MultiIndex)), names.INDEX),
    }
    return [
        (name, sorted(mine & theirs), sorted(theirs - mine)) for name, (mine, theirs) in has.items()
    ]


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of ``module``, without names imported from other packages."""
    listed = getattr(module, "__all__", None)
    if listed is not None and module.__name__ != "cupy":  # cupy has more names than __all__
        return sorted(listed)
    return sorted(
        name
        for name in {*dir(module), *(listed or ())}
        if not name.startswith("_")
        and name not in ("annotations", "namespace", "namespaces")
        and _belongs(getattr(module, name, None), module.__name__.partition(".")[0])
    )


def _belongs(value: object, package: str) -> bool:
    home = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    if inspect.isclass(value) and issubclass(value, np.generic):
        return True  # CuPy's dtypes are also NumPy's
    return not isinstance(home, str) or home.partition(".")[0] in (package, "virtualgpu", "numpy")


def _names(surface: tuple[str, list[str], list[str]]) -> str:
    name, has, lacks = surface
    lines = [
        f"<details><summary><code>{name}</code>: {many(len(has), 'name')}"
        + (f", {len(lacks)} missing" if lacks else "")
        + "</summary>",
        "",
    ]
    for word, some in (("Has", has), ("Lacks", lacks)):
        if some:
            lines += [textwrap.fill(f"**{word}** " + " ".join(f"`{one}`" for one in some), 99), ""]
    return "\n".join([*lines, "</details>\n"])


def _table(differences) -> str:
    lines = ["| subject | in the original | here | test |", "|---|---|---|---|"]
    for one in differences:
        lines.append(f"| {one.what} | {one.original} | {one.here} | `{one.test}` |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m lab.pages.standins_page docs/standins.md")
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
