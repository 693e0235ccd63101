"""Power series, with the coefficient of the lowest degree first: CuPy's part of NumPy's module."""

from __future__ import annotations

from numpy.polynomial import polynomial as _numpy

from .._arrays.routines import table

_LINES = """
polycompanion(c)
polyval(x, c, tensor=True)
polyvalfromroots(x, r, tensor=True)
polyvander(x, deg)
"""

FUNCTIONS = table(_LINES, _numpy, "cupy.polynomial.polynomial")
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)
