"""Rules of CuPy's that its own tests check (``python -m evidence.cupy_suite``), a case of each."""

from __future__ import annotations

import numpy as np
import pytest


def test_orders_are_letters_of_either_case(cp):
    for order in ("F", "f"):
        assert cp.zeros((2, 3), order=order).strides == (8, 16)
        assert cp.asarray(cp.ones((2, 3)), order=order).flags.f_contiguous
    with pytest.raises(ValueError, match="order not understood"):
        cp.empty_like(cp.ones((2, 3)), order="Q")


def test_a_new_array_like_a_swapped_one_keeps_the_order_of_its_axes(cp):
    axes = np.ones((2, 3, 4))[:, ::2].swapaxes(0, 1)
    given = cp.ones((2, 3, 4))[:, ::2].swapaxes(0, 1)
    for made in (cp.empty_like(given), cp.full_like(given, 1), given.astype("f8", order="K")):
        assert made.strides == np.empty_like(axes).strides == (32, 64, 8)
    with pytest.raises(TypeError, match="subok"):
        cp.zeros_like(given, subok=True)


def test_strides_without_memory(cp):
    assert cp.ndarray((2, 3), "f8", strides=(8, 16)).strides == (8, 16)
    for outside in ((24, 16), (-8, 8)):
        with pytest.raises(ValueError, match=r"ndarray\(\) with strides"):
            cp.ndarray((2, 3), "f8", strides=outside)


@pytest.mark.parametrize(("shape", "dtype", "error"), [
    (None, "f8", TypeError), (3, "3i", ValueError), (3, "V", ValueError), (3, ">i4", ValueError)])
def test_arrays_that_cannot_be(cp, shape, dtype, error):
    with pytest.raises(error):
        cp.ndarray(shape, dtype)


def test_flat_is_its_own_iterator(cp):
    flat = cp.arange(6).reshape(2, 3).flat
    assert iter(flat) is flat
    assert [int(one) for one in flat] == [0, 1, 2, 3, 4, 5]
    for index in (True, (0,), [0, 1]):
        with pytest.raises(IndexError, match="unsupported iterator index"):
            flat[index]


def test_sorting_in_place_needs_one_piece_of_memory(cp):
    values = cp.array([3.0, 1.0, 2.0, 0.0])
    for sort in (lambda: values[::2].sort(), lambda: values[::2].partition(1)):
        with pytest.raises(NotImplementedError, match="non-contiguous"):
            sort()
    for kth in (4, -5, [0, 4]):
        with pytest.raises(ValueError, match="out of bounds 4"):
            values.partition(kth)
    assert values.tolist() == [3, 1, 2, 0]
    values.partition([0, 2])
    assert values.tolist() == [0, 1, 2, 3]


def test_booleans_compare_with_any_integer(cp):
    values = cp.array([True, False])
    assert (values < 2**63).all()
    assert not (values == -2**64).any()
    assert (values == 1).tolist() == [True, False]


def test_what_changes_nothing_is_the_array_itself(cp):
    values = cp.array([1.0, np.nan])
    assert values.real is values
    assert cp.nan_to_num(values, copy=False) is values
    assert values.tolist() == [1, 0]
    assert values.clip(None, None).tolist() == [1, 0]


def test_put_refuses_an_unknown_mode(cp):
    with pytest.raises(ValueError, match="clipmode"):
        cp.arange(3).put([0], [1], mode="unknown")


def test_a_polynomial_among_arrays_is_its_coefficients(cp):
    """It was read as a sequence without an end, until memory ran out."""
    line = cp.poly1d([2.0, 1.0])
    assert cp.polyadd(line, cp.array([1.0])).tolist() == [2, 2]
    assert (line.coeffs + cp.add(line, line)).tolist() == [6, 3]
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(line)
