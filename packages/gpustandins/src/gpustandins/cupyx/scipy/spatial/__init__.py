"""``cupyx.scipy.spatial``: distances and nearest neighbours, computed with SciPy's routines."""

from __future__ import annotations

import scipy.spatial

from .._routines import absent, classes, functions
from . import distance

_WHERE = "cupyx.scipy.spatial"
_FUNCTIONS = {
    **classes("Delaunay KDTree", scipy.spatial, _WHERE),
    **functions("distance_matrix", scipy.spatial, _WHERE, first_on_device=True),
}
globals().update(_FUNCTIONS)
__all__ = ["distance", *_FUNCTIONS]
__getattr__ = absent(_WHERE, (), "scipy.spatial")
