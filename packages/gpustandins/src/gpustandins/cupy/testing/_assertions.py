"""Assertions of ``cupy.testing`` on device and host arrays."""

from __future__ import annotations

import numpy as np

from .._arrays.creation import asnumpy

__all__ = [
    "assert_allclose",
    "assert_array_almost_equal",
    "assert_array_almost_equal_nulp",
    "assert_array_equal",
    "assert_array_less",
    "assert_array_list_equal",
    "assert_array_max_ulp",
]


def assert_allclose(actual, desired, rtol=1e-7, atol=0, err_msg="", verbose=True):
    """Compare as ``numpy.testing.assert_allclose`` does."""
    np.testing.assert_allclose(
        asnumpy(actual), asnumpy(desired), rtol=rtol, atol=atol, err_msg=err_msg, verbose=verbose
    )


def assert_array_equal(x, y, err_msg="", verbose=True, strides_check=False, **kwargs):
    """Compare as ``numpy.testing.assert_array_equal`` does.

    ``strides_check`` also compares the strides.
    """
    np.testing.assert_array_equal(
        asnumpy(x), asnumpy(y), err_msg=err_msg, verbose=verbose, **kwargs
    )
    if strides_check and x.strides != y.strides:
        raise AssertionError(f"strides differ: {x.strides} and {y.strides}")


def _on_host(name: str):
    def compare(x, y, *args, **kwargs):
        getattr(np.testing, name)(asnumpy(x), asnumpy(y), *args, **kwargs)

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = f"Compare as ``numpy.testing.{name}`` does."
    return compare


assert_array_almost_equal = _on_host("assert_array_almost_equal")
assert_array_almost_equal_nulp = _on_host("assert_array_almost_equal_nulp")
assert_array_max_ulp = _on_host("assert_array_max_ulp")
assert_array_less = _on_host("assert_array_less")


def assert_array_list_equal(xlist, ylist, err_msg="", verbose=True):
    """Assert that two lists of arrays are equal, array by array."""
    if len(xlist) != len(ylist):
        raise AssertionError(f"lists of {len(xlist)} and {len(ylist)} arrays")
    for x, y in zip(xlist, ylist, strict=True):
        assert_array_equal(x, y, err_msg, verbose)
