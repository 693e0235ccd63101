"""``cupyx.scipy.fft``: Fourier, sine and cosine transforms, by SciPy."""

from __future__ import annotations

import scipy.fft

from ._routines import absent, functions

_NAMES = """
dct dctn dst dstn fft fft2 fftfreq fftn fftshift fht hfft hfft2 hfftn idct idctn idst idstn ifft
ifft2 ifftn ifftshift ifht ihfft ihfft2 ihfftn irfft irfft2 irfftn next_fast_len rfft rfft2
rfftfreq rfftn
"""
LACKING = {"get_fft_plan": "the transforms without a plan, which give the same"}

_FUNCTIONS = functions(_NAMES, scipy.fft, "cupyx.scipy.fft", first_on_device=True)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent("cupyx.scipy.fft", LACKING, "scipy.fft")
