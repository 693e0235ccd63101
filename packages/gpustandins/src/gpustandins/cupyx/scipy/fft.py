"""``cupyx.scipy.fft``: Fourier, sine and cosine transforms, computed with SciPy's routines."""

from __future__ import annotations

import inspect

import scipy.fft
from cupy.fft._plans import get_fft_plan, planned

from ._routines import absent, functions

# Transforms that cuFFT computes in CuPy, so they accept a plan.
_FOURIER = """
fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft irfft2 irfftn rfft rfft2
rfftn
"""
_OTHERS = """
dct dctn dst dstn fftfreq fftshift fht idct idctn idst idstn ifftshift ifht next_fast_len rfftfreq
"""


def with_plans(names: str, library, where: str, *, packed: bool = False):
    """Wrap SciPy's transforms `names` for device arrays, with support for cuFFT plans."""
    made = functions(names, library, where, first_on_device=True)
    return {
        name: planned(one, inspect.signature(getattr(library, name)), packed=packed)
        for name, one in made.items()
    }


_FUNCTIONS = {
    **with_plans(_FOURIER, scipy.fft, "cupyx.scipy.fft"),
    **functions(_OTHERS, scipy.fft, "cupyx.scipy.fft", first_on_device=True),
}
globals().update(_FUNCTIONS)
__all__ = [*_FUNCTIONS, "get_fft_plan"]
__getattr__ = absent("cupyx.scipy.fft", (), "scipy.fft")
