"""Virtual GPU: executes the PTX of CUDA kernels on the CPU, warp by warp, under checkers.

>>> import virtualgpu
>>> virtualgpu.activate()              # numba.cuda now works without a GPU
>>> with virtualgpu.check() as report: # races, bad addresses, barriers, uninitialised reads
...     kernel[blocks, threads](a, b)
>>> report.ok, report.findings

The real compilers (NVVM, NVRTC) compile the kernels, and this package executes the PTX that they
generate. Its device is named "Virtual GPU (CPU)". It never reports a CPU time as a GPU time.
"""

from __future__ import annotations

from virtualgpu.lazy_names import attach

__version__ = "0.1.0"

# The names are listed in __init__.pyi and imported on first use, so that ``import virtualgpu``
# alone takes a few milliseconds.
__getattr__, __dir__, __all__ = attach(globals())
