"""A walk from PyCUDA to Awkward Arrays, step by step, as an introductory lecture takes it.

The steps follow a published three-hour tutorial (ATLAS, November 2023) from its first GPU cell to
its last, all but PyTorch's. Where it shows exact numbers they are demanded here; where its numbers
are random, what must hold for any; where it takes a hundred million elements, SCALED says how many
are taken here. Each test is one stop; none depends on another.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import MemoryAccessError

# Elements in the tutorial → here. Times are not measured: no GPU runs.
SCALED = {
    "sort": (100_000_000, 1_000_000),
    "loop": (1_000_000, 1_000),
    "jets": (1_000_000, 100_000),
}
MILLION = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def notebook() -> Iterator[None]:
    """What ``%load_ext gpucourse`` does where there is no GPU, undone at the end."""
    virtualgpu.activate()
    yield
    virtualgpu.deactivate()


@pytest.fixture
def cp():
    import cupy

    return cupy


def quadratic(a, b, c):
    """The greater root of a·x² + b·x + c, for numbers and for arrays of any library."""
    root = np.sqrt(b**2 - 4 * a * c)
    return (-b + root) / (2 * a)


def coefficients(random, n: int) -> tuple:
    return random.uniform(5, 10, n), random.uniform(10, 20, n), random.uniform(-0.1, 0.1, n)


# -- PyCUDA -----------------------------------------------------------------------------------


def test_pycuda_runs_cuda_cpp_in_a_string():
    import pycuda.autoinit
    import pycuda.driver
    from pycuda.compiler import SourceModule

    module = SourceModule("""
        __global__ void add_one(int *numbers)
        {
            numbers[threadIdx.x] += 1;
        }
    """)
    add_one = module.get_function("add_one")
    numbers = np.arange(1024, dtype=np.int32)
    add_one(pycuda.driver.InOut(numbers), block=(1024, 1, 1))
    assert numbers.dtype == np.int32
    assert numbers.tolist() == list(range(1, 1025))


# -- NumPy, the expressions that CuPy will have to take ---------------------------------------


def test_numpy_takes_whole_arrays():
    numbers = np.arange(1, 13)
    assert (numbers**2).tolist() == [1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144]
    assert quadratic(5, 10, -0.1) == 0.009950493836207741


def test_a_loop_over_elements_gives_the_same():
    a, b, c = coefficients(np.random.default_rng(1), SCALED["loop"][1])
    at_once = quadratic(a, b, c)
    assert all(quadratic(a[i], b[i], c[i]) == at_once[i] for i in range(len(a)))
    assert (np.abs(at_once) < 0.011).all()


# -- CuPy as an array library -----------------------------------------------------------------


def test_cupy_looks_like_numpy(cp):
    numbers = cp.arange(1, 13)
    assert repr(numbers) == "array([ 1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12])"
    assert repr(numbers**2) == (
        "array([  1,   4,   9,  16,  25,  36,  49,  64,  81, 100, 121, 144])"
    )


def test_cupy_sorts(cp):
    cp.random.seed(3)
    numbers = cp.random.uniform(5, 10, SCALED["sort"][1])
    numbers.sort()
    ends = numbers[[0, -1]].get()
    assert bool((cp.diff(numbers) >= 0).all())
    assert ends == pytest.approx([5, 10], abs=1e-4)
    assert 5 <= ends[0] < ends[1] < 10


def test_cupy_pools_its_memory(cp):
    pool = cp.get_default_memory_pool()
    first = cp.zeros(MILLION)
    address, held = first.data.ptr, pool.total_bytes()
    del first
    assert pool.total_bytes() == held, "the freed block stays with the pool"
    second = cp.empty(MILLION)
    assert second.data.ptr == address
    assert pool.total_bytes() == held, "no cudaMalloc for the second array"


def test_indices_beyond_the_end_wrap_around(cp):
    numbers = cp.array([0.0, 1.1, 2.2, 3.3, 4.4, 5.5])
    assert numbers[cp.array([2, 3, 5])].tolist() == [2.2, 3.3, 5.5]
    assert numbers[cp.array([2, 3, 5, 6, 7, 8])].tolist() == [2.2, 3.3, 5.5, 0.0, 1.1, 2.2]
    with pytest.raises(IndexError):
        numbers.get()[[2, 6]]


def test_the_formula_is_nine_passes_in_numpy_and_nine_kernels_in_cupy(cp):
    a, b, c = coefficients(np.random.default_rng(2), MILLION)
    minus_b, b_squared, four_a = np.negative(b), np.square(b), np.multiply(4, a)
    discriminant = np.subtract(b_squared, np.multiply(four_a, c))
    numerator = np.add(minus_b, np.sqrt(discriminant))
    passes = np.divide(numerator, np.multiply(2, a))
    assert (passes == quadratic(a, b, c)).all()

    on_device = [cp.asarray(one) for one in (a, b, c)]
    with virtualgpu.launches() as launched:
        result = quadratic(*on_device)
    assert len(launched) == 9
    assert launched.exact
    np.testing.assert_allclose(result.get(), passes, rtol=1e-12)


# -- CuPy compiles C++ ------------------------------------------------------------------------


def test_an_elementwise_kernel(cp):
    power = cp.ElementwiseKernel(
        "float64 base, int64 exponent",
        "float64 result",
        "result = 1; for (int k = 0; k < exponent; ++k) result *= base;",
        "power",
    )
    assert "ElementwiseKernel" in repr(power)
    assert "cupy" in type(power).__module__
    b = cp.random.uniform(10, 20, MILLION)
    squares = power(b, 2)
    assert float(cp.abs(squares - b**2).max()) < 1e-10
    assert 100 <= float(squares.min()) < float(squares.max()) <= 400


QUADRATIC = r"""
extern "C" __global__
void roots(const double *a, const double *b, const double *c, double *x{more})
{{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    {guard}
    const double discriminant = b[k] * b[k] - 4 * a[k] * c[k];
    x[k] = (sqrt(discriminant) - b[k]) / (2 * a[k]);
}}
"""


def test_a_raw_kernel(cp):
    source = QUADRATIC.format(more=", int n", guard="if (k >= n) return;")
    kernel = cp.RawKernel(source, "roots")
    a, b, c = coefficients(cp.random, MILLION)
    x = cp.empty_like(a)
    blocks = -(-len(x) // 1024)
    kernel((blocks,), (1024,), (a, b, c, x, np.int32(len(x))))
    np.testing.assert_allclose(x.get(), quadratic(a, b, c).get(), rtol=0, atol=1e-12)


def test_without_a_guard_the_last_block_is_caught_beyond_the_end(cp):
    """977 blocks of 1024 threads for a million elements: 448 threads have none."""
    kernel = cp.RawKernel(QUADRATIC.format(more="", guard=""), "roots")
    a, b, c = coefficients(cp.random, MILLION)
    with pytest.raises(MemoryAccessError, match=r"past the end|after the end"):
        kernel((-(-MILLION // 1024),), (1024,), (a, b, c, cp.empty_like(a)))


# -- Numba compiles Python --------------------------------------------------------------------


def test_numba_on_the_cpu():
    import numba

    @numba.njit
    def roots(a, b, c):
        x = np.empty_like(a)
        for k in range(len(x)):
            x[k] = (-b[k] + np.sqrt(b[k] ** 2 - 4 * a[k] * c[k])) / (2 * a[k])
        return x

    numbers = coefficients(np.random.default_rng(4), MILLION)
    np.testing.assert_allclose(roots(*numbers), quadratic(*numbers), rtol=0, atol=1e-14)


def test_numba_on_the_gpu_with_cupy_arrays(cp):
    from numba import cuda
    from numba.cuda.libdevice import sqrt

    @cuda.jit
    def roots(a, b, c, x):
        k = cuda.grid(1)
        if k < x.size:
            x[k] = (-b[k] + sqrt(b[k] ** 2 - 4 * a[k] * c[k])) / (2 * a[k])

    a, b, c = coefficients(cp.random, MILLION)
    x = cp.empty_like(a)
    roots[-(-len(x) // 1024), 1024](a, b, c, x)
    np.testing.assert_allclose(x.get(), quadratic(a, b, c).get(), rtol=0, atol=1e-12)


# -- cuDF -------------------------------------------------------------------------------------


def test_cudf_groups_particles_into_jets(cp):
    import cudf

    n = SCALED["jets"][1]
    jets = cp.cumsum(cp.random.poisson(0.1, n))
    table = cudf.DataFrame(
        {
            "jet": jets,
            **{name: cp.random.normal(0, 10, n) for name in ("px", "py", "pz")},
            "E": cp.random.normal(20, 10, n),
        }
    )
    assert table.shape == (n, 5)
    assert list(table.columns) == ["jet", "px", "py", "pz", "E"]
    assert f"[{n} rows x 5 columns]" in repr(table)
    assert table["px"].values.data.ptr == table["px"].to_cupy().data.ptr

    sums = table.groupby("jet").sum().sort_index()
    ids = jets.get()
    present = np.unique(ids)
    assert sums.index.to_numpy().tolist() == present.tolist()
    assert 0.08 * n < len(sums) < 0.12 * n
    for name in ("px", "py", "pz", "E"):
        expected = np.bincount(ids, table[name].to_numpy())[present]
        np.testing.assert_allclose(sums[name].to_numpy(), expected, rtol=0, atol=1e-8)


# -- Awkward Arrays ---------------------------------------------------------------------------


def test_awkward_arrays_on_the_gpu_and_in_a_kernel(cp):
    import awkward as ak
    from numba import cuda

    lists = ak.Array([[1.1, 2.2, 3.3], [], [4.4, 5.5]])
    on_device = ak.to_backend(lists, "cuda")
    assert type(on_device.layout.content.data) is cp.ndarray
    assert ak.backend(on_device) == "cuda"
    assert str(on_device.type) == "3 * var * float64"
    assert on_device.to_list() == lists.to_list()

    ak.numba.register_and_check()

    @cuda.jit(extensions=[ak.numba.cuda])
    def add_up(lists, totals):
        event = cuda.grid(1)
        totals[event] = 0
        for number in lists[event]:
            totals[event] += number

    totals = cp.empty(3, dtype=np.float64)
    add_up[1, 3](on_device, totals)
    assert totals.get() == pytest.approx([6.6, 0.0, 9.9])
    assert repr(totals) == "array([6.6, 0. , 9.9])"
