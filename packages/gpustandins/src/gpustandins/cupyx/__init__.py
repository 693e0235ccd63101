"""CuPy's functions without a NumPy counterpart: profiling, scatter, pinned memory."""

from __future__ import annotations

from gpustandins import only_as as _only_as
from virtualgpu.standins.interface import watched as _watched

_only_as("cupyx", __name__)

import cupy as _cupy  # noqa: E402
import numpy as _numpy  # noqa: E402
from cupy._kernels.elementwise import ElementwiseKernel as _ElementwiseKernel  # noqa: E402
from cupy._missing import missing as _missing  # noqa: E402

from ._errors import errstate, geterr, seterr  # noqa: E402

_rsqrt = _ElementwiseKernel("T x", "T y", "y = rsqrt(x)", "cupy_rsqrt")


def rsqrt(x, /, out=None):
    """Return the reciprocal square root of each element; integers become float64."""
    x = _cupy.asarray(x)
    if x.dtype.kind not in "f":
        x = x.astype(_numpy.float64)
    return _rsqrt(x) if out is None else _rsqrt(x, out)


def _scatter(name: str, words: str):
    def scatter(a, slices, value) -> None:
        getattr(_cupy, name).at(a, slices, value)

    scatter.__doc__ = f"Call ``cupy.{name}.at``, which uses atomics: {words}."
    return scatter


scatter_add = _scatter("add", "every repeated index counts")
scatter_max = _scatter("maximum", "each element becomes the largest of itself and its values")
scatter_min = _scatter("minimum", "each element becomes the smallest of itself and its values")


def empty_pinned(shape, dtype=float, order="C") -> _numpy.ndarray:
    """Return an uninitialised host array in page-locked memory.

    A real GPU copies faster from such memory.
    """
    size = int(_numpy.prod(shape)) * _numpy.dtype(dtype).itemsize
    if not size:
        return _numpy.empty(shape, dtype, order)
    memory = _cupy.cuda.alloc_pinned_memory(size)
    flat = _numpy.asarray(memory)[:size].view(dtype)
    return _watched(flat.reshape(shape, order=order))


def zeros_pinned(shape, dtype=float, order="C") -> _numpy.ndarray:
    """Return a page-locked array as :func:`empty_pinned` does, filled with zeros."""
    made = empty_pinned(shape, dtype, order)
    made[...] = 0
    return made


def empty_like_pinned(a, dtype=None, order="K", subok=None, shape=None) -> _numpy.ndarray:
    """Return a page-locked array with the shape and dtype of an array."""
    keeps_f = order == "F" or (
        order in "KA" and a.ndim > 1 and a.flags.f_contiguous and not a.flags.c_contiguous
    )
    return empty_pinned(
        a.shape if shape is None else shape, dtype or a.dtype, "F" if keeps_f else "C"
    )


def zeros_like_pinned(a, dtype=None, order="K", subok=None, shape=None) -> _numpy.ndarray:
    """Return a page-locked array with the shape and dtype of an array, filled with zeros."""
    made = empty_like_pinned(a, dtype, order, subok, shape)
    made[...] = 0
    return made


#: Names that CuPy has and the stand-in lacks, with alternatives.
MISSING = {
    "signal": "cupyx.scipy.signal",
    "GeneralizedUFunc": "cupy.vectorize, or a loop over the last axes",
    "allow_synchronize": "nothing instead, because work is done when a call returns",
    "DeviceSynchronized": "nothing instead, because work is done when a call returns",
    "linalg": "numpy.linalg on x.get()",
    "optimizing": "nothing instead, because there is nothing to tune",
    "distributed": "a single process, because the devices belong to one process",
    "fallback_mode": "cupy.asnumpy and cupy.asarray around the missing function",
    "cusparse": "scipy.sparse on x.get()",
    "cusolver": "cupy.linalg",
    "cutensor": "cupy.einsum",
    "cudnn": "jax on the CPU",
    "lapack": "cupy.linalg",
    "tools": "pip",
    "time": "cupyx.profiler",
}


def __getattr__(name: str):
    import importlib

    if name in ("jit", "profiler", "scipy"):
        return importlib.import_module(f".{name}", __name__)
    if name in MISSING:
        raise _missing("cupyx", name, MISSING[name])
    raise AttributeError(f"module 'cupyx' has no attribute {name!r}")


__all__ = [
    "empty_like_pinned",
    "empty_pinned",
    "errstate",
    "geterr",
    "jit",
    "profiler",
    "rsqrt",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scipy",
    "seterr",
    "zeros_like_pinned",
    "zeros_pinned",
]


def __dir__() -> list[str]:
    return __all__
