"""``pycuda.gpuarray``, ``cumath``, ``curandom``, ``elementwise`` and ``reduction``."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import MemoryAccessError


@pytest.fixture(scope="module")
def ga() -> Iterator:
    was_active = virtualgpu.is_active()
    virtualgpu.activate()
    import pycuda.autoinit
    import pycuda.gpuarray

    yield pycuda.gpuarray
    if not was_active:
        virtualgpu.deactivate()


@pytest.fixture
def x() -> np.ndarray:
    return np.array([-2.5, -0.5, 0.25, 1, 3.5], np.float32)


def equal(result, expected, dtype=None) -> None:
    got = result.get()
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == (dtype or np.asarray(expected).dtype)


# -- making and copying -------------------------------------------------------------------------


def test_there_and_back(ga):
    for array in (
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.ones((2, 3))),
        np.zeros(0, np.float32),
        np.array(3.0),
        np.arange(12)[::3],
    ):
        on_device = ga.to_gpu(array)
        np.testing.assert_array_equal(on_device.get(), array)
        assert (on_device.shape, on_device.dtype) == (array.shape, array.dtype)
    assert ga.to_gpu(np.asfortranarray(np.ones((2, 3)))).flags.f_contiguous


def test_making_arrays(ga):
    equal(ga.zeros((2, 3), np.int16), np.zeros((2, 3), np.int16))
    equal(ga.ones(3), np.ones(3))
    equal(ga.arange(2, 10, 3, dtype=np.float32), np.arange(2, 10, 3, dtype=np.float32))
    equal(ga.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32))
    with pytest.warns(UserWarning, match="guessed dtype"):
        ga.arange(5)
    with pytest.raises(ValueError, match="stop argument"):
        ga.arange(dtype=np.float32)
    like = ga.zeros_like(ga.to_gpu(np.asfortranarray(np.ones((2, 3), np.float32))))
    assert like.flags.f_contiguous and like.dtype == np.float32
    equal(ga.ones_like(like, dtype=np.int8), np.ones((2, 3), np.int8))
    fresh = ga.empty(4, np.uint8)
    assert (fresh.get() == 0xFE).all()


def test_set_and_get_refuse_what_does_not_fit(ga, x):
    on_device = ga.to_gpu(x)
    on_device.set(2 * x)
    equal(on_device, 2 * x)
    given = np.empty_like(x)
    assert on_device.get(given) is given
    columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    for target in (np.empty(6), np.empty((2, 3)), np.empty((2, 6))[:, ::2]):
        result = ga.to_gpu(columns).get(target)
        np.testing.assert_array_equal(result.reshape(2, 3), columns)
    with pytest.raises(ValueError, match="same size"):
        on_device.set(x[:3])
    with pytest.raises(ValueError, match="same dtype"):
        on_device.set(x.astype(np.float64))
    with pytest.raises(TypeError, match="same dtype"):
        on_device.get(np.empty(5))
    with pytest.warns(UserWarning, match="different shape"):
        on_device.set(x.reshape(5, 1))


def test_the_array_interface_shares_memory(ga, x):
    import cupy
    from numba import cuda

    on_device = ga.to_gpu(x)
    cupy.asarray(on_device)[0] = 9
    cuda.as_cuda_array(on_device).copy_to_device(np.append(on_device.get()[:4], 8).astype("f4"))
    assert on_device.get()[[0, 4]].tolist() == [9, 8]


def test_arrays_pickle_print_and_count(ga, x):
    on_device = ga.to_gpu(x)
    equal(pickle.loads(pickle.dumps(on_device)), x)
    assert repr(on_device) == repr(x) and str(on_device) == str(x) and len(on_device) == 5
    assert bool(ga.to_gpu(np.ones(1))) and not ga.to_gpu(np.zeros(1))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(on_device)
    with pytest.raises(TypeError, match="unhashable"):
        hash(on_device)
    with pytest.raises(TypeError, match="unsized"):
        len(ga.zeros((), np.float32))


# -- arithmetic ---------------------------------------------------------------------------------


def test_arithmetic(ga, x):
    a, b = ga.to_gpu(x), ga.to_gpu(x[::-1].copy())
    y = x[::-1]
    for result, expected in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (a / b, x / y),
        (a + 1, x + 1),
        (1 + a, 1 + x),
        (a - 1, x - 1),
        (1 - a, 1 - x),
        (a * 2, x * 2),
        (2 * a, 2 * x),
        (a / 4, x / 4),
        (1 / a, 1 / x),
        (a**2, x**2),
        (-a, -x),
        (+a, x),
        (abs(a), abs(x)),
        (a.mul_add(2, b, 3), 2 * x + 3 * y),
    ):
        np.testing.assert_allclose(result.get(), expected, rtol=1e-6)
        assert result.dtype == np.float32


def test_arithmetic_in_place(ga, x):
    a = same = ga.to_gpu(x.copy())
    a += 1
    a *= a
    a -= ga.to_gpu(x)
    a /= 2
    a **= 2
    assert a is same
    np.testing.assert_allclose(a.get(), (((x + 1) ** 2 - x) / 2) ** 2, rtol=1e-6)


def test_types_follow_numpys_rules(ga):
    i, f = ga.to_gpu(np.arange(1, 4, dtype=np.int32)), ga.to_gpu(np.ones(3, np.float32))
    assert (i + f).dtype == np.float64 and (f + 2).dtype == np.float32
    assert (i + 2).dtype == np.int32 and (i + 2.5).dtype == np.float64
    assert (f * 1j).dtype == np.complex64
    equal(abs(ga.to_gpu(np.array([3 + 4j]))), np.array([5.0]))


def test_integers_divide_as_in_c(ga):
    i = ga.to_gpu(np.array([-7, 7, 5], np.int32))
    equal(i / ga.to_gpu(np.array([2, 2, 0], np.int32)), np.array([-3, 3, -1], np.int32))
    with pytest.raises(struct.error, match="astype"):
        i / 2
    with pytest.raises(ZeroDivisionError):  # of Python: 1 / 0 comes first
        ga.ones(2, np.float32) / 0


def test_comparisons_give_the_arrays_own_type(ga, x):
    a = ga.to_gpu(x)
    for result, expected in (
        (a > 0, x > 0),
        (a <= 0.25, x <= 0.25),
        (a == a, x == x),
        (a != a, x != x),
        (a < 1, x < 1),
        (a >= 1, x >= 1),
    ):
        equal(result, expected.astype(np.float32))


def test_shapes_do_not_broadcast(ga):
    a = ga.zeros((2, 3), np.float32)
    with pytest.raises(NotImplementedError, match="Broadcasting"):
        a + ga.zeros(3, np.float32)
    equal(a + ga.ones((), np.float32), np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match=r"unsupported operand|Concatenation"):
        np.zeros((2, 3), np.float32) + a
    with pytest.raises(TypeError, match="unsupported operand"):
        a + None


def test_arrays_with_gaps_are_refused(ga):
    a = ga.to_gpu(np.arange(16, dtype=np.float32).reshape(4, 4))
    part = a[:, ::2]
    for use in (
        lambda: part + 1,
        lambda: -part,
        lambda: part.reshape(8),
        lambda: part.reverse(),
        lambda: part.fill(1),
        lambda: part.astype(np.float64),
    ):
        with pytest.raises(RuntimeError, match="only contiguous arrays"):
            use()


# -- views --------------------------------------------------------------------------------------


def test_views_share_memory(ga):
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    a = ga.to_gpu(host)
    for index in (
        0,
        (1, 2),
        (slice(None), 1),
        (..., 2),
        (slice(None, None, -1), slice(1, 3)),
        (None, 1),
        (1, 2, 3),
        slice(2, 2),
    ):
        np.testing.assert_array_equal(a[index].get(), host[index])
    a[1, 2, 3] = 99
    a[0][1] = np.zeros(4, np.int32)
    a[1, 0] = a[1, 1]
    host[1, 2, 3], host[0, 1], host[1, 0] = 99, 0, host[1, 1]
    np.testing.assert_array_equal(a.get(), host)
    np.testing.assert_array_equal(a.T.get(), host.T)
    np.testing.assert_array_equal(a.transpose((1, 0, 2)).get(), host.transpose(1, 0, 2))
    np.testing.assert_array_equal(a.reshape(4, -1).get(), host.reshape(4, 6))
    np.testing.assert_array_equal(a.ravel().get(), host.ravel())
    np.testing.assert_array_equal(a.view(np.int16).get(), host.view(np.int16))
    np.testing.assert_array_equal(a[:1].squeeze().get(), host[0])


def test_bad_indices_and_shapes(ga):
    a = ga.zeros((2, 3), np.float32)
    for index in ([0, 1], np.array([0, 1]), a, "x", 1.5, (0, [1])):
        with pytest.raises(IndexError, match="invalid subindex"):
            a[index]
    for index in (5, (0, 3), (0, 0, 0)):
        with pytest.raises(IndexError):
            a[index]
    with pytest.raises(ValueError, match="same shape"):
        a[0] = np.zeros(2, np.float32)
    with pytest.raises(TypeError, match="same dtype"):
        a[0] = np.zeros(3)
    with pytest.raises(TypeError, match="GPUArray or ndarray"):
        a[0] = [1, 2, 3]
    with pytest.raises(ValueError, match="total size"):
        a.reshape(5)
    with pytest.raises(ValueError, match="one unknown"):
        a.reshape(-1, -1)
    with pytest.raises(NotImplementedError, match="textures"):
        a.bind_to_texref(None)


def test_freed_memory_is_not_touched(ga):
    import pycuda.driver as drv

    a = ga.zeros(4, np.float32)
    a.gpudata.free()
    with pytest.raises(drv.LogicError, match="freed"):
        a.get()


# -- functions ----------------------------------------------------------------------------------


def test_reductions_give_arrays_without_dimensions(ga, x):
    a = ga.to_gpu(x)
    for result, expected in (
        (ga.sum(a), x.sum()),
        (ga.max(a), 3.5),
        (ga.min(a), -2.5),
        (ga.dot(a, a), (x * x).sum()),
    ):
        assert result.shape == () and result.dtype == np.float32
        np.testing.assert_allclose(result.get(), expected, rtol=1e-6)
    equal(ga.sum(ga.to_gpu(np.full(3, 100, np.int8))), np.int8(44))
    equal(ga.sum(ga.to_gpu(np.full(3, 100, np.int8)), dtype=np.int32), np.int32(300))
    assert ga.max(ga.to_gpu(np.array([1, np.nan, 3]))).get() == 3
    chosen = ga.to_gpu(np.array([0, 4], np.int32))
    assert ga.subset_sum(chosen, a).get() == 1 and ga.subset_max(chosen, a).get() == 3.5
    assert ga.subset_dot(chosen, a, a).get() == 2.5**2 + 3.5**2
    assert a.any().get() and not a.all().get() == 0


def test_choosing_elements(ga, x):
    a, index = ga.to_gpu(x), ga.to_gpu(np.array([4, 0, 0], np.int32))
    equal(ga.take(a, index), x[[4, 0, 0]])
    with pytest.raises(IndexError, match="has 5 elements"):
        ga.take(a, ga.to_gpu(np.array([5], np.int32)))
    equal(ga.if_positive(a, a, -a), np.abs(x))
    equal(ga.where(a > 0, a, ga.zeros_like(a)), np.where(x > 0, x, 0).astype(np.float32))
    equal(ga.minimum(a, 0), np.minimum(x, 0))
    equal(ga.maximum(a, -a), np.abs(x))
    with pytest.raises(ValueError, match="shapes"):
        ga.if_positive(a, a, a[:2])


def test_joining_and_others(ga, x):
    a = ga.to_gpu(x)
    equal(ga.concatenate([a, a]), np.concatenate([x, x]))
    equal(ga.stack([a, -a]), np.stack([x, -x]))
    equal(a.reverse(), x[::-1])
    equal(a.astype(np.int32), x.astype(np.int32))
    equal(a.copy().fill(2), np.full(5, 2, np.float32))
    z = ga.to_gpu(np.array([1 + 2j, 3j]))
    equal(z.real, np.array([1.0, 0]))
    equal(z.imag, np.array([2.0, 3]))
    equal(z.conj(), np.array([1 - 2j, -3j]))
    with pytest.raises(ValueError, match="same shape"):
        ga.stack([a, a[:2]])


@pytest.mark.parametrize(
    "name",
    [
        "fabs",
        "ceil",
        "floor",
        "exp",
        "log",
        "log10",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
    ],
)
def test_functions_of_elements(ga, name):
    from pycuda import cumath

    x = np.array([0.1, 0.5, 0.9], np.float32)
    function = getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(name, name))
    out = ga.empty(3, np.float32)
    assert getattr(cumath, name)(ga.to_gpu(x), out=out) is out
    np.testing.assert_allclose(out.get(), function(x), rtol=1e-6)


def test_functions_of_two(ga):
    from pycuda import cumath

    a, b = np.array([5.5, -5.5]), np.array([2.0, 2.0])
    equal(cumath.fmod(ga.to_gpu(a), ga.to_gpu(b)), np.fmod(a, b))
    significand, exponent = cumath.frexp(ga.to_gpu(a))
    equal(cumath.ldexp(significand, exponent), a)
    fraction, whole = cumath.modf(ga.to_gpu(a))
    equal(whole, np.array([5.0, -5]))
    equal(fraction, np.array([0.5, -0.5]))


def test_random_numbers(ga):
    from pycuda import curandom

    uniform = curandom.rand(1000).get()
    assert uniform.dtype == np.float32 and 0 <= uniform.min() and uniform.max() < 1
    generator = curandom.XORWOWRandomNumberGenerator(lambda n: ga.to_gpu(np.arange(n)))
    again = curandom.XORWOWRandomNumberGenerator(lambda n: ga.to_gpu(np.arange(n)))
    normal = generator.gen_normal(1000, np.float64).get()
    assert abs(normal.mean()) < 0.2 and 0.8 < normal.std() < 1.2
    np.testing.assert_array_equal(again.gen_normal(1000, np.float64).get(), normal)
    drawn = generator.fill_uniform(ga.empty(1000, np.float32)).get()
    assert 0 < drawn.min() and drawn.max() <= 1
    assert generator.gen_uniform(10, np.uint32).dtype == np.uint32
    assert (generator.gen_poisson(100, np.uint32, 3).get() < 50).all()
    with pytest.raises(NotImplementedError, match="int32"):
        generator.gen_normal(3, np.int32)
    with pytest.raises(NotImplementedError, match="quasi-random"):
        curandom.Sobol32RandomNumberGenerator()


def test_vector_types(ga):
    from pycuda.compiler import SourceModule

    point = ga.vec.make_float3(1, 2, 3)
    assert ga.vec.float3.itemsize == 12 and point["y"] == 2
    with pytest.raises(TypeError, match="3 values for x, y, z"):
        ga.vec.make_float3(1, 2)
    a = ga.to_gpu(np.array([(1, 2), (3, 4)], ga.vec.int2))
    SourceModule(
        "__global__ void k(int2 *p, float3 by) { p[threadIdx.x].x *= by.z; }"
    ).get_function("k")(a, point[()], block=(2, 1, 1))
    assert a.get()["x"].tolist() == [3, 9]
    with pytest.raises(NotImplementedError, match="take for each array"):
        _ = ga.multi_take


# -- kernels of elements and reductions ---------------------------------------------------------


@pytest.fixture(scope="module")
def combination(ga):
    from pycuda.elementwise import ElementwiseKernel

    return ElementwiseKernel(
        "float a, float *x, float b, const float *y, float *z",
        "z[i] = a*x[i] + b*y[i]",
        "linear_combination",
    )


def test_elements(ga, combination):
    x, y = np.random.default_rng(1).uniform(size=(2, 1000)).astype(np.float32)
    a, b, c = ga.to_gpu(x), ga.to_gpu(y), ga.empty(1000, np.float32)
    with virtualgpu.check() as report, virtualgpu.profile() as profile:
        combination(5, a, 6, b, c)
    np.testing.assert_allclose(c.get(), 5 * x + 6 * y, rtol=1e-6)
    assert report.ok and profile.launches[0].kernel == "linear_combination"
    c.fill(0)
    combination(5, a, 6, b, c, range=slice(10, 100, 3))
    assert np.flatnonzero(c.get()).tolist() == list(range(10, 100, 3))
    c.fill(0)
    combination(5, a, 6, b, c, slice=slice(-3, None))
    assert np.flatnonzero(c.get()).tolist() == [997, 998, 999]


def test_what_elements_refuse(ga, combination):
    from pycuda.elementwise import ElementwiseKernel

    a = ga.zeros(8, np.float32)
    with pytest.raises(TypeError, match="takes 5 arguments, not 2"):
        combination(1, a)
    with pytest.raises(RuntimeError, match="non-contiguous"):
        combination(1, a, 2, ga.zeros(16, np.float32)[::2], a)
    with pytest.raises(MemoryAccessError, match=r"z\[i\] = a\*x\[i\]"):
        combination(1, a, 2, ga.zeros(7, np.float32), a)
    with pytest.raises(RuntimeError, match="at least one vector"):
        ElementwiseKernel("float a", "a")
    with pytest.raises(ValueError, match="unknown type 'flaot'"):
        ElementwiseKernel("flaot *a", "a[i] = 0")


@pytest.mark.rehearsal
def test_complex_elements(ga):
    from pycuda.elementwise import ElementwiseKernel

    turn = ElementwiseKernel("pycuda::complex<float> *z", "z[i] = conj(z[i]) * z[i]", "turn")
    z = ga.to_gpu(np.array([3 + 4j, 2j], np.complex64))
    turn(z)
    equal(z, np.array([25, 4], np.complex64))


@pytest.mark.parametrize("size", [1, 31, 512, 513, 2048, 2049, 100_000])
def test_reduction_kernels(ga, size):
    from pycuda.reduction import ReductionKernel

    dot = ReductionKernel(
        np.float64,
        neutral="0",
        reduce_expr="a+b",
        map_expr="w*x[i]*y[i]",
        arguments="const double *x, const double *y, double w",
        name="dot",
    )
    x, y = np.random.default_rng(2).uniform(size=(2, size))
    with virtualgpu.check() as report:
        result = dot(ga.to_gpu(x), ga.to_gpu(y), 2)
    assert report.ok and result.shape == () and report.launches == (1 if size <= 2048 else 2)
    np.testing.assert_allclose(result.get(), 2 * x @ y, rtol=1e-12)


def test_reductions_by_default_and_into(ga):
    from pycuda.reduction import ReductionKernel

    largest = ReductionKernel(np.int32, neutral="-2147483647", reduce_expr="max(a, b)")
    out = ga.empty((), np.int32)
    assert largest(ga.to_gpu(np.array([3, 9, -1], np.int32)), out=out) is out
    assert out.get() == 9
    with pytest.raises(RuntimeError, match="non-contiguous"):
        largest(ga.zeros(8, np.int32)[::2])
    with pytest.raises(TypeError, match="takes 1 argument,"):
        largest(out, out)
    with pytest.raises(RuntimeError, match="vector"):
        ReductionKernel(np.int32, "0", "a+b", "n", "int n")


# -- what PyCUDA's own tests check (``python -m lab.suites pycuda``) ----------------------------


def test_logical_functions(ga):
    left, right = ga.to_gpu(np.array([0.0, 0, 2])), ga.to_gpu(np.array([0.0, 3, 4]))
    equal(ga.logical_and(left, right), [False, False, True])
    equal(ga.logical_or(left, right), [False, True, True])
    out = ga.empty(3, bool)
    assert ga.logical_not(left, out) is out
    equal(out, [True, True, False])
    equal(ga.logical_and(left, 1), [False, False, True])


def test_elementwise_functions_take_the_result_or_the_stream_second(ga):
    from pycuda import cumath
    from pycuda.driver import Stream

    given = ga.to_gpu(np.array([0.0, 1]))
    out = ga.empty_like(given)
    assert cumath.exp(given, out) is out
    equal(cumath.exp(given, Stream()), np.exp([0.0, 1]))


def test_sums_lie_where_the_allocator_says(ga):
    from pycuda.driver import mem_alloc

    asked = []

    def allocator(size):
        asked.append(size)
        return mem_alloc(size)

    numbers = ga.to_gpu(np.arange(4.0))
    chosen = ga.to_gpu(np.array([1, 3], np.int32))
    assert float(ga.subset_sum(chosen, numbers, allocator=allocator).get()) == 4
    assert asked == [8]


def test_a_type_is_registered_before_its_name(ga):
    from pycuda.tools import dtype_to_ctype, register_dtype

    pair = np.dtype([("low", np.float32), ("high", np.float32)])
    register_dtype(pair, "low_and_high")
    assert dtype_to_ctype(pair) == "low_and_high"


def test_a_fixture_has_a_context_of_its_own(ga):
    from pycuda._context import _stack
    from pycuda.tools import init_cuda_context_fixture

    before = list(_stack)
    fixture = init_cuda_context_fixture()
    next(fixture)
    assert len(_stack) == len(before) + 1
    assert next(fixture, "over") == "over"
    assert _stack == before


@pytest.mark.parametrize("size", [1, 512, 513, 5000])
def test_scans(ga, size):
    from pycuda.scan import ExclusiveScanKernel, InclusiveScanKernel

    x = np.random.default_rng(size).integers(0, 10, size, np.int32)
    add_up = InclusiveScanKernel(np.int32, "a+b")
    before = ExclusiveScanKernel(np.int32, "a+b", "0")
    given = ga.to_gpu(x)
    with virtualgpu.check() as report:
        assert before(given, "new").get().tolist() == [0, *x.cumsum()[:-1]]
        assert add_up(given) is given
    assert not report.findings
    assert (given.get() == x.cumsum()).all()
    later = InclusiveScanKernel(np.int32, "b")  # which is no sum: the order of both matters
    assert (later(ga.to_gpu(x)).get() == x).all()


def test_what_scans_refuse(ga):
    from pycuda.scan import ExclusiveScanKernel, InclusiveScanKernel

    with pytest.raises(ValueError, match="neutral element is required"):
        ExclusiveScanKernel(np.int32, "a+b")
    add_up = InclusiveScanKernel(np.float32, "a+b")
    with pytest.raises(ValueError, match="same shape"):
        add_up(ga.zeros(3, np.float32), ga.zeros(4, np.float32))
    with pytest.raises(RuntimeError, match="non-contiguous"):
        add_up(ga.zeros(6, np.float32)[::2])


def test_a_reduction_refuses_an_output_that_does_not_fit(ga, x):
    from pycuda.reduction import ReductionKernel

    total = ReductionKernel(np.float32, "0", "a+b", "x[i]", "float *x")
    given, out = ga.to_gpu(x), ga.zeros(3, np.float32)
    total(given, out=out[1:2])
    assert out.get().tolist() == [0, x.sum(), 0]
    with pytest.raises(ValueError, match="out must have the same dtype as dtype_out: it is float"):
        total(given, out=ga.zeros(1, np.float64))
    with pytest.raises(ValueError, match="out array is empty"):
        total(given, out=ga.zeros(1, np.float32)[:0])


@pytest.mark.parametrize(
    ("call", "shape", "dtype"),
    [
        (lambda ga, x, out: __import__("pycuda.cumath").cumath.sin(x, out=out), (7,), np.float32),
        (lambda ga, x, out: __import__("pycuda.cumath").cumath.exp(x, out=out), (5,), np.float64),
        (lambda ga, x, out: ga.if_positive(x, x, x, out=out), (3, 5), np.float32),
        (lambda ga, x, out: ga.where(x, x, x, out=out), (2, 5), np.float32),
        (lambda ga, x, out: ga.maximum(x, x, out=out), (2, 5), np.float32),
        (lambda ga, x, out: ga.take(x, ga.to_gpu(np.array([0])), out=out), (4,), np.float32),
        (lambda ga, x, out: ga.logical_not(x, out=out), (5,), np.float32),
        (lambda ga, x, out: x.mul_add(1, x, 2, out=out), (2, 5), np.float32),
    ],
)
def test_an_output_of_another_shape_or_type_stays_as_it_was(ga, x, call, shape, dtype):
    out = ga.to_gpu(np.full(shape, 3, dtype))
    with pytest.raises(AssertionError, match="out has"):
        call(ga, ga.to_gpu(x), out)
    assert (out.get() == 3).all()
