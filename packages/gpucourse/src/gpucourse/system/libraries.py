"""Installed packages, and the paths of CUDA's libraries."""

from __future__ import annotations

import importlib.util
from importlib import metadata

from gpucourse.system.language import _

#: Packages that lessons use if they are installed, with the command that installs them.
OPTIONAL = {"torch": ("PyTorch", "pip install torch")}


def absent(package: str) -> str | None:
    """Return the note for a cell that needs one of :data:`OPTIONAL`, or None if it is installed.

    Raises :class:`ValueError` for another package.
    """
    if package not in OPTIONAL:
        known = ", ".join(OPTIONAL)
        raise ValueError(f"%%needs takes one of {known} on its line, not {package!r}")
    if importlib.util.find_spec(package) is not None:
        return None
    name, how = OPTIONAL[package]
    return _(
        "{name} is not installed here, so this cell was not run. To run it: `{how}`, then restart "
        "the kernel."
    ).format(name=name, how=how)


def version(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def find_compiler(name: str) -> str | None:
    """Return the path of CUDA's library ``name`` (nvvm, nvrtc, cudart), or None."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return load_nvidia_dynamic_lib(name).abs_path
    except DynamicLibNotFoundError:
        return None
