"""PyCUDA over whatever ``cupy`` answers: the stand-in without a GPU, CuPy where there is one.

The modules are those of PyCUDA 2026: ``driver``, ``autoinit``, ``compiler``, ``gpuarray``,
``cumath``, ``elementwise``, ``reduction``, ``scan``, ``curandom``, ``tools``. Sources go through
NVRTC where PyCUDA calls nvcc. Without a GPU kernels are the virtual GPU's, so that
``virtualgpu.check()`` and ``virtualgpu.profile()`` see them, and no time is ever reported: they
are NaN. On a GPU without PyCUDA (Colab, most hubs) the same package runs on CuPy.
"""

from __future__ import annotations

from gpustandins import only_as

only_as("pycuda", __name__)

NOTE = (
    "PyCUDA is not installed here. CUDA C++ through pycuda.compiler and pycuda.driver runs all the "
    "same, compiled by NVRTC through CuPy; for all of PyCUDA: pip install pycuda (it needs g++ and "
    "the CUDA toolkit's headers), then restart the kernel"
)

try:
    import cupy as _cupy
except ImportError as _error:
    raise ImportError(
        f"{NOTE}. CuPy is not installed either: pip install cupy-cuda12x, or "
        "cupy-cuda13x for a CUDA 13 driver"
    ) from _error

#: True where CuPy's stand-in answers, so that kernels run on the virtual GPU.
VIRTUAL = _cupy.__version__.endswith("+virtualgpu")
VERSION = (2026, 1)
VERSION_STATUS = "+virtualgpu" if VIRTUAL else "+cupy"
VERSION_TEXT = f"2026.1{VERSION_STATUS}"

if not VIRTUAL:
    print(NOTE)
