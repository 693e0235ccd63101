"""``cupyx.scipy.fftpack``: Fourier transforms in FFTPACK's order, computed with SciPy."""

from __future__ import annotations

import scipy.fftpack

from ._routines import absent
from .fft import get_fft_plan, with_plans

_FUNCTIONS = with_plans(
    "fft fft2 fftn ifft ifft2 ifftn irfft rfft", scipy.fftpack, "cupyx.scipy.fftpack", packed=True
)
globals().update(_FUNCTIONS)
__all__ = [*_FUNCTIONS, "get_fft_plan"]
__getattr__ = absent("cupyx.scipy.fftpack", (), "scipy.fftpack")
