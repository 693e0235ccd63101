"""``cupyx.scipy.fftpack``: Fourier transforms in FFTPACK's order of results, by SciPy."""

from __future__ import annotations

import scipy.fftpack

from ._routines import absent, functions
from .fft import LACKING

_NAMES = "fft fft2 fftn ifft ifft2 ifftn irfft rfft"

_FUNCTIONS = functions(_NAMES, scipy.fftpack, "cupyx.scipy.fftpack", first_on_device=True)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent("cupyx.scipy.fftpack", LACKING, "scipy.fftpack")
