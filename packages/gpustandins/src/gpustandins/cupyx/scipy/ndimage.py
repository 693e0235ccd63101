"""``cupyx.scipy.ndimage``: image filters and measurements, computed with SciPy's routines."""

from __future__ import annotations

import scipy.ndimage

from ._routines import absent, functions

_NAMES = """
affine_transform binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss
binary_opening binary_propagation black_tophat center_of_mass convolve convolve1d correlate
correlate1d distance_transform_edt extrema fourier_ellipsoid fourier_gaussian fourier_shift
fourier_uniform gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace
generate_binary_structure generic_gradient_magnitude generic_laplace grey_closing grey_dilation
grey_erosion grey_opening histogram iterate_structure label laplace map_coordinates maximum
maximum_filter maximum_filter1d maximum_position mean median median_filter minimum minimum_filter
minimum_filter1d minimum_position morphological_gradient morphological_laplace percentile_filter
prewitt rank_filter rotate shift sobel spline_filter spline_filter1d standard_deviation sum
sum_labels uniform_filter uniform_filter1d value_indices variance white_tophat zoom
"""
_LACKING = """
generic_filter generic_filter1d labeled_comprehension
""".split()

_FUNCTIONS = functions(_NAMES, scipy.ndimage, "cupyx.scipy.ndimage", first_on_device=True)
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
__getattr__ = absent("cupyx.scipy.ndimage", _LACKING, "scipy.ndimage")
