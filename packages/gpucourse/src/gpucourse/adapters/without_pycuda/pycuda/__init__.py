"""PyCUDA's basic calls on CuPy: see :mod:`gpucourse.adapters.without_pycuda`."""

from __future__ import annotations

from gpucourse.adapters.without_pycuda import NOTE

try:
    import cupy as _cupy  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"{NOTE}. CuPy is not installed either: pip install cupy-cuda12x, or "
        "cupy-cuda13x for a CUDA 13 driver"
    ) from _error

VERSION = (2026, 1)
VERSION_TEXT = "2026.1 (basic calls on CuPy)"

print(NOTE)
