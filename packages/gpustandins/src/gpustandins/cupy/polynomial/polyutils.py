"""Utilities for lists of polynomial coefficients."""

from __future__ import annotations

from numpy.polynomial import polyutils as _numpy

from .._arrays.routines import table

FUNCTIONS = table(
    "trimseq(seq)\nas_series(alist, trim=True)\ntrimcoef(c, tol=0)",
    _numpy,
    "cupy.polynomial.polyutils",
)
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)
