"""Doctor's checks of the interpreter, the packages, and variables that change results."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import site
import sys
from collections.abc import Iterator
from pathlib import Path

from gpucourse.course.checkout import NotInTheCourse, course_folder
from gpucourse.course.projects import COURSE, editable
from gpucourse.doctor.finding import FAIL, OK, WARN, Finding, install, reinstall
from gpucourse.system.libraries import version

#: Modules that must come from this environment; errors from other copies are misleading.
MODULES = (
    "IPython",
    "awkward",
    "ipykernel",
    "jax",
    "jaxlib",
    "jupyterlab",
    "matplotlib",
    "nbgrader",
    "numba",
    "numba_cuda",
    "numpy",
    "pandas",
    "uproot",
)
#: Variables that change the course's results, with the effect; "" and "0" switch them off.
VARIABLES = {
    "NUMBA_ENABLE_CUDASIM": "selects Numba's own simulator, which has no PTX and no checker and "
    "does not report races. The virtual GPU is used instead, with a warning",
    "NUMBA_DISABLE_JIT": "Numba compiles nothing, not even kernels",
    "JAX_DISABLE_JIT": "JAX compiles nothing, so the results of its lessons differ from their text",
    "PYTHONOPTIMIZE": "Python skips every `assert`, including the checks in your code",
}


def python_and_system() -> Iterator[Finding]:
    """Check the interpreter and the operating system."""
    group = "Python"
    supported = (3, 11) <= sys.version_info < (3, 14)
    yield Finding(
        group,
        "Python",
        OK if supported else FAIL,
        f"{platform.python_version()} ({sys.executable})",
        None
        if supported
        else "use Python 3.11, 3.12 or 3.13. `rm -rf .venv && make setup` uses an installed "
        "one, or downloads one. Without make, create .venv again with one of them",
    )
    if sys.platform == "darwin":
        yield Finding(
            group,
            "system",
            FAIL,
            "macOS. It has no CUDA compilers, so no kernel can be compiled",
            "run the course in its container, on Binder or on Colab (README, “macOS”)",
        )
    else:
        yield Finding(group, "system", OK, platform.platform(terse=True))


def packages() -> Iterator[Finding]:
    """Compare each requirement of the three packages with the installed version."""
    from packaging.requirements import Requirement

    fine = []
    for owner, needy in (
        ("gpucourse", "the course"),
        ("gpustandins", "a stand-in"),
        ("virtualgpu", "the virtual GPU"),
    ):
        try:
            texts = importlib.metadata.requires(owner) or []
        except importlib.metadata.PackageNotFoundError:
            yield Finding("packages", owner, FAIL, "not installed", reinstall())
            continue
        for requirement in map(Requirement, texts):
            # The course needs no other extra than the stand-in for cuDF.
            if requirement.marker and not requirement.marker.evaluate({"extra": "cudf"}):
                continue
            wanted = f"{requirement.name}{requirement.specifier}"
            mend = f"{install('--upgrade', wanted)}   (or reinstall everything with {reinstall()})"
            here = version(requirement.name)
            if here is None:
                found = f"not installed, and {needy} needs it"
                yield Finding("packages", requirement.name, FAIL, found, mend)
            elif requirement.specifier.contains(here, prereleases=True):
                fine.append(f"{requirement.name} {here}")
            else:
                found = f"{here}, but {needy} needs {requirement.specifier}"
                yield Finding("packages", requirement.name, FAIL, found, mend)
    yield Finding(
        "packages", f"{len(set(fine))} with the right version", OK, ", ".join(sorted(set(fine)))
    )


def strangers() -> Iterator[Finding]:
    """Report modules that Python imports from outside this environment."""
    group, clean = "packages", True
    for name in MODULES:
        origin = _origin(name)
        if origin is None or _is_at_home(origin):
            continue
        clean = False
        found = f"is imported from {origin.parent.parent}, not from this environment"
        yield Finding(group, name, FAIL, found, _send_home(origin))
    for hider, name in _hiding_files():
        clean = False
        whose = "Python's own" if name in sys.stdlib_module_names else "the installed"
        found = f"hides {whose} module {name} from the notebooks in the same folder"
        yield Finding(group, hider, FAIL, found, "rename it and restart the kernels")
    ours, checkout = _origin("gpucourse"), _checkout()
    if ours and checkout and not ours.is_relative_to(checkout) and not _is_at_home(ours):
        clean = False
        found = f"is imported from another copy of the course, {ours.parent.parent}"
        yield Finding(group, "gpucourse", WARN, found, install("--no-deps", *editable(checkout)))
    if clean:
        yield Finding(group, "locations", OK, f"all in {sys.prefix}")


def variables() -> Iterator[Finding]:
    """Report environment variables that change the results of the course."""
    group, name = "Python", "variables"
    disturbing = [key for key in VARIABLES if os.environ.get(key, "") not in ("", "0")]
    for key in disturbing:
        found = f"{key}={os.environ[key]}: {VARIABLES[key]}"
        yield Finding(group, name, FAIL, found, f"unset {key}, and start Jupyter again")
    if not disturbing:
        yield Finding(group, name, OK, "none that changes the results of the course")


def _origin(name: str) -> Path | None:
    """Return the file that ``import name`` would read, without importing it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).absolute() if spec and spec.origin else None


def _is_at_home(origin: Path) -> bool:
    """Return True if a file is in this environment, or in one that it includes."""
    homes = {sys.prefix}
    settings = Path(sys.prefix, "pyvenv.cfg")
    if settings.is_file() and "system-site-packages = true" in settings.read_text():
        homes.add(sys.base_prefix)
    return any(
        origin.is_relative_to(place) for home in homes for place in (home, Path(home).resolve())
    )


def _send_home(origin: Path) -> str:
    if origin.is_relative_to(site.getusersitepackages()):
        return (
            "export PYTHONNOUSERSITE=1 before you start Jupyter, or uninstall it there with "
            f"{Path(sys.executable).name} -m pip uninstall {origin.parent.name}"
        )
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if origin.is_relative_to(Path(entry).absolute()):
            return "unset PYTHONPATH, and start Jupyter again"
    return (
        f"remove {origin.parent.parent} from Python's path (look for a .pth file), or "
        f"run {reinstall()}"
    )


def _checkout() -> Path | None:
    try:
        root = course_folder()
    except NotInTheCourse:
        return None
    return root if (root / COURSE.parent / "src").is_dir() else None


def _hiding_files() -> Iterator[tuple[str, str]]:
    """Yield (file, module) for files beside notebooks that hide a module of the same name."""
    try:
        root = course_folder()
    except NotInTheCourse:
        return
    known = {
        *sys.stdlib_module_names,
        *MODULES,
        "cuda",
        "cupy",
        "cudf",
        "pycuda",
        "gpucourse",
        "gpustandins",
        "virtualgpu",
    }
    folders = [root, root / "lectures", *(root / "projects").glob("*/"), root / "solutions"]
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            if path.stem in known:
                yield path.relative_to(root).as_posix(), path.stem
