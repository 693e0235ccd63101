"""``cupyx.jit``: not here. ``numba.cuda`` compiles Python kernels, and for CuPy's arrays too."""

from __future__ import annotations

from cupy._missing import missing

_INSTEAD = ("@numba.cuda.jit, whose kernels take CuPy arrays as they are, or cupy.RawKernel with "
            "CUDA C++")


def rawkernel(*, mode: str = "cuda", device: bool = False):
    """Raises NotImplementedError: ``@numba.cuda.jit`` does what this does."""
    raise missing("cupyx.jit", "rawkernel", _INSTEAD)


def __getattr__(name: str):
    raise missing("cupyx.jit", name, _INSTEAD)
