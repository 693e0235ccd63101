"""``cupy.fft``: Fourier transforms computed with NumPy; equal to cuFFT's up to rounding."""

from __future__ import annotations

import importlib

import numpy as np

from .._arrays.routines import table
from .._table import FFT
from ._plans import planned

FUNCTIONS = {
    name: function
    if name.endswith(("freq", "shift"))
    else planned(function, function.__signature__)
    for name, function in table(FFT, np.fft, "cupy.fft").items()
}
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)


def __getattr__(name: str):
    if name == "config":
        return importlib.import_module("cupy.fft.config")
    from .._missing import missing

    raise missing(__name__, name, "the transforms with their defaults")
