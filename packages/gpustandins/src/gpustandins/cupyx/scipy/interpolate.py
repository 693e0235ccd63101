"""``cupyx.scipy.interpolate``: interpolation, computed with SciPy's routines."""

from __future__ import annotations

import scipy.interpolate

from ._routines import absent, classes, functions

_CLASSES = """
Akima1DInterpolator BPoly BSpline BarycentricInterpolator CloughTocher2DInterpolator
CubicHermiteSpline CubicSpline InterpolatedUnivariateSpline KroghInterpolator LSQUnivariateSpline
LinearNDInterpolator NdBSpline NdPPoly NearestNDInterpolator PPoly PchipInterpolator
RBFInterpolator RegularGridInterpolator UnivariateSpline interp1d
"""
_NAMES = """
barycentric_interpolate interpn krogh_interpolate make_interp_spline make_lsq_spline
pchip_interpolate splantider splder
"""

_WHERE = "cupyx.scipy.interpolate"
_FUNCTIONS = {
    **classes(_CLASSES, scipy.interpolate, _WHERE),
    **functions(_NAMES, scipy.interpolate, _WHERE, first_on_device=False),
}
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent(_WHERE, (), "scipy.interpolate")
