"""PyCUDA for machines without a GPU: CUDA C++ through NVRTC, run on the virtual GPU.

The modules are those of PyCUDA 2026: ``driver``, ``autoinit``, ``compiler``, ``gpuarray``,
``cumath``, ``elementwise``, ``reduction``, ``curandom``, ``tools``. Sources go through NVRTC
where PyCUDA calls nvcc; kernels are the virtual GPU's, so that ``virtualgpu.check()`` and
``virtualgpu.profile()`` see them. No time is ever reported: they are NaN.
"""

from __future__ import annotations

from gpustandins import only_as

only_as("pycuda", __name__)

VERSION = (2026, 1)
VERSION_STATUS = "+virtualgpu"
VERSION_TEXT = "2026.1+virtualgpu"
