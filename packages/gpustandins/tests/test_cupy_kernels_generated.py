"""``cupy.ElementwiseKernel`` and ``cupy.ReductionKernel`` of the stand-in."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import MemoryAccessError


@pytest.fixture(scope="module")
def difference(cp):
    return cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared_difference")


# -- element by element -------------------------------------------------------------------------


def test_a_loop_in_the_body(cp):
    """The body of a published tutorial: a power by a loop, with a number for all elements."""
    intpow = cp.ElementwiseKernel(
        "float64 x, int64 n",
        "float64 out",
        """
        out = 1.0;
        for (int i = 0; i < n; i++) {
            out *= x;
        }
    """,
        "intpow",
    )
    x = cp.asarray(np.random.default_rng(1).uniform(10, 20, 1000))
    np.testing.assert_array_equal(intpow(x, 2).get(), x.get() * x.get())
    assert intpow(x, 0).get().tolist() == [1] * 1000


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_a_placeholder_takes_every_type(cp, dtype):
    same = cp.ElementwiseKernel("T x", "T y", "y = x", "same")
    x = cp.asarray([0, 1, 1, 0, 1], dtype=dtype)
    result = same(x)
    assert result.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(result.get(), x.get())


def test_complex_numbers(cp):
    square = cp.ElementwiseKernel("T z", "T w", "w = z * z + T(1)", "square")
    z = np.array([1 + 2j, -3j, 4])
    result = square(cp.asarray(z))
    assert result.dtype == np.complex128
    np.testing.assert_allclose(result.get(), z * z + 1)


def test_half_precision_computes_in_single(cp):
    third = cp.ElementwiseKernel("float16 x", "float16 y", "y = x / 3; y += 1", "third")
    x = np.arange(10, dtype=np.float16)
    expected = (x.astype(np.float32) / 3).astype(np.float16).astype(np.float32) + 1
    np.testing.assert_array_equal(third(cp.asarray(x)).get(), expected.astype(np.float16))


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((3, 1), (1, 4)),
        ((), (5,)),
        ((2, 3, 4), (3, 1)),
        ((), ()),
    ],
)
def test_broadcasting(cp, difference, shapes):
    random = np.random.default_rng(2)
    x, y = (random.uniform(size=shape) for shape in shapes)
    result = difference(cp.asarray(x), cp.asarray(y))
    np.testing.assert_array_equal(result.get(), (x - y) * (x - y))


@pytest.mark.parametrize("reduce_dims", [True, False])
def test_strides(cp, reduce_dims):
    add = cp.ElementwiseKernel("T x, T y", "T z", "z = x + 10 * y", "add", reduce_dims=reduce_dims)
    x = cp.arange(24.0).reshape(2, 3, 4)
    host = x.get()
    for part in (np.s_[:, ::2], np.s_[..., ::-1], np.s_[1], np.s_[:, 1:2, :], np.s_[:, :, 3]):
        np.testing.assert_array_equal(add(x[part], x[part]).get(), host[part] * 11)
    np.testing.assert_array_equal(add(x.T, x.T).get(), host.T * 11)


def test_outputs_that_are_given(cp, difference):
    x, out = cp.arange(6.0).reshape(2, 3), cp.zeros((2, 3))
    assert difference(x, 1.0, out) is out
    np.testing.assert_array_equal(out.get(), (x.get() - 1) ** 2)
    transposed = cp.zeros((3, 2)).T
    difference(x, 1.0, transposed)
    np.testing.assert_array_equal(transposed.get(), out.get())


def test_several_outputs_none_and_tuples(cp):
    both = cp.ElementwiseKernel("T x", "T a, int32 b", "a = -x; b = x > 1", "both")
    a, b = both(cp.arange(3.0))
    assert (a.get().tolist(), b.get().tolist(), b.dtype) == ([0, -1, -2], [0, 0, 1], np.int32)
    nothing = cp.ElementwiseKernel("T x", "T y", "y = x", "nothing", no_return=True)
    assert nothing(cp.arange(3.0), cp.zeros(3)) is None
    one = cp.ElementwiseKernel("T x", "T y", "y = x", "one", return_tuple=True)
    assert isinstance(one(cp.arange(3.0)), tuple)


def test_raw_arrays_and_indices(cp):
    reverse = cp.ElementwiseKernel("T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "rev")
    x = cp.arange(6.0).reshape(2, 3)
    assert reverse(x, x).get().tolist() == [[5] * 3] * 2
    by_index = cp.ElementwiseKernel(
        "raw T x",
        "raw int64 out",
        "int at[] = {int(i % 3), int(i / 3)}; "
        "out[i] = x[at] * 1000 + x.shape()[0] * 100 + x.strides()[1] * 10 + x.ndim + x.size()",
        "by_index",
    )
    y = cp.arange(6, dtype=np.int64).reshape(2, 3).T
    out = cp.zeros(6, np.int64)
    by_index(y, out, size=6)
    expected = [1000 * value + 300 + 10 * 24 + 2 + 6 for value in range(6)]
    assert sorted(out.get().tolist()) == sorted(expected)
    indices = cp.ElementwiseKernel(
        "T x", "T z", "z = 10 * _ind.get()[0] + _ind.get()[1]", "at", reduce_dims=False
    )
    assert indices(x).get().tolist() == [[0, 1, 2], [10, 11, 12]]


def test_code_around_the_loop(cp):
    kernel = cp.ElementwiseKernel(
        "T x, raw T total",
        "T y",
        "y = scaled(x) + start; mine += y",
        "around",
        preamble="template <class T> __device__ T scaled(T x) { return SCALE * x; }",
        loop_prep="T start = 100; T mine = 0",
        after_loop="atomicAdd(&total[0], mine)",
        options=("-DSCALE=2",),
    )
    words = r"around \(after_loop\) line 1: .*atomicAdd"
    with pytest.raises(cp.cuda.compiler.CompileException, match=words):
        kernel(cp.arange(4.0), cp.zeros(1))
    kernel = cp.ElementwiseKernel(
        "T x, raw _non_const T total",
        "T y",
        "y = scaled(x) + start; mine += y",
        "around",
        preamble="template <class T> __device__ T scaled(T x) { return SCALE * x; }",
        loop_prep="T start = 100; T mine = 0",
        after_loop="atomicAdd(&total[0], mine)",
        options=("-DSCALE=2",),
    )
    total = cp.zeros(1)
    assert kernel(cp.arange(4.0), total).get().tolist() == [100, 102, 104, 106]
    assert total.get()[0] == 412


def test_empty_arrays_launch_nothing(cp, difference):
    with virtualgpu.launches() as launched:
        assert difference(cp.zeros((0, 3)), 1.0).shape == (0, 3)
    assert "squared_difference" not in launched.names


def test_one_kernel_is_compiled_launched_counted_and_checked(cp, difference):
    x = cp.arange(1000.0)
    with virtualgpu.launches() as launched, virtualgpu.check() as report:
        with virtualgpu.profile() as profile:
            difference(x, 1.0, block_size=64)
    assert launched.names == ["squared_difference"] and launched[0].kind == "elementwise"
    assert report.ok and len(profile.launches) == 1
    assert (launched[0].details["grid"][0], launched[0].details["block"][0]) == (16, 64)


def test_the_generated_code_can_be_read(cp):
    kernel = cp.ElementwiseKernel("T x", "T y", "y = x / 7", "seventh")
    with pytest.warns(UserWarning, match="compilation is deferred"):
        assert kernel.cached_codes == {}
    kernel(cp.ones(3))
    assert "y = x / 7" in kernel.cached_code
    kernel(cp.ones(3, np.float32))
    assert len(kernel.cached_codes) == 2
    with pytest.warns(UserWarning, match="cached_codes"):
        assert kernel.cached_code


def test_arrays_of_numba(cp, difference):
    from numba import cuda

    x = cuda.to_device(np.arange(4.0))
    assert difference(x, 1.0).get().tolist() == [1, 0, 1, 4]


# -- what an elementwise kernel refuses ---------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda cp, k: k(cp.zeros(3)), TypeError, "must be either 2 or 3 .* given 1"),
        (lambda cp, k: k(np.zeros(3), cp.zeros(3)), TypeError, "NumPy array lies on the host"),
        (lambda cp, k: k([1], cp.zeros(3)), TypeError, "Unsupported type <class 'list'>"),
        (lambda cp, k: k(cp.zeros(3), cp.zeros(3, np.float32)), TypeError, "y is float32.*float64"),
        (lambda cp, k: k(cp.zeros(3), cp.zeros(4)), ValueError, "shape mismatch|broadcast"),
        (lambda cp, k: k(1.0, 2.0), TypeError, "no array determines the type T"),
        (lambda cp, k: k(cp.zeros(3), 1, cp.zeros(4)), ValueError, "shape|broadcast"),
        (lambda cp, k: k(cp.zeros(3), 1, np.zeros(3)), TypeError, "NumPy array|cupy.ndarray"),
        (
            lambda cp, k: k(cp.zeros(3), 1, size=3),
            ValueError,
            "only if all of the ndarray are 'raw'",
        ),
        (lambda cp, k: k(cp.zeros(3), 1, block_size=0), ValueError, "block_size"),
        (lambda cp, k: k(cp.zeros(3), 1, nothing=0), TypeError, "nothing"),
    ],
)
def test_bad_arguments(cp, difference, run, error, words):
    with pytest.raises(error, match=words):
        run(cp, difference)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (("T i", "T y", "y = i"), ValueError, "Can not use 'i'"),
        (("T x", "T y", "y = x", "no name"), ValueError, "Invalid kernel name"),
        (("x", "T y", "y = x"), ValueError, "Syntax error"),
        (("hot T x", "T y", "y = x"), ValueError, 'Unknown keyword "hot"'),
        (("float33 x", "T y", "y = x"), TypeError, "float33"),
    ],
)
def test_bad_declarations(cp, make, error, words):
    with pytest.raises(error, match=words):
        cp.ElementwiseKernel(*make)


def test_sizes_that_nothing_decides(cp):
    with pytest.raises(ValueError, match="Loop size is undecided"):
        cp.ElementwiseKernel("raw float64 x", "float64 y", "y = x[i]", "k")(cp.zeros(3))
    with pytest.raises(ValueError, match="Output array size is Undecided"):
        cp.ElementwiseKernel("T x", "raw T y", "y[i] = x", "k")(cp.zeros(3))


def test_errors_count_the_lines_of_the_operation(cp):
    bad = cp.ElementwiseKernel("T x", "T y", "\ny = x;\ny += nothing;", "bad")
    with pytest.raises(cp.cuda.compiler.CompileException, match="bad line 3: identifier"):
        bad(cp.zeros(3))
    out = cp.ElementwiseKernel("T x, raw T z", "T y", "y = x;\ny += z[i + 3];", "out")
    with pytest.raises(MemoryAccessError, match=r"y \+= z\[i \+ 3\];") as error:
        out(cp.zeros(3), cp.zeros(3))
    assert error.value.location.line == 2


# -- reductions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def norm(cp):
    return cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")


@pytest.mark.parametrize("shape", [(1,), (31,), (513,), (3, 4), (7, 5, 3), (600, 3), (3, 600)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_norm_along_every_axis(cp, norm, shape, order):
    x = np.random.default_rng(3).uniform(size=shape)
    on_device = cp.asarray(x, order=order)
    axes = [None, *range(-len(shape), len(shape)), tuple(range(len(shape)))]
    for axis in axes + ([(0, 2), (2, 1)] if len(shape) == 3 else []):
        for keepdims in (False, True):
            result = norm(on_device, axis=axis, keepdims=keepdims)
            expected = np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))
            assert result.shape == expected.shape
            np.testing.assert_allclose(result.get(), expected, rtol=1e-13)


@pytest.mark.parametrize("shape", [(1000,), (40, 20), (3, 300)])
def test_reductions_are_free_of_races(cp, norm, shape):
    x = cp.ones(shape)
    with virtualgpu.check() as report:
        norm(x)
        norm(x, axis=0)
    assert report.ok, report


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("order", ["C", "F"])
def test_neighbouring_threads_read_neighbouring_elements(cp, norm, axis, order):
    x = cp.asarray(np.ones((64, 128)), order=order)
    with virtualgpu.profile() as profile:
        norm(x, axis=axis)
    sectors = x.nbytes // 32
    assert sectors <= profile.launches[0].counters.global_sectors < 1.1 * sectors + 40


def test_a_reduction_is_one_launch(cp, norm):
    x = cp.ones(1000)
    with virtualgpu.launches() as launched:
        norm(x)
    assert launched.names == ["l2norm"] and launched[0].kind == "reduction"
    assert launched[0].size == 1000


def test_several_inputs_numbers_and_outputs(cp):
    dot = cp.ReductionKernel(
        "T x, T y, float32 w",
        "float64 z",
        "x * y * w",
        "a + b",
        "z = a",
        "0",
        "dot",
        reduce_type="double",
    )
    x, y = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    out = cp.zeros(3)
    assert dot(cp.asarray(x), cp.asarray(y), 2, axis=1, out=out) is out
    assert out.get().tolist() == (2 * x @ y).tolist()
    assert dot(cp.asarray(x), cp.asarray(y), 2).get() == (2 * x @ y).sum()


def test_reductions_of_other_types(cp):
    count = cp.ReductionKernel("T x", "int64 n", "x > 2", "a + b", "n = a", "0", "count")
    assert count(cp.arange(10, dtype=np.int8)).get() == 7
    largest = cp.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "-1e300", "largest")
    assert largest(cp.asarray([-3.0, -1.0, -2.0])).get() == -1
    pair = cp.ReductionKernel(
        "T x",
        "int32 where",
        "At(x, _J)",
        "a.value < b.value ? a : b",
        "where = a.at",
        "At()",
        "argmin",
        reduce_type="At",
        preamble="struct At { double value; int at; __device__ At() : value(1e300), at(-1) { } "
        "__device__ At(double v, int i) : value(v), at(i) { } };",
    )
    assert pair(cp.asarray([3.0, 1.0, 2.0])).get() == 1
    assert pair(cp.asarray([[3.0, 1.0], [0.0, 2.0]]), axis=0).get().tolist() == [1, 0]


def test_empty_reductions(cp, norm):
    assert norm(cp.zeros(0)).get() == 0
    assert norm(cp.zeros((0, 3)), axis=0).get().tolist() == [0, 0, 0]
    assert norm(cp.zeros((0, 3)), axis=1).shape == (0,)
    largest = cp.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "largest")
    with pytest.raises(ValueError, match="largest which has no identity"):
        largest(cp.zeros(0))


@pytest.mark.parametrize(
    ("run", "error", "words"),
    [
        (lambda cp, k: k(), TypeError, "must be either 1 or 2"),
        (lambda cp, k: k(np.zeros(3)), TypeError, "NumPy array"),
        (lambda cp, k: k(cp.zeros(3), axis=1), np.exceptions.AxisError, "axis 1"),
        (lambda cp, k: k(cp.zeros((3, 3)), axis=(0, 0)), ValueError, "duplicate"),
        (lambda cp, k: k(1.0), TypeError, "no array determines"),
        (lambda cp, k: k(cp.zeros(3), out=cp.zeros(3)), ValueError, "mismatched"),
        (lambda cp, k: k(cp.zeros(3), out=np.zeros(())), TypeError, "cupy.ndarray"),
        (lambda cp, k: k(cp.zeros(3), cp.zeros(()), out=cp.zeros(())), ValueError, "both"),
    ],
)
def test_what_reductions_refuse(cp, norm, run, error, words):
    with pytest.raises(error, match=words):
        run(cp, norm)


def test_a_reduction_has_one_output(cp):
    with pytest.raises(ValueError, match="one output"):
        cp.ReductionKernel("T x", "T y, T z", "x", "a + b", "y = a", "0")
