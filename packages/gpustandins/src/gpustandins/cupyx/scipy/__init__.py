"""``cupyx.scipy``: SciPy's functions on arrays of the device, as far as CuPy has them.

SciPy does the work on views of the device's memory; results lie on the device. Values agree with
CuPy's up to rounding. Functions that CuPy has and this module lacks (generic filters, which
compile a kernel) raise NotImplementedError with the name.
"""

from __future__ import annotations

import importlib

try:
    import scipy as _scipy
except ImportError as _error:
    raise ImportError(
        "there is no GPU here, so the stand-in for cupyx.scipy answers, and it works on SciPy: "
        "pip install scipy"
    ) from _error

from cupy import get_array_module as _get_array_module

_MODULES = ("fft fftpack interpolate linalg ndimage signal sparse spatial special stats").split()
#: What CuPy has here and the stand-in lacks: name → what to use.
MISSING = {
    "integrate": "scipy.integrate on x.get()",
    "optimize": "scipy.optimize",
}

__all__ = [*_MODULES, "get_array_module"]


def get_array_module(*args):
    """Return ``cupyx.scipy`` if an argument lies on the device, else ``scipy``."""
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
