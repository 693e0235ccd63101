"""CuPy for machines without a GPU: arrays on the virtual GPU, computed with NumPy.

``import cupy`` finds this package while the virtual GPU is active and the machine has no GPU
(:mod:`gpustandins`). It follows CuPy 14.2: code that fails there fails here with the same message.
NumPy computes array operations, while kernels (``RawKernel``, ``ElementwiseKernel``, ``fuse``,
...) are compiled by NVRTC and run on the virtual GPU. ``virtualgpu.launches()`` lists the kernels
that real CuPy would have launched. ``cupy.show_config()`` prints that this is the stand-in.

It differs from real CuPy in four points:

- No times are measured: events give NaN.
- Random numbers come from NumPy's generators instead of cuRAND's: the numbers differ, the
  distributions are the same.
- Sums, transforms and matrix products are rounded as on the host.
- Every call finishes its work before it returns: nothing overlaps, and a missing synchronisation
  has no effect.
"""

from __future__ import annotations

import sys as _sys

import numpy as _numpy

from gpustandins import only_as as _only_as

_only_as("cupy", __name__)

from . import (  # noqa: E402
    _methods,  # noqa: F401 - gives ndarray its methods
    _package,
    _table,
    cuda,
    exceptions,
    fft,
    lib,
    linalg,
    polynomial,
    random,
    testing,
)
from ._arrays import creation as _creation  # noqa: E402
from ._arrays import objects as _objects  # noqa: E402
from ._arrays import operators as _operators  # noqa: E402
from ._arrays import poly1d as _poly1d  # noqa: E402
from ._arrays import reductions as _reductions  # noqa: E402
from ._arrays import routines as _routines  # noqa: E402
from ._arrays import special as _special  # noqa: E402
from ._arrays import types as _types  # noqa: E402
from ._arrays import ufunc as _ufunc  # noqa: E402
from ._arrays.core import ndarray  # noqa: E402
from ._arrays.poly1d import poly1d  # noqa: E402
from ._arrays.ufunc import ufunc  # noqa: E402
from ._package import (  # noqa: E402
    clear_memo,
    get_array_module,
    get_default_memory_pool,
    get_default_pinned_memory_pool,
    is_available,
    memoize,
    show_config,
)

_package.namespace = _sys.modules[__name__]
ndarray.__module__ = ufunc.__module__ = poly1d.__module__ = "cupy"

#: The CuPy version that the stand-in follows, with a suffix that tells them apart.
__version__ = "14.2.0+virtualgpu"

_FUNCTIONS = _operators.FUNCTIONS
for _part in (_reductions, _poly1d):
    _FUNCTIONS.update(_part.FUNCTIONS)
_FUNCTIONS.update(_ufunc.UFUNCS)
_FUNCTIONS.update(_routines.table(_table.ROUTINES, _numpy, "cupy", _reductions.OWN))
for _part in (_creation, _special, _types, _objects):
    _FUNCTIONS.update({name: getattr(_part, name) for name in _part.__all__})
_FUNCTIONS.update({new: _FUNCTIONS[old] for new, old in _table.SAME.items()})

globals().update(_FUNCTIONS)
globals().update({name: getattr(_numpy, name) for name in _table.BORROWED if hasattr(_numpy, name)})
globals().update({name: getattr(_numpy, of) for name, of in _table.DROPPED.items()})
globals().update({name: getattr(exceptions, name) for name in exceptions.__all__})
NINF, PZERO, NZERO = -_numpy.inf, 0.0, -0.0
format_parser, DataSource = _numpy.rec.format_parser, _numpy.lib.npyio.DataSource

#: Names for user-defined kernels. Their modules are imported on first use because they load the
#: compiler.
_KERNELS = {
    "ElementwiseKernel": "elementwise",
    "ReductionKernel": "reduction",
    "RawKernel": "raw",
    "RawModule": "raw",
    "fuse": "fusion",
}

disable_experimental_feature_warning = False


def __getattr__(name: str):
    import importlib

    if name in _KERNELS:
        value = getattr(importlib.import_module(f"._kernels.{_KERNELS[name]}", __name__), name)
        globals()[name] = value
        return value
    if name == "typing":
        return importlib.import_module(".typing", __name__)
    if name in _table.MISSING:
        from ._missing import missing

        raise missing("cupy", name, _table.MISSING[name])
    if not name.startswith("_") and hasattr(_numpy, name):
        raise AttributeError(
            f"module 'cupy' has no attribute {name!r}: CuPy does not have this part of NumPy; "
            f"numpy.{name} on x.get() does it on the host"
        )
    raise AttributeError(f"module 'cupy' has no attribute {name!r}")


__all__ = [
    *_FUNCTIONS,
    *_KERNELS,
    "clear_memo",
    "cuda",
    "fft",
    "get_array_module",
    "get_default_memory_pool",
    "get_default_pinned_memory_pool",
    "is_available",
    "lib",
    "linalg",
    "memoize",
    "ndarray",
    "poly1d",
    "polynomial",
    "random",
    "show_config",
    "testing",
    "ufunc",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *_KERNELS, "typing"})
