"""PyCUDA on a machine that has a GPU and CuPy but no PyCUDA (Colab, most hubs).

PyCUDA is distributed only as source and is built with g++ and the machine's CUDA headers. If it is
missing, ``import pycuda`` prints how to install it and imports PyCUDA from gpustandins instead.
This stand-in runs on CuPy, and so on the GPU here. An installed PyCUDA always takes precedence.

The tests run it with CuPy's stand-in. It has not been tried on a GPU yet.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec


class _PyCUDAFinder(MetaPathFinder):
    """Finder for ``pycuda`` among the stand-ins, used after all other finders."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != "pycuda":
            return None  # its submodules are found through the package's own path
        standins = find_spec("gpustandins")
        folders = standins.submodule_search_locations if standins else None
        return PathFinder.find_spec(name, list(folders or ()))


def offer() -> None:
    """Let ``import pycuda`` find the stand-in if PyCUDA is not installed.

    This is for machines with a GPU. A second call changes nothing.
    """
    if not any(isinstance(finder, _PyCUDAFinder) for finder in sys.meta_path):
        sys.meta_path.append(_PyCUDAFinder())  # last, so that an installed PyCUDA is found before


def withdraw() -> None:
    """Undo :func:`offer`."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _PyCUDAFinder)]
