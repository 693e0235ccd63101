"""A GPU on the CPU: the PTX of CUDA kernels, run warp by warp and watched.

>>> import virtualgpu
>>> virtualgpu.activate()              # numba.cuda now works without a GPU
>>> with virtualgpu.check() as report: # races, bad addresses, barriers, uninitialised reads
...     kernel[blocks, threads](a, b)
>>> report.ok, report.findings

Kernels are compiled by the real compilers (NVVM, NVRTC); this package executes what they
write. It names itself "Virtual GPU (CPU)" and never reports a time as if it were a GPU's.
"""

from __future__ import annotations

from virtualgpu.lazy_names import attach

__version__ = "0.1.0"

# The names of __init__.pyi: ``import virtualgpu`` alone costs a few milliseconds.
__getattr__, __dir__, __all__ = attach(globals())
