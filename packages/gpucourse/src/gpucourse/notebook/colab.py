"""Google Colab: installation of missing packages, and differences from Jupyter.

Every difference of Colab is dealt with here. Colab comes with hundreds of packages of its own
choice; its front end works with its own versions of Jupyter's parts alone. So :func:`set_up`
installs what is missing, replaces what is too old for the course (Numba and its CUDA target), and
holds everything else where it is. The versions are those of ``requirements/base.txt``, with which
the course is tested.

Tried on Colab's versions of packages, without Colab and without a GPU (``python -m
lab.trials.colab``).
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

#: What runs the notebook there. Colab's own package needs them as they are; what the course uses
#: of them is in those versions too.
KEPT = frozenset({"ipykernel", "ipython", "nbclient", "nbformat", "psutil", "traitlets"})
#: For writing lessons, for classes and for JupyterLab: nothing of it is used on Colab.
NOT_NEEDED = frozenset({"jupyterlab", "jupytext", "markdown-it-py", "mdit-py-plugins", "nbgrader"})
#: Parts of a replaced package that go with it.
COMPANIONS = frozenset({"cuda-core", "cuda-pathfinder", "llvmlite"})

_NO_GPU = (
    "This runtime has no GPU, so kernels will run on the virtual GPU. For a GPU: Runtime › Change "
    "runtime type › T4 GPU › Save, then run this cell again."
)
_RESTART = (
    "{} had been imported before in another version: Runtime › Restart session, then run the "
    "notebook from the top."
)
_FAILED = (
    "pip could not install what the course needs. Choose Runtime › Disconnect and delete runtime "
    "to get a fresh machine, then run this cell again. pip said:\n{}"
)


class SetUpFailed(CourseError):
    """Something could not be installed; the message says what to do."""


def set_up() -> None:
    """Install what is missing on Colab, and say whether there is a GPU. Nothing anywhere else.

    Raises :class:`SetUpFailed` with pip's last lines.
    """
    if not on_colab():
        print("This is not Google Colab: nothing to set up.")
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
        # The command gpucourse, for cells that begin with an exclamation mark.
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
    """Return True if this kernel is one of Colab's: they have imported their package."""
    return "google.colab" in sys.modules


def missing(root: Path) -> dict[str, str]:
    """Return the packages to install, by name: the requirement with the lock's version.

    That is every requirement of the course, less what Colab keeps and what is not needed there,
    whose installed version does not fit; and the compilers where their libraries are not found.
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
    """Return pip's constraints: installed versions stay, new ones are the lock's."""
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
    """Return the packages to be replaced that this kernel has imported already."""
    modules = {"numba": "numba", "numba-cuda": "numba.cuda", "cuda-bindings": "cuda.bindings"}
    return [
        name for name in sorted(wanted) if modules.get(name, name) in sys.modules and version(name)
    ]


def name_cells(compiler: Any) -> None:
    """Give cells' code its number in IPython 7, which Colab keeps, as IPython 8 does.

    Adds ``format_code_name(filename)`` to a shell's compiler where it lacks it.
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
    """Yield the requirements of the packages that hold on this machine."""
    from packaging.requirements import Requirement

    from gpucourse.course.projects import read_projects

    for text in read_projects(root).dependencies:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            yield requirement


def _pins(root: Path) -> dict[str, str]:
    """Return name → version in the course's lock, for this machine."""
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
    """Run pip, leaving out its complaints about packages that the course does not import."""
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
