"""PyCUDA on a machine that has a GPU and CuPy but no PyCUDA (Colab, most hubs).

PyCUDA is source only: it builds against the machine's CUDA headers with g++. Where it is missing,
``import pycuda`` says how to install it and finds gpustandins' PyCUDA instead, which runs on
whatever ``cupy`` answers, so here on the GPU. An installed PyCUDA always comes first.

The tests run it on CuPy's stand-in; it has not been tried on a GPU yet.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec


class _PyCUDAFinder(MetaPathFinder):
    """Finds ``pycuda`` among the stand-ins when no other finder has."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != "pycuda":
            return None  # its modules are found by the package's own path
        standins = find_spec("gpustandins")
        folders = standins.submodule_search_locations if standins else None
        return PathFinder.find_spec(name, list(folders or ()))


def offer() -> None:
    """Let ``import pycuda`` find the stand-ins' where there is no other.

    Call it where there is a GPU. Doing it twice changes nothing.
    """
    if not any(isinstance(finder, _PyCUDAFinder) for finder in sys.meta_path):
        sys.meta_path.append(_PyCUDAFinder())  # last: an installed PyCUDA is found before


def withdraw() -> None:
    """Undo :func:`offer`."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _PyCUDAFinder)]
