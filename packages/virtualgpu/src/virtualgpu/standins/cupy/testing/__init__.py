"""``cupy.testing``: comparisons between arrays of the device and of the host alike.

The decorators that compare a function's results on NumPy and on CuPy are in ``_against_numpy``.
"""

from __future__ import annotations

import numpy as np

from .._creation import asnumpy
from . import _against_numpy
from ._against_numpy import *  # noqa: F403

__all__ = ["assert_allclose", "assert_array_almost_equal", "assert_array_almost_equal_nulp",
           "assert_array_equal", "assert_array_less", "assert_array_list_equal",
           "assert_array_max_ulp", *_against_numpy.__all__]


def assert_allclose(actual, desired, rtol=1e-7, atol=0, err_msg="", verbose=True):
    """As ``numpy.testing.assert_allclose``."""
    np.testing.assert_allclose(asnumpy(actual), asnumpy(desired), rtol=rtol, atol=atol,
                               err_msg=err_msg, verbose=verbose)


def assert_array_equal(x, y, err_msg="", verbose=True, strides_check=False, **kwargs):
    """As ``numpy.testing.assert_array_equal``; ``strides_check`` compares the layout too."""
    np.testing.assert_array_equal(asnumpy(x), asnumpy(y), err_msg=err_msg, verbose=verbose,
                                  **kwargs)
    if strides_check and x.strides != y.strides:
        raise AssertionError(f"strides differ: {x.strides} and {y.strides}")


def assert_array_almost_equal(x, y, decimal=6, err_msg="", verbose=True):
    """As ``numpy.testing.assert_array_almost_equal``."""
    np.testing.assert_array_almost_equal(asnumpy(x), asnumpy(y), decimal=decimal,
                                         err_msg=err_msg, verbose=verbose)


def assert_array_almost_equal_nulp(x, y, nulp=1):
    """As ``numpy.testing.assert_array_almost_equal_nulp``."""
    np.testing.assert_array_almost_equal_nulp(asnumpy(x), asnumpy(y), nulp)


def assert_array_max_ulp(a, b, maxulp=1, dtype=None):
    """As ``numpy.testing.assert_array_max_ulp``."""
    np.testing.assert_array_max_ulp(asnumpy(a), asnumpy(b), maxulp, dtype)


def assert_array_less(x, y, err_msg="", verbose=True):
    """As ``numpy.testing.assert_array_less``."""
    np.testing.assert_array_less(asnumpy(x), asnumpy(y), err_msg=err_msg, verbose=verbose)


def assert_array_list_equal(xlist, ylist, err_msg="", verbose=True):
    """Equal arrays, one by one."""
    if len(xlist) != len(ylist):
        raise AssertionError(f"lists of {len(xlist)} and {len(ylist)} arrays")
    for x, y in zip(xlist, ylist, strict=True):
        assert_array_equal(x, y, err_msg, verbose)


def __getattr__(name: str):
    from .._missing import missing

    raise missing(__name__, name, "pytest and cupy.testing.assert_allclose")
