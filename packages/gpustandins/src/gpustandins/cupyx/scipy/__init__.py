"""``cupyx.scipy``: SciPy's functions for device arrays, limited to those of CuPy.

SciPy computes on views of the device's memory, and the results are device arrays. Values agree
with CuPy's up to rounding. Functions that CuPy has and this module lacks (generic filters, which
compile a kernel) raise NotImplementedError with the name.
"""

from __future__ import annotations

import importlib

try:
    import scipy as _scipy
except ImportError as _error:
    raise ImportError(
        "this machine has no GPU, so `import cupyx.scipy` finds its stand-in, which needs SciPy: "
        "pip install scipy"
    ) from _error

from cupy import get_array_module as _get_array_module

_MODULES = ("fft fftpack interpolate linalg ndimage signal sparse spatial special stats").split()
#: Names that CuPy has here and the stand-in lacks, with alternatives.
MISSING = {
    "integrate": "scipy.integrate on x.get()",
    "optimize": "scipy.optimize",
}

__all__ = [*_MODULES, "get_array_module"]


def get_array_module(*args):
    """Return ``cupyx.scipy`` if an argument is a device array, else ``scipy``."""
    import sys

    return sys.modules[__name__] if _get_array_module(*args).__name__ == "cupy" else _scipy


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in MISSING:
        from cupy._missing import missing

        raise missing("cupyx.scipy", name, MISSING[name])
    raise AttributeError(f"module 'cupyx.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
