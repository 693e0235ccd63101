"""``cupyx.scipy.stats``: a few statistics, computed with SciPy's routines."""

from __future__ import annotations

import scipy.stats

from ._routines import absent, functions

_NAMES = """
boxcox_llf entropy trim_mean zmap zscore
"""
_LACKING: list[str] = []

_FUNCTIONS = functions(_NAMES, scipy.stats, "cupyx.scipy.stats", first_on_device=True)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent("cupyx.scipy.stats", _LACKING, "scipy.stats")
