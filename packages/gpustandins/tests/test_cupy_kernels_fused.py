"""``cupy.fuse`` of the stand-in: elementwise functions become one kernel."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu


def greater_root(xp, a, b, c):
    return (-b + xp.sqrt(b**2 - 4 * a * c)) / (2 * a)


def test_nine_kernels_become_one(cp):
    random = np.random.default_rng(1)
    a, b, c = (random.uniform(low, high, 1000) for low, high in ((5, 10), (10, 20), (-0.1, 0.1)))
    on_device = [cp.asarray(one) for one in (a, b, c)]
    fused = cp.fuse(kernel_name="greater_root")(lambda a, b, c: greater_root(cp, a, b, c))
    with virtualgpu.launches() as apart:
        greater_root(cp, *on_device)
    with virtualgpu.launches() as together, virtualgpu.profile() as profile:
        result = fused(*on_device)
    assert (len(apart), together.names) == (9, ["greater_root"])
    assert len(profile.launches) == 1 and together[0].kind == "fused"
    np.testing.assert_allclose(result.get(), greater_root(np, a, b, c), rtol=1e-9)


FLOATS = [
    "sqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arctanh",
    "cbrt",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "fabs",
    "absolute",
    "sign",
    "square",
    "reciprocal",
    "negative",
    "positive",
    "deg2rad",
    "rad2deg",
    "logical_not",
]
PAIRS = [
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "floor_divide",
    "remainder",
    "power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "fmod",
    "arctan2",
    "hypot",
    "copysign",
    "nextafter",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
INTEGERS = [
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "floor_divide",
    "remainder",
    "power",
    "maximum",
    "minimum",
    "fmod",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "less",
    "equal",
    "logical_and",
]
VALUES = np.array([-2.5, -0.5, -0.0, 0.25, 0.75, 1, 3.5, np.inf, -np.inf, np.nan])


def same(cp, names: list[str], *arrays) -> None:
    """One kernel with all these functions gives what each of them gives."""
    functions = [getattr(cp, name) for name in names]
    fused = cp.fuse(kernel_name="fused")(
        lambda *args: tuple(function(*args) for function in functions)
    )
    for name, function, result in zip(names, functions, fused(*arrays), strict=True):
        expected = function(*arrays)
        assert result.dtype == expected.dtype, name
        got, wanted = result.get(), expected.get()
        if wanted.dtype.kind == "f":
            accuracy = 4 * np.finfo(wanted.dtype).eps
            np.testing.assert_allclose(got, wanted, rtol=accuracy, err_msg=name)
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=name)


def test_functions_of_floats(cp):
    same(cp, FLOATS, cp.asarray(VALUES))


def test_functions_of_two_floats(cp):
    x, y = (one.ravel() for one in np.meshgrid(VALUES, VALUES))
    same(cp, PAIRS, cp.asarray(x), cp.asarray(y))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
def test_functions_of_integers(cp, dtype):
    x, y = (one.ravel() for one in np.meshgrid(np.arange(-4, 5), np.arange(0, 7)))
    same(cp, INTEGERS, cp.asarray(x.astype(dtype)), cp.asarray(y.astype(dtype)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_single_and_half_precision(cp, dtype):
    x = cp.asarray(np.array([0.25, 1, 3.5]).astype(dtype))
    same(cp, ["sqrt", "exp"], x)
    same(cp, ["add", "multiply"], x, x)


def test_integers_negative_and_bools(cp):
    for name, values in (
        ("invert", [True, False]),
        ("invert", [3, -4]),
        ("absolute", [3, -4]),
        ("sign", [3, -4, 0]),
        ("negative", [3, -4]),
        ("sqrt", [4, 9]),
    ):
        same(cp, [name], cp.asarray(values))


def test_numbers_follow_numpys_rules(cp):
    single, integer = cp.arange(4, dtype=np.float32), cp.arange(4, dtype=np.int16)
    for function, array, dtype in (
        (lambda x: x * 2.5, single, np.float32),
        (lambda x: x * 2, integer, np.int16),
        (lambda x: x * 2.5, integer, np.float64),
        (lambda x: 1 / x, integer, np.float64),
        (lambda x: x + np.float64(1), single, np.float64),
        (lambda x: np.float64(2) * x, single, np.float64),
        (lambda x: x**2, integer, np.int16),
        (lambda x: 2**x, single, np.float32),
        (lambda x: x > 1, single, np.bool_),
        (lambda x: -x, single, np.float32),
    ):
        result, expected = cp.fuse(function)(array), function(array)
        assert result.dtype == expected.dtype == dtype
        np.testing.assert_allclose(result.get(), expected.get())


def test_constants_to_the_bit(cp):
    x = cp.zeros(1)
    for value in (0.1, -1e300, float("inf"), np.pi, 5e-324, 2**53 + 0.0):
        assert cp.fuse(lambda x, value=value: x + value)(x).get()[0] == value
    assert np.isnan(cp.fuse(lambda x: x + float("nan"))(x).get()[0])
    integers = cp.zeros(1, np.int64)
    for value in (-(2**63), 2**63 - 1, True):
        assert cp.fuse(lambda x, value=value: x + value)(integers).get()[0] == value


def test_arguments_that_are_numbers(cp):
    fused = cp.fuse(lambda x, k, w: k * x + w)
    assert fused(cp.arange(3.0), 2, np.float32(0.5)).get().tolist() == [0.5, 2.5, 4.5]
    assert fused(cp.arange(3.0), 3, np.float32(0.5)).get().tolist() == [0.5, 3.5, 6.5]


def test_without_an_array_the_function_itself_is_called(cp):
    assert cp.fuse(lambda x: x + 1)(3) == 4
    assert cp.fuse(lambda x: x + 1)(np.ones(2)).tolist() == [2, 2]


def test_broadcasting_tuples_and_none(cp):
    x, y = cp.arange(6.0).reshape(2, 3), cp.arange(3.0)
    both = cp.fuse(lambda x, y: (x + y, x * y))(x, y)
    assert isinstance(both, tuple) and both[0].shape == (2, 3)
    np.testing.assert_array_equal(both[1].get(), x.get() * y.get())
    assert cp.fuse(lambda x, nothing: x * 2)(x, None).get().tolist() == (2 * x.get()).tolist()


def test_writing_into_arguments(cp):
    @cp.fuse
    def step(x, v):
        x += v * 0.5
        v[...] = -v
        return None

    x, v = cp.arange(3.0), cp.ones(3)
    assert step(x, v) is None
    assert x.get().tolist() == [0.5, 1.5, 2.5] and v.get().tolist() == [-1] * 3


def test_where_and_astype(cp):
    x = cp.arange(-3, 3)
    result = cp.fuse(lambda x: cp.where(x > 0, x.astype(np.float32), 0.5))(x)
    assert result.dtype == np.float32
    assert result.get().tolist() == [0.5] * 4 + [1, 2]


def test_fused_functions_call_fused_functions(cp):
    square = cp.fuse(lambda x: x * x)
    outer = cp.fuse(kernel_name="outer")(lambda x: square(x) + 1)
    with virtualgpu.launches() as launched:
        assert outer(cp.arange(3.0)).get().tolist() == [1, 2, 5]
    assert launched.names[-1:] == ["outer"]


def test_one_kernel_for_each_combination_of_types(cp):
    calls = []

    @cp.fuse
    def traced(x):
        calls.append(1)
        return x + 1

    for array in (cp.ones(3), cp.ones(4), cp.ones((2, 2)), cp.ones(3, np.float32), cp.ones(3)):
        traced(array)
    assert len(calls) == 3
    traced.clear_cache()
    traced(cp.ones(3))
    assert len(calls) == 4 and "traced" in repr(traced)


# -- a reduction at the end ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (0, False), (1, True)])
def test_a_reduction_at_the_end(cp, name, dtype, axis, keepdims):
    def function(x):
        return getattr(cp, name)(x * 2 - 1, axis=axis, keepdims=keepdims)

    x = cp.asarray((np.arange(12).reshape(3, 4) - 15).astype(dtype))
    with virtualgpu.launches() as launched:
        result = cp.fuse(kernel_name="fused")(function)(x)
    expected = function(x)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_allclose(result.get(), expected.get(), rtol=1e-6)
    assert launched.names == ["fused"]


def test_extremes_of_nan_and_of_nothing(cp):
    largest = cp.fuse(lambda x: cp.max(x + 1))
    assert np.isnan(largest(cp.asarray([1.0, np.nan, 3.0])).get())
    with pytest.raises(ValueError, match="no identity"):
        largest(cp.zeros(0))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda cp, x: cp.sum(x) + 1, "last step"),
        (lambda cp, x: cp.sqrt(cp.sum(x)), "last step"),
        (lambda cp, x: x.mean(), r"\.mean cannot be fused"),
        (lambda cp, x: cp.sort(x), "cannot be fused"),
        (lambda cp, x: np.sqrt(x), "cannot be fused"),
        (lambda cp, x: cp.divmod(x, 2), "one result"),
        (lambda cp, x: cp.heaviside(x, 1), "no C\\+\\+ for it"),
        (lambda cp, x: x.shape, "shape"),
        (lambda cp, x: cp.sum(x, out=x), "out="),
    ],
)
def test_what_cannot_be_fused_is_named(cp, function, words):
    with pytest.raises(NotImplementedError, match=words):
        cp.fuse(lambda x: function(cp, x))(cp.arange(3.0))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: 1 if x > 0 else 2, "cupy.where"),
        (list, "loop over"),
        (lambda x: x + np.ones(3), "arguments of the function"),
        (lambda x: x & 1.5, "Invalid type"),
    ],
)
def test_what_makes_no_sense_is_a_type_error(cp, function, words):
    with pytest.raises(TypeError, match=words):
        cp.fuse(function)(cp.arange(3.0))


def test_arrays_of_the_host_are_refused(cp):
    with pytest.raises(TypeError, match="Invalid argument type"):
        cp.fuse(lambda x, y: x + y)(cp.ones(3), np.ones(3))
    with pytest.raises(TypeError, match="same_kind"):
        cp.fuse(lambda x: x.__iadd__(0.5))(cp.ones(3, int))


def test_clip_is_fused_with_the_rest(cp):
    x = cp.asarray(np.array([-2, 0.5, 3, np.nan], np.float32))
    for limits in ((0, 1), (None, 1), (0.25, None)):
        fused = cp.fuse(lambda a, limits=limits: cp.exp(cp.clip(a, *limits)) + a.clip(*limits))
        low_high = np.clip(x.get(), *limits)
        np.testing.assert_allclose(fused(x).get(), np.exp(low_high) + low_high, rtol=1e-6)
        assert fused(x).dtype == np.float32
    between = cp.fuse(lambda a, low, high: cp.clip(a, low, high))
    assert between(cp.arange(5), cp.full(5, 1), 3).tolist() == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("make", ["copy", "zeros_like", "asarray", "ones_like"])
def test_arrays_are_made_outside_a_fused_function(cp, make):
    with pytest.raises(NotImplementedError, match="create and copy arrays outside"):
        cp.fuse(lambda a: getattr(cp, make)(a))(cp.ones(3))


def test_a_function_that_fuses_not_is_named(cp):
    with pytest.raises(NotImplementedError, match=r"^cupy\.cumsum cannot be fused"):
        cp.fuse(lambda a: cp.cumsum(a) * 2)(cp.ones(3))


def test_functions_of_numbers_alone_are_constants(cp):
    def normal(x):
        return cp.exp(-(x**2) / 2) / cp.sqrt(2 * np.pi) + cp.maximum(1, 2.5)

    for dtype in (np.float32, np.float64):
        x = cp.linspace(-2, 2, 5, dtype=dtype)
        assert cp.fuse(normal)(x).dtype == normal(x).dtype
        cp.testing.assert_allclose(cp.fuse(normal)(x), normal(x))
    assert type(cp.sqrt(2.0)) is cp.ndarray  # outside it is what it was
