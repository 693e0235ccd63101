"""``cupyx.scipy.spatial.distance``: distances of points, computed with SciPy's routines."""

from __future__ import annotations

import scipy.spatial.distance

from .._routines import absent, functions

_NAMES = """
canberra cdist chebyshev cityblock correlation cosine euclidean hamming jensenshannon minkowski
pdist russellrao sqeuclidean
"""
_LACKING = ["hellinger", "kl_divergence"]

_WHERE = "cupyx.scipy.spatial.distance"
_FUNCTIONS = functions(_NAMES, scipy.spatial.distance, _WHERE, first_on_device=True)
_FUNCTIONS |= functions("distance_matrix", scipy.spatial, _WHERE, first_on_device=True)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent(_WHERE, _LACKING, "scipy.spatial.distance")
