"""PyCUDA's basic calls on a machine that has a GPU and CuPy but no PyCUDA (Colab, most hubs).

PyCUDA is source only: it builds against the machine's CUDA headers with g++. Where it is missing,
``import pycuda`` says how to install it and finds the package in this folder instead: CUDA C++
goes through NVRTC and runs on the GPU, by CuPy's RawModule. An installed PyCUDA always comes first.

There are two PyCUDAs, this one and virtualgpu's stand-in, because the stand-in works on
virtualgpu's modules and memory, which answer where there is no GPU, and this one on CuPy's, which
have the GPU's.

The tests run it on CuPy's stand-in, and the same cases on both; it has not been tried on a GPU yet.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

NOTE = (
    "PyCUDA is not installed here. CUDA C++ through pycuda.compiler and pycuda.driver runs all the "
    "same, compiled by NVRTC through CuPy; for all of PyCUDA: pip install pycuda (it needs g++ and "
    "the CUDA toolkit's headers), then restart the kernel"
)


class _PyCUDAFinder(MetaPathFinder):
    """Finds ``pycuda`` here when no other finder has."""

    def find_spec(self, name, path=None, target=None) -> ModuleSpec | None:
        if name != "pycuda":
            return None  # its modules are found by the package's own path
        return PathFinder.find_spec(name, [str(Path(__file__).parent)])


def offer() -> None:
    """Let ``import pycuda`` find this package where there is no PyCUDA.

    Call it where there is a GPU. Doing it twice changes nothing.
    """
    if not any(isinstance(finder, _PyCUDAFinder) for finder in sys.meta_path):
        sys.meta_path.append(_PyCUDAFinder())  # last: an installed PyCUDA is found before


def withdraw() -> None:
    """Undo :func:`offer`."""
    sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _PyCUDAFinder)]
