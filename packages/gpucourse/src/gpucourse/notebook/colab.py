"""Google Colab: installation of missing packages, and differences from Jupyter.

All differences of Colab are handled here. Colab installs hundreds of packages, and its front end
works only with its own versions of Jupyter's parts. So :func:`set_up` installs what is missing,
replaces packages that are too old for the course (Numba and its CUDA target), and pins all others
to their installed versions. The new versions are those of ``requirements/base.txt``, with which
the course is tested.

``python -m lab.trials.colab`` tries this on Colab's package versions, without Colab and without a
GPU.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gpucourse.system.errors import CourseError
from gpucourse.system.libraries import version

#: Packages that run the notebook on Colab. Colab's own package needs its versions of them, and
#: these versions also have everything that the course uses.
KEPT = frozenset({"ipykernel", "ipython", "nbclient", "nbformat", "psutil", "traitlets"})
#: Packages for writing lessons, for classes and for JupyterLab, which are not used on Colab.
NOT_NEEDED = frozenset({"jupyterlab", "jupytext", "markdown-it-py", "mdit-py-plugins", "nbgrader"})
#: Packages that are replaced together with the package that needs them.
COMPANIONS = frozenset({"cuda-core", "cuda-pathfinder", "llvmlite"})

_NO_GPU = (
    "This runtime has no GPU, so kernels will run on the virtual GPU. To get a GPU, choose "
    "Runtime › Change runtime type › T4 GPU › Save, then run this cell again."
)
_RESTART = (
    "Another version of {} was imported before. Choose Runtime › Restart session, then run "
    "the notebook from the top."
)
_FAILED = (
    "pip could not install what the course needs. Choose Runtime › Disconnect and delete runtime "
    "to get a fresh machine, then run this cell again. pip said:\n{}"
)


class SetUpFailed(CourseError):
    """Something could not be installed; the message says what to do."""


def set_up() -> None:
    """Install what is missing on Colab, and print whether there is a GPU.

    Outside Colab this does nothing. Raises :class:`SetUpFailed` with pip's last lines.
    """
    if not on_colab():
        print("This is not Google Colab, so there is nothing to set up.")
        return
    from gpucourse.course.checkout import own_checkout
    from gpucourse.course.projects import editable

    root = own_checkout()
    assert root is not None
    start = time.monotonic()
    wanted = missing(root)
    stale = imported(wanted)
    if wanted:
        _install(wanted, constraints(root, wanted))
    if not _is_installed(root):
        # The command gpucourse, for cells that call it with an exclamation mark.
        _pip("--no-deps", *editable(root))
    if wanted:
        names = ", ".join(f"{name} {version(name)}" for name in sorted(wanted))
        print(f"Installed {names} ({time.monotonic() - start:.0f} s)")
    else:
        print("Everything that the course needs is installed.")
    if stale:
        print(_RESTART.format(" and ".join(stale)))
    from gpucourse.system.device import device

    if device().virtual:
        print(_NO_GPU)


def on_colab() -> bool:
    """Return True if this kernel belongs to Colab, whose kernels import its package."""
    return "google.colab" in sys.modules


def missing(root: Path) -> dict[str, str]:
    """Return the packages to install: a pinned requirement for each name.

    These are the course's requirements whose installed version does not fit, except for packages
    that Colab keeps or does not need. The compilers are included if their libraries are not found.
    """
    from packaging.utils import canonicalize_name

    from gpucourse.system import libraries

    pins = _pins(root)
    found: dict[str, str] = {}
    for requirement in _requirements(root):
        name = canonicalize_name(requirement.name)
        if name in KEPT | NOT_NEEDED:
            continue
        here = version(name)
        fits = here is not None and requirement.specifier.contains(here, prereleases=True)
        if fits and name == "cuda-toolkit":
            complete = all(map(libraries.find_compiler, ("nvvm", "nvrtc", "cudart")))
        else:
            complete = fits
        if not complete:
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            found[name] = f"{requirement.name}{extras}=={here if fits else pins[name]}"
    return found


def constraints(root: Path, wanted: Iterable[str]) -> list[str]:
    """Return pip's constraints: installed versions, and the lock's for new packages."""
    from packaging.utils import canonicalize_name

    free = {*wanted, *COMPANIONS}
    installed: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        if name := distribution.metadata["Name"]:
            installed.setdefault(canonicalize_name(name), distribution.version)
    lines = [f"{name}=={version}" for name, version in installed.items() if name not in free]
    lines += [
        f"{name}=={version}"
        for name, version in _pins(root).items()
        if name not in installed or name in free
    ]
    return sorted(lines)


def imported(wanted: Iterable[str]) -> list[str]:
    """Return the packages to replace that this kernel has imported already."""
    modules = {"numba": "numba", "numba-cuda": "numba.cuda", "cuda-bindings": "cuda.bindings"}
    return [
        name for name in sorted(wanted) if modules.get(name, name) in sys.modules and version(name)
    ]


def name_cells(compiler: Any) -> None:
    """Name the code of cells by their number in IPython 7, as IPython 8 does.

    Colab keeps IPython 7. This adds ``format_code_name(filename)`` to the shell's compiler if it
    is missing.
    """
    if hasattr(compiler, "format_code_name"):
        return
    numbers: dict[str, int] = {}
    cache = compiler.cache

    def remember(transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        name = cache(transformed_code, number, raw_code)
        numbers[name] = number
        return name

    def format_code_name(name: str) -> tuple[str, str] | None:
        return ("Cell", f"In[{numbers[name]}]") if name in numbers else None

    compiler.cache = remember
    compiler.format_code_name = format_code_name


def _requirements(root: Path) -> Iterator:
    """Yield the requirements of the course's packages that apply to this machine."""
    from packaging.requirements import Requirement

    from gpucourse.course.projects import read_projects

    for text in read_projects(root).dependencies:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            yield requirement


def _pins(root: Path) -> dict[str, str]:
    """Return the versions in the course's lock for this machine, by package name."""
    from gpucourse.course.locks import read_lock

    pins = {}
    for pin in read_lock((root / "requirements" / "base.txt").read_text(encoding="utf-8")):
        if pin.requirement.marker is None or pin.requirement.marker.evaluate():
            (one,) = pin.requirement.specifier
            pins[pin.name] = one.version
    return pins


def _install(wanted: dict[str, str], lines: list[str]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines))
        file.flush()
        _pip("--constraint", file.name, *wanted.values())


def _pip(*words: str) -> None:
    """Run pip quietly, without its warnings about packages that the course does not import."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        *words,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    importlib.invalidate_caches()
    if done.returncode:
        raise SetUpFailed(_FAILED.format("\n".join(done.stderr.strip().splitlines()[-6:])))


def _is_installed(root: Path) -> bool:
    try:
        location = importlib.metadata.distribution("gpucourse").read_text("direct_url.json") or ""
    except importlib.metadata.PackageNotFoundError:
        return False
    return root.as_uri() in location
