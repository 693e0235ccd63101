"""Where CUDA's libraries are."""

from __future__ import annotations


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
