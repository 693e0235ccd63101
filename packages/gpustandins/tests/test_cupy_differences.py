"""What CuPy does differently from NumPy, and says so in its documentation: one test each.

The page is "Differences between CuPy and NumPy" of CuPy's user guide, the messages are those of
CuPy 14.2; then what its docstrings add.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

# -- the page of the user guide ----------------------------------------


def test_negative_floats_become_unsigned_zeros(cp):
    assert cp.array([-1], np.float32).astype(np.uint32).tolist() == [0]


def test_infinity_becomes_the_largest_integer(cp):
    assert cp.array([np.inf], np.float32).astype(np.int32).tolist() == [2147483647]


def test_random_numbers_take_a_dtype(cp):
    assert cp.random.randn(dtype=np.float32).dtype == np.float32
    assert cp.random.rand(3, dtype=np.float32).dtype == np.float32
    with pytest.raises(TypeError, match="only supports float32 and float64"):
        cp.random.rand(3, dtype=np.float16)


def test_integer_arrays_out_of_range_wrap_around(cp):
    x = cp.array([0, 1, 2])
    x[[1, 3]] = 10
    assert x.tolist() == [10, 10, 2]
    assert cp.arange(6)[cp.array([2, 6, 13, -7])].tolist() == [2, 0, 1, 5]
    assert cp.arange(3).take([5, -4]).tolist() == [2, 2]
    m = cp.arange(6).reshape(2, 3)
    assert m[cp.array([0, 3]), cp.array([4, -1])].tolist() == [1, 5]
    with pytest.raises(IndexError):
        m.get()[np.array([0, 3])]


def test_a_plain_integer_out_of_range_is_an_error(cp):
    with pytest.raises(IndexError, match="Index 3 is out of bounds for axis 0 with size 3"):
        cp.arange(3)[3]


def test_one_of_the_values_for_a_repeated_index_is_stored(cp):
    a = cp.zeros(2)
    a[cp.arange(10000) % 2] = cp.arange(10000).astype(np.float32)
    even, odd = a.tolist()
    assert even % 2 == 0 and odd % 2 == 1  # which one is undefined


@pytest.mark.parametrize(
    "name",
    "sum prod max min mean std var ptp all any argmax argmin "
    "nansum nanmax median count_nonzero average".split(),
)
def test_reductions_give_arrays_of_no_dimensions(cp, name):
    result = getattr(cp, name)(cp.arange(3.0))
    assert type(result) is cp.ndarray
    assert result.shape == ()
    assert float(result) == getattr(np, name)(np.arange(3.0))


@pytest.mark.parametrize("kind", ["U3", object, "M8[s]", "m8[s]", np.longdouble])
def test_only_numbers_can_lie_on_the_device(cp, kind):
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cp.empty(2, kind)
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cp.asarray(np.zeros(2, kind))


def test_ufuncs_take_arrays_of_the_device_and_scalars(cp):
    with pytest.raises(TypeError, match="Unsupported type <class 'list'>"):
        cp.power([cp.arange(5)], 2)
    with pytest.raises(TypeError, match=r"Unsupported type <class 'numpy.ndarray'>"):
        cp.add(cp.arange(5), np.arange(5))


def test_seed_arrays_are_hashed_to_one_number(cp):
    seed = np.array([1, 2, 3, 4, 5])
    one, other = (cp.random.RandomState(seed).rand(4) for _ in range(2))
    assert (one == other).all()
    assert (one != cp.random.RandomState(seed[:4]).rand(4)).all()


def test_results_are_in_c_order(cp):
    a = cp.array([[1, 2], [3, 4]], order="F")
    assert a.flags.f_contiguous
    assert not (a + a).flags.f_contiguous
    assert (np.ones((2, 2), order="F") * 2).flags.f_contiguous


# -- host and device do not mix ----------------------------------------


@pytest.mark.parametrize(
    "mix",
    [
        lambda cp, d, h: d + h,
        lambda cp, d, h: h + d,
        lambda cp, d, h: h * d,
        lambda cp, d, h: d.__iadd__(h),
        lambda cp, d, h: d == h,
        lambda cp, d, h: h < d,
        lambda cp, d, h: np.hypot(h, d),
        lambda cp, d, h: cp.where(d > 0, d, h),
        lambda cp, d, h: cp.sqrt(h),
        lambda cp, d, h: cp.clip(d, h, None),
        lambda cp, d, h: cp.maximum(d, h),
        lambda cp, d, h: cp.dot(d, h),
    ],
)
def test_numpy_arrays_in_expressions_are_refused(cp, mix):
    with pytest.raises(TypeError, match=r"Unsupported type <class 'numpy.ndarray'>"):
        mix(cp, cp.ones(3), np.ones(3))


def test_numpy_arrays_are_not_joined_to_cupys(cp):
    with pytest.raises(TypeError, match="Only cupy arrays can be concatenated"):
        cp.concatenate([cp.ones(2), np.ones(2)])
    with pytest.raises(TypeError, match="Only cupy arrays can be concatenated"):
        np.concatenate([np.ones(2), cp.ones(2)])


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.array,
        lambda d: np.empty(3).__setitem__(slice(None), d),
        lambda d: np.arange(3)[d.astype(int)],
        lambda d: np.array([d, d]),
    ],
    ids=["asarray", "array", "assignment", "index", "list"],
)
def test_implicit_conversion_to_numpy_is_refused(cp, convert):
    with pytest.raises(
        TypeError,
        match=r"Implicit conversion to a NumPy array is not allowed\. "
        r"Please use `.get\(\)`",
    ):
        convert(cp.ones(3))


def test_explicit_conversion(cp):
    device = cp.arange(3)
    for host in (device.get(), cp.asnumpy(device)):
        assert type(host) is np.ndarray
        assert host.tolist() == [0, 1, 2]
    assert [float(one) for one in device] == [0.0, 1.0, 2.0]
    assert (device[1].item(), int(device[2]), complex(device[1])) == (1, 2, 1 + 0j)
    with pytest.raises(ValueError, match="can only convert an array of size 1"):
        device.item()


def test_plain_assignment_takes_no_host_array(cp):
    a = cp.zeros(3)
    with pytest.raises(ValueError, match=r"non-scalar numpy.ndarray cannot be used for fill"):
        a[:] = np.ones(3)
    a[:] = np.float64(2)
    a[1] = np.array(7)  # no dimensions: a scalar
    assert a.tolist() == [2, 7, 2]
    a[[0, 2]] = np.array([5, 6])  # by an index array, CuPy copies it to the device
    assert a.tolist() == [5, 7, 6]


def test_iterating_gives_arrays_of_the_device(cp):
    rows = list(cp.arange(6).reshape(2, 3))
    assert [type(row) for row in rows] == [cp.ndarray] * 2
    rows[0][0] = 9  # views
    assert rows[0].tolist() == [9, 1, 2]
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(cp.array(1))


def test_device_arrays_are_no_indices_of_python(cp):
    with pytest.raises(TypeError):
        range(cp.array(3))
    with pytest.raises(TypeError, match="unhashable"):
        hash(cp.array(3))


# -- arithmetic ----------------------------------------


def test_no_warnings_come_from_a_gpu(cp):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero = cp.zeros(2)
        assert cp.isnan(zero / zero).all()
        assert cp.isinf(1 / zero).all()
        assert cp.isnan(cp.sqrt(zero - 1)).all()
        assert bool(cp.isnan(cp.nanmean(cp.array([np.nan]))))
        assert (cp.arange(3) // cp.zeros(3, int)).tolist() == [0, 0, 0]


def test_negative_powers_of_integers(cp):
    base = cp.array([-1, 1, 2, -1])
    assert (base ** cp.array([-1, -3, -1, -2])).tolist() == [-1, 1, 0, 1]
    with pytest.raises(ValueError, match="not allowed"):
        base.get() ** -1


def test_floor_division_of_floats_is_the_floor_of_the_quotient(cp):
    one, tenth = cp.array(1.0), cp.array(0.1)
    assert float(one // tenth) == 10.0
    assert np.float64(1) // np.float64(0.1) == 9.0
    assert float(one % tenth) == 0.0  # 1 - 10 * 0.1
    assert np.float64(1) % np.float64(0.1) == pytest.approx(0.1)


def test_inverse_of_integer_zero(cp):
    assert cp.reciprocal(cp.array([0, 1, 2])).tolist() == [0, 1, 0]


def test_complex_numbers_have_no_truth(cp):
    with pytest.raises(TypeError, match=r"Wrong type .* of arguments for cupy_logical_not"):
        cp.logical_not(cp.array([1j]))


def test_nan_among_nothing_but_nan(cp):
    assert int(cp.nanargmax(cp.array([np.nan, np.nan]))) == 0
    with pytest.raises(ValueError, match="All-NaN"):
        np.nanargmax(np.array([np.nan, np.nan]))


def test_comparing_with_what_is_no_number(cp):
    a = cp.arange(2)
    assert (a == None).tolist() == [False, False]  # noqa: E711
    assert (a != object()).tolist() == [True, True]


def test_quantiles_have_five_methods(cp):
    a = cp.arange(4.0)
    for method in ("linear", "lower", "higher", "midpoint", "nearest"):
        assert float(cp.percentile(a, 40, method=method)) == np.percentile(
            a.get(), 40, method=method
        )
    with pytest.raises(ValueError, match="'hazen' method is not yet supported"):
        cp.quantile(a, 0.4, method="hazen")


# -- arguments ----------------------------------------


@pytest.mark.parametrize("given", [[3, 1, 2], (3, 1), np.array([3, 1])])
def test_lists_are_refused_by_type(cp, given):
    for function in (cp.sort, cp.argsort, cp.flip, cp.median, cp.fft.fft, cp.linalg.norm):
        with pytest.raises(TypeError, match="Unsupported type"):
            function(given)


def test_ufuncs_have_no_where(cp):
    with pytest.raises(TypeError, match=r"Wrong arguments {'where'"):
        cp.add(cp.ones(2), 1, where=cp.array([True, False]))


def test_results_are_not_cast_without_being_asked(cp):
    a = cp.arange(3)
    with pytest.raises(
        TypeError,
        match=r"Cannot cast output operand from dtype\('float64'\) to "
        r"dtype\('int64'\) according to the rule 'same_kind'",
    ):
        a += 0.5
    with pytest.raises(ValueError, match="Out shape is mismatched"):
        cp.add(cp.ones(3), 1, out=cp.ones(1))


def test_only_sums_and_products_are_reduced_by_ufuncs(cp):
    assert int(cp.add.reduce(cp.arange(4))) == 6
    assert cp.multiply.accumulate(cp.arange(1, 5)).tolist() == [1, 2, 6, 24]
    assert cp.add.reduceat(cp.arange(6), [0, 3]).tolist() == [3, 12]
    with pytest.raises(NotImplementedError, match=r"`cupy_maximum.reduce` is not supported yet"):
        cp.maximum.reduce(cp.arange(4))
    assert cp.subtract.outer(cp.arange(2), cp.arange(3)).tolist() == [[0, -1, -2], [1, 0, -1]]


def test_scattering_counts_repeated_indices(cp):
    a = cp.zeros(3)
    cp.add.at(a, cp.array([0, 0, 2, 4]), 1.0)
    assert a.tolist() == [2, 1, 1]
    b = cp.zeros(2, np.int32)
    cp.maximum.at(b, cp.array([0, 0]), cp.array([3, 5], np.int32))
    assert b.tolist() == [5, 0]
    with pytest.raises(TypeError, match=r"cupy.subtract.at only supports int32, uint32"):
        cp.subtract.at(a, cp.array([0]), 1)
    with pytest.raises(NotImplementedError, match=r"`cupy_multiply.at` is not supported yet"):
        cp.multiply.at(a, cp.array([0]), 1)


def test_a_copy_is_made_unless_it_need_not_be(cp):
    a = cp.arange(3)
    assert cp.array(a, copy=None) is a
    assert cp.array(a, dtype=float, copy=None).dtype == float
    assert cp.array(a) is not a


def test_put_wraps_unless_asked_to_raise(cp):
    a = cp.zeros(3)
    a.put([4], 1)
    assert a.tolist() == [0, 1, 0]
    with pytest.raises(IndexError, match="invalid entry in indices array"):
        a.put([4], 1, mode="raise")


def test_zero_sized_extremes(cp):
    with pytest.raises(
        ValueError, match="zero-size array to reduction operation cupy_max which has no identity"
    ):
        cp.array([]).max()
    assert float(cp.array([]).sum()) == 0


def test_singular_matrices_raise_nothing(cp):
    assert cp.isnan(cp.linalg.inv(cp.zeros((2, 2)))).all()
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(np.zeros((2, 2)))


def test_singular_matrices_raise_when_asked(cp):
    import cupyx

    for singular in (cp.linalg.inv, cp.linalg.cholesky, lambda a: cp.linalg.solve(a, a)):
        with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError):
            singular(cp.zeros((2, 2)))
    assert cp.isnan(cp.linalg.inv(cp.zeros((2, 2)))).all()
    before = cupyx.seterr(linalg="raise")
    assert cupyx.geterr()["linalg"] == "raise"
    cupyx.seterr(**before)
    assert cupyx.geterr() == before
    with pytest.raises(NotImplementedError, match="CuPy implements only linalg="):
        cupyx.seterr(divide="raise")
    assert not hasattr(cp.linalg, "no_such_function")


def test_arrays_of_the_host_do_not_come_by_dlpack(cp):
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported to CuPy"):
        cp.from_dlpack(np.ones(2))
    a = cp.arange(3)
    assert cp.from_dlpack(a).data.ptr == a.data.ptr


# -- what is missing ----------------------------------------


def test_what_the_stand_in_lacks_says_what_to_use(cp):
    from cupy import _table

    for name, instead in _table.MISSING.items():
        assert not hasattr(cp, name)
        with pytest.raises(NotImplementedError) as raised:
            getattr(cp, name)
        assert f"cupy.{name} is not in CuPy's stand-in" in str(raised.value)
        assert instead in str(raised.value)
    with pytest.raises(NotImplementedError, match=r"x\.get\(\)"):
        cp.arange(3).toDlpack()
    with pytest.raises(NotImplementedError, match=r"CUDA 12 has removed texture references"):
        cp.cuda.texture.TextureReference()


def test_what_cupy_lacks_too_is_no_attribute(cp):
    with pytest.raises(AttributeError, match="CuPy does not have this part of NumPy"):
        cp.busday_count  # noqa: B018
    with pytest.raises(AttributeError, match="module 'cupy' has no attribute 'no_such_thing'"):
        cp.no_such_thing  # noqa: B018
