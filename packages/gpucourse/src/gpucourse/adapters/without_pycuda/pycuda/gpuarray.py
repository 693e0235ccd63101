"""Arrays on the GPU: CuPy's, which have PyCUDA's ``get``, operators and result types."""

from __future__ import annotations

import cupy

GPUArray = cupy.ndarray
to_gpu = cupy.asarray
arange, concatenate, empty, empty_like = cupy.arange, cupy.concatenate, cupy.empty, cupy.empty_like
ones_like, sum, zeros, zeros_like = cupy.ones_like, cupy.sum, cupy.zeros, cupy.zeros_like
