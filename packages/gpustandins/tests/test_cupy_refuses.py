"""What CuPy refuses, its stand-in refuses; beside each the nearest that CuPy takes.

Held against CuPy 14's source: ``cuda/function.pyx``, ``_core/_scalar.pyx``, ``_core/_kernel.pyx``,
``_core/_reduction.pyx``, ``_core/core.pyx`` and ``_core/internal.pyx``.
"""

from __future__ import annotations

import enum

import numpy as np
import pytest


class Three(enum.IntEnum):
    VALUE = 3


class Wrapped:
    """Somebody else's array on the device."""

    def __init__(self, array):
        self.kept, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


@pytest.fixture(scope="module")
def stores(cp):
    return cp.RawKernel(
        'extern "C" __global__ void k(float *x, long long n) '
        "{ if (threadIdx.x < n) x[threadIdx.x] = 1; }",
        "k",
    )


@pytest.fixture(scope="module")
def adds(cp):
    return cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x + y", "adds")


@pytest.fixture(scope="module")
def sums(cp):
    return cp.ReductionKernel("float32 x", "float32 y", "x", "a + b", "y = a", "0", "sums")


@pytest.fixture
def x(cp):
    return cp.zeros(8, np.float32)


def numba_array(dtype=np.float32, length=8):
    from numba import cuda

    return cuda.to_device(np.zeros(length, dtype))


# -- raw kernels ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (numba_array, r"Unsupported type .*DeviceNDArray"),
        (lambda: np.zeros(2, np.int64), r"numpy\.ndarray of shape \(2,\)"),
        (lambda: Three.VALUE, "Unsupported type"),
        (lambda: "3", "Unsupported type"),
        (lambda: [3], "Unsupported type"),
    ],
    ids=["numba", "numpy", "enum", "text", "list"],
)
def test_an_argument_of_a_raw_kernel(cp, stores, x, value, said):
    with pytest.raises(TypeError, match=said):
        stores((1,), (8,), (x, value()))
    with pytest.raises(TypeError, match=said):
        cp.RawModule(code=stores.code).get_function("k")((1,), (8,), (x, value()))


def test_an_array_that_only_lies_on_the_device(stores, x):
    with pytest.raises(TypeError, match=r"Unsupported type .*Wrapped"):
        stores((1,), (8,), (Wrapped(x), 3))


@pytest.mark.parametrize(
    "value",
    [3, np.int64(3), np.array([3]), np.array(3)],
    ids=["int", "scalar", "of one element", "of no dimension"],
)
def test_what_a_raw_kernel_takes(stores, x, value):
    stores((1,), (8,), [x, value])
    assert x.get().tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_ints_up_to_64_bits(cp, stores, x):
    out = cp.zeros(1, np.uint64)
    keep = cp.RawKernel(
        'extern "C" __global__ void k(unsigned long long *x, unsigned long long v) { *x = v; }', "k"
    )
    keep((1,), (1,), (out, 2**64 - 1))
    assert int(out[0]) == 2**64 - 1
    with pytest.raises(OverflowError):
        keep((1,), (1,), (out, 2**64))


@pytest.mark.parametrize(
    ("launch", "error"),
    [
        (((1.0,), (8,)), TypeError),
        (((np.ceil(0.5),), (8,)), TypeError),
        (((1,), (8.0,)), TypeError),
        ((1, (8,)), TypeError),
        ((([1]), (8,)), TypeError),
        (((), (8,)), IndexError),
    ],
    ids=["float", "ceil", "block", "int", "list", "empty"],
)
def test_a_grid_is_a_tuple_of_ints(stores, x, launch, error):
    with pytest.raises(error):
        stores(*launch, (x, 3))
    stores((np.int64(1),), (8, 1), (x, 3))
    assert x.get().sum() == 3


def test_the_other_arguments_of_a_launch(cp, stores, x):
    from numba import cuda

    with pytest.raises(TypeError, match="has no len"):
        stores((1,), (8,), (one for one in (x, 3)))
    with pytest.raises(TypeError):
        stores((1,), (8,), (x, 3), shared_mem=64.0)
    with pytest.raises(OverflowError):
        stores((1,), (8,), (x, 3), shared_mem=-1)
    for stream in (cuda.stream(), 0):
        with pytest.raises(AttributeError, match="ptr"):
            stores((1,), (8,), (x, 3), stream=stream)
        with pytest.raises(AttributeError, match="ptr"):
            x.get(stream=stream)
        with pytest.raises(AttributeError, match="ptr"):
            x.set(np.zeros(8, np.float32), stream=stream)
    stores((1,), (8,), (x, 3), shared_mem=64, stream=cp.cuda.Stream())
    assert x.get().sum() == 3


# -- generated kernels ----------------------------------------------------------------------------


def test_numbers_of_generated_kernels(adds, x):
    for value in (Three.VALUE, [1.0], None, np.array(3.0), np.zeros(8, np.float32)):
        with pytest.raises(TypeError, match="Unsupported type"):
            adds(x, value)
    assert adds(x, 3).get().tolist() == adds(x, np.float64(3)).get().tolist() == [3] * 8


def test_arrays_of_others_are_operands_and_outputs_of_generated_kernels(cp, adds, sums, x):
    """Other than of raw kernels."""
    there, total = numba_array(), cp.zeros((), np.float32)
    x += 2
    assert adds(x, numba_array(), there).get().tolist() == [2] * 8
    assert there.copy_to_host().tolist() == [2] * 8
    sums(there, out=Wrapped(total))
    assert total == 16
    for wrong in (np.zeros(8, np.float32), [0.0] * 8):
        with pytest.raises(TypeError):
            adds(x, x, wrong)
        with pytest.raises(TypeError):
            sums(x, out=wrong)


@pytest.mark.parametrize("options", [["-DX"], "-DX"], ids=["list", "text"])
def test_options_are_a_tuple(cp, x, options):
    with pytest.raises(TypeError, match="expected tuple"):
        cp.ElementwiseKernel("T x", "T y", "y = X", "k", options=options)(x)
    with pytest.raises(TypeError, match="expected tuple"):
        cp.ReductionKernel("T x", "T y", "X", "a + b", "y = a", "0", "k", options=options)(x)
    assert cp.ElementwiseKernel("T x", "T y", "y = X", "k", options=("-DX=4",))(x)[0] == 4


def test_keywords_of_generated_kernels(cp, sums, x):
    with pytest.raises(TypeError, match="dtype"):
        sums(x, dtype=np.float64)
    by_size = cp.ElementwiseKernel("raw T x", "T y", "y = x[i]", "by_size")
    with pytest.raises(TypeError):
        by_size(x, size=8.0)
    assert by_size(x, size=np.int64(8)).shape == (8,)


# -- arrays ---------------------------------------------------------------------------------------


def test_get_into_an_array_with_gaps(cp, x):
    with pytest.raises(RuntimeError, match="non-contiguous"):
        x.get(out=np.zeros((8, 2), np.float32)[:, 0])
    table = cp.arange(6, dtype=np.float32).reshape(2, 3)
    out = np.zeros((2, 3), np.float32, order="F")
    assert table.get(out=out) is out and out.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_set_takes_numpy_arrays_alone(x):
    for wrong in (x, numba_array(), [0.0] * 8, np.float32(1)):
        with pytest.raises(TypeError, match=r"Only numpy\.ndarray"):
            x.set(wrong)
    with pytest.raises(TypeError, match="float64 array cannot be set"):
        x.set(np.zeros(8))


def test_arrays_of_the_device_are_joined_with_their_like_alone(cp, x):
    for wrong in ([x, np.zeros(8, np.float32)], [x[0], 1.0], [x, x[:3]], [[x[0]], [2.0]]):
        with pytest.raises((TypeError, ValueError), match=r"NumPy array|inhomogeneous"):
            cp.array(wrong)
    assert cp.array([x, x]).shape == (2, 8) and cp.array([[x[0], x[1]]]).shape == (1, 2)
    assert cp.array([x, numba_array()]).shape == (2, 8)
    assert cp.array([np.zeros(3), [1, 2, 3]]).shape == (2, 3)


@pytest.mark.parametrize("shape", [3.0, np.float64(3), (2.0, 3), True, None])
def test_a_shape_is_of_ints(cp, shape):
    for make in (cp.zeros, cp.empty, cp.ones, cp.ndarray):
        with pytest.raises(TypeError):
            make(shape)
    assert cp.zeros(np.int32(3)).shape == cp.zeros([3]).shape == (3,)


def test_an_output_is_an_array_of_the_device(cp, x):
    host = np.zeros(8, np.float32)
    for call in (
        lambda: cp.add(x, x, out=host),
        lambda: cp.sum(x, out=host),
        lambda: cp.cumsum(x, out=host),
        lambda: cp.clip(x, 0, 1, out=host),
        lambda: cp.dot(x, x, out=host),
        lambda: cp.sqrt(x, out=host),
        lambda: cp.random.default_rng(1).random(out=host),
    ):
        with pytest.raises((TypeError, AttributeError)):
            call()
    assert (host == 0).all()
    out = cp.zeros(8, np.float32)
    assert cp.add(x, x, out=out) is out


@pytest.mark.parametrize("how", ["dtype", "array_class", "type"])
def test_views_as_a_class_of_ones_own_are_named(cp, how):
    class Measured(cp.ndarray):
        pass

    with pytest.raises(
        NotImplementedError, match=r"view an array as Measured: .* not support subclasses"
    ):
        cp.arange(3).view(**{how: Measured})
    assert cp.arange(3).view(type=cp.ndarray).shape == (3,)
