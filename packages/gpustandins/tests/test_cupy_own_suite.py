"""Rules that CuPy's own tests check (``python -m lab.suites cupy``), a case of each."""

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


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [(None, "f8", TypeError), (3, "3i", ValueError), (3, "V", ValueError), (3, ">i4", ValueError)],
)
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
    assert not (values == -(2**64)).any()
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
    assert cp.polyadd(line, cp.array([1.0])).coeffs.tolist() == [2, 2]
    assert (line.coeffs + cp.add(line, line)).tolist() == [6, 3]
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(line)


def test_a_polynomial_stays_one(cp):
    line = cp.poly1d([2.0, 1.0], variable="z")
    assert cp.poly1d(line, variable="y").variable == "y"
    assert cp.poly1d(line.get()).variable == "z"
    for made in (cp.polyadd(line, cp.array([1.0])), cp.polyval(cp.array([2.0, 2.0]), line)):
        assert isinstance(made, cp.poly1d)
    assert isinstance(cp.array([1.0, 2.0]) + line, cp.ndarray)
    line[2] = 5
    assert line.coeffs.tolist() == [5, 2, 1]
    line.set(np.poly1d([1.0, 3.0]))
    assert line == cp.poly1d([1.0, 3.0])
    with pytest.raises(NotImplementedError):
        line.deriv()


@pytest.mark.parametrize(
    ("src", "casting", "error"),
    [
        (3.2, "same_kind", TypeError),
        (1 + 1j, "same_kind", TypeError),
        (-4, "same_kind", OverflowError),
        (np.int64(3), "no", TypeError),
        (np.array([1, 2]), "unsafe", ValueError),
    ],
)
def test_copyto_judges_scalars_as_numpy_does(cp, src, casting, error):
    target = cp.zeros(2, np.uint8)
    with pytest.raises(error):
        cp.copyto(target, src, casting)
    cp.copyto(target, np.array([7], np.uint8), "no")
    cp.copyto(target, 9, where=cp.array([False, True]))
    assert target.tolist() == [7, 9]


def test_joining_casts_within_the_rule(cp):
    with pytest.raises(TypeError):
        cp.concatenate((cp.ones(1), cp.ones(1)), out=cp.zeros(2, int))
    with pytest.warns(DeprecationWarning, match="row_stack"):
        assert cp.row_stack((cp.ones(2), cp.zeros(2))).tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(("dtype", "flags"), [(None, ["W"]), (None, "CF"), ("random", "C")])
def test_what_cannot_be_required(cp, dtype, flags):
    with pytest.raises(ValueError, match="Incorrect"):
        cp.require(cp.ones((2, 3)), dtype, flags)
    made = cp.require(cp.ones((2, 3)), requirements=["FORTRAN", "OWNDATA"])
    assert made.flags.f_contiguous and made.base is None


def test_a_copy_that_is_forbidden(cp):
    values = cp.ones((2, 3))
    assert cp.array(values, copy=False) is values
    assert cp.asarray(values, order="F") is not values
    for how in ({"order": "F"}, {"dtype": int}):
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            cp.array(values, copy=False, **how)


def test_layouts_where_axes_have_length_one(cp):
    assert cp.array(np.ones((1, 3, 1)), order="F").strides == (8, 8, 24)
    assert cp.ones((2, 3)).reshape((1, 6, 1), order="F").strides == (8, 8, 48)


def test_parts_of_empty_arrays_are_views(cp):
    empty = cp.zeros((3, 0, 2), complex)
    assert empty.real.base is empty
    assert empty.reshape(5, 0).base is empty


def test_bytes_without_a_type(cp):
    assert cp.zeros(3, "V10").get().tobytes() == bytes(30)


def test_dates_are_taken_where_they_lie(cp):
    class Dates:
        def __init__(self, days):
            self.days = days
            self.__cuda_array_interface__ = {
                **days.__cuda_array_interface__,
                "typestr": "<M8[D]",
                "descr": [("", "<M8[D]")],
            }

    given = cp.asarray(Dates(cp.array([0, 365])))
    assert given.dtype == np.dtype("M8[D]")
    assert given.view("i8").tolist() == [0, 365]


def test_dates_are_views_of_numbers(cp):
    """CuPy has no other way to them, and computes nothing with them."""
    dates = cp.array([0, 365]).view("M8[D]")
    assert dates.get().tolist() == np.array(["1970-01-01", "1971-01-01"], "M8[D]").tolist()
    for refused in (lambda: dates - dates, lambda: dates == dates):
        with pytest.raises(TypeError, match="Wrong type"):
            refused()
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cp.array(dates.get())


def test_arguments_that_have_another_place_in_numpy(cp):
    """``weights`` came as ``density``, ``bitorder`` as ``count``."""
    points, twice = cp.array([[0.5, 0.5], [1.5, 0.5]]), cp.full(2, 2.0)
    for counts in (
        cp.histogramdd(points, 2, None, twice, False),
        cp.histogram2d(points[:, 0], points[:, 1], 2, weights=twice),
    ):
        assert float(counts[0].sum()) == 4
    assert cp.unpackbits(cp.array([1], "u1"), None, "little").tolist() == [1, *[0] * 7]


def test_reducing_along_one_axis_of_an_empty_array(cp):
    with pytest.raises(ValueError, match="no identity"):
        cp.zeros((0, 3)).max(0)
    assert cp.zeros((0, 3)).max(1).shape == (0,)


def test_all_nan_is_said(cp):
    with pytest.warns(RuntimeWarning, match="All-NaN"):
        assert np.isnan(float(cp.nanmax(cp.array([np.nan]))))


def test_what_takes_the_device_arrays_only(cp):
    with pytest.raises(TypeError, match=r"numpy\.ndarray"):
        cp.repeat(cp.arange(3), np.array([1, 2, 3]))
    assert cp.repeat(cp.arange(2), [1, 2]).tolist() == [0, 1, 1]
    values = cp.arange(3)
    with pytest.raises(TypeError):
        cp.select([values > 1], [values], [0])
    with pytest.raises(NotImplementedError):
        cp.r_["0,2", [1, 2], [3, 4]]


def test_matmul_along_other_axes(cp):
    left, right = np.arange(24.0).reshape(2, 3, 4), np.arange(60.0).reshape(4, 3, 5)
    axes = [(0, 1), (1, 2), (0, 1)]
    assert (
        cp.matmul(cp.array(left), cp.array(right), axes=axes).get()
        == np.matmul(left, right, axes=axes)
    ).all()


def test_windows_of_lists(cp):
    view = cp.lib.stride_tricks.sliding_window_view
    assert view([1, 2, 3], 2).tolist() == [[1, 2], [2, 3]]
    with pytest.raises(NotImplementedError):
        view(cp.arange(3), 2, writeable=True)


def test_functions_along_axes(cp):
    made = cp.apply_along_axis(lambda row: (row.sum(), row.max()), 1, cp.arange(4).reshape(2, 2))
    assert made.tolist() == [[1, 1], [5, 3]]
    with pytest.raises(np.exceptions.AxisError):
        cp.apply_over_axes(cp.sum, cp.array(42), 0)


def test_meshgrids_are_tuples(cp):
    assert cp.meshgrid(sparse=True, copy=False) == ()


def test_functions_of_cupy_in_a_vectorised_one(cp):
    add = cp.vectorize(lambda x, y: cp.add(x, y))
    assert add(cp.arange(3), cp.arange(3)).tolist() == [0, 2, 4]


def test_halves_are_added_in_single_precision(cp):
    tenths = np.full(3000, 0.1, np.float16)
    expected = np.float16(tenths.astype(np.float32).sum())
    made = cp.array(np.stack([tenths, tenths], 1)).sum(0)
    assert made.dtype == np.float16
    assert made.tolist() == [expected, expected]
    assert float(cp.nansum(cp.array(tenths))) == expected
