"""``cupy.fft``: NumPy's transforms, in place of cuFFT's; equal up to rounding."""

from __future__ import annotations

import numpy as np

from .._routines import table
from .._table import FFT

FUNCTIONS = table(FFT, np.fft, "cupy.fft")
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, "the transforms with their defaults: there are no plans")
