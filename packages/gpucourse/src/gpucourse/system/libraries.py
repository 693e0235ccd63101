"""Which packages are installed, and where CUDA's libraries are."""

from __future__ import annotations

from importlib import metadata


def version(package: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def find_compiler(name: str) -> str | None:
    """Where the CUDA library ``name`` (nvvm, nvrtc, cudart) is loaded from, or None."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return load_nvidia_dynamic_lib(name).abs_path
    except DynamicLibNotFoundError:
        return None
