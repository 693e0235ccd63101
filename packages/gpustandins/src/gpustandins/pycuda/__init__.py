"""PyCUDA on top of ``cupy``: CuPy's stand-in without a GPU, real CuPy with one.

The modules are those of PyCUDA 2026: ``driver``, ``autoinit``, ``compiler``, ``gpuarray``,
``cumath``, ``elementwise``, ``reduction``, ``scan``, ``curandom``, ``tools``. NVRTC compiles the
sources for which PyCUDA calls nvcc. Without a GPU, the kernels run on the virtual GPU, so
``virtualgpu.check()`` and ``virtualgpu.profile()`` cover them, and all reported times are NaN. On
a machine with a GPU but without PyCUDA (Colab, most hubs), the same package runs on CuPy.
"""

from __future__ import annotations

from gpustandins import only_as

only_as("pycuda", __name__)

NOTE = (
    "PyCUDA is not installed here. CUDA C++ through pycuda.compiler and pycuda.driver still works, "
    "because CuPy compiles it with NVRTC. To get all of PyCUDA, run `pip install pycuda` (it needs "
    "g++ and the CUDA toolkit's headers), then restart the kernel"
)

try:
    import cupy as _cupy
except ImportError as _error:
    raise ImportError(
        f"{NOTE}. CuPy is not installed either: pip install cupy-cuda12x, or "
        "cupy-cuda13x for a CUDA 13 driver"
    ) from _error

#: True if CuPy's stand-in is used, so that kernels run on the virtual GPU.
VIRTUAL = _cupy.__version__.endswith("+virtualgpu")
VERSION = (2026, 1)
VERSION_STATUS = "+virtualgpu" if VIRTUAL else "+cupy"
VERSION_TEXT = f"2026.1{VERSION_STATUS}"

if not VIRTUAL:
    print(NOTE)
