"""``cupyx.scipy``: SciPy's values, on the device; what CuPy refuses is refused."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import scipy  # its parts when they are first used: they take 1.4 s to import

pytestmark = pytest.mark.usefixtures("active")
RNG = np.random.default_rng(36)
IMAGE, POSITIVE = RNG.normal(size=(9, 11)), RNG.uniform(0.1, 0.9, 20)
LOWPASS = np.array([[0.005, 0.01, 0.005, 1, -1.05, 0.3], [1, 2, 1, 1, -1.32, 0.63]])

# (module, function, arguments of which arrays go to the device)
CASES = [
    ("ndimage", "gaussian_filter", (IMAGE, 1.5)),
    ("ndimage", "uniform_filter1d", (IMAGE, 3)),
    ("ndimage", "median_filter", (IMAGE, 3)),
    ("ndimage", "convolve", (IMAGE, RNG.normal(size=(3, 3)))),
    ("ndimage", "map_coordinates", (IMAGE, RNG.uniform(0, 8, (2, 5)))),
    ("ndimage", "zoom", (IMAGE, 2)),
    ("ndimage", "label", (IMAGE > 0.5,)),
    ("ndimage", "binary_dilation", (IMAGE > 1,)),
    ("ndimage", "center_of_mass", (np.abs(IMAGE),)),
    ("ndimage", "sum", (IMAGE, (IMAGE > 0).astype(int), np.array([0, 1]))),
    ("signal", "fftconvolve", (IMAGE, IMAGE[:3, :3])),
    ("signal", "sosfilt", (LOWPASS, IMAGE[0])),
    ("signal", "lfilter", (np.array([1.0, 0.5]), np.array([1.0, -0.2]), IMAGE[0])),
    ("signal", "find_peaks", (IMAGE[0],)),
    ("signal", "welch", (RNG.normal(size=600),)),
    ("signal", "resample_poly", (IMAGE[0], 3, 2)),
    ("special", "erf", (IMAGE,)),
    ("special", "gammaln", (POSITIVE,)),
    ("special", "betainc", (1.5, 2.5, POSITIVE)),
    ("special", "logsumexp", (IMAGE,)),
    ("special", "j0", (IMAGE.astype(np.float32),)),
    ("linalg", "lu", (IMAGE[:6, :6],)),
    ("linalg", "toeplitz", (IMAGE[0],)),
    ("linalg", "solve_triangular", (np.tril(IMAGE[:6, :6]) + 4 * np.eye(6), IMAGE[0, :6])),
    ("fft", "dctn", (IMAGE,)),
    ("fft", "rfft", (IMAGE,)),
    ("fft", "next_fast_len", (1009,)),
    ("fftpack", "rfft", (IMAGE,)),
    ("fftpack", "ifftn", (IMAGE.astype(np.complex64),)),
    ("stats", "zscore", (IMAGE,)),
    ("stats", "entropy", (POSITIVE,)),
]


def same(found, right) -> None:
    import cupy

    if isinstance(right, dict):
        assert found.keys() == right.keys()
    elif isinstance(right, tuple):
        for one, other in zip(found, right, strict=True):
            same(one, other)
    elif isinstance(right, np.ndarray | np.generic):
        assert isinstance(found, cupy.ndarray)
        assert (found.dtype, found.shape) == (right.dtype, right.shape)
        np.testing.assert_array_equal(found.get(), right)
    else:
        assert found == right and type(found) is type(right)


@pytest.mark.parametrize(
    ("module", "name", "arguments"), CASES, ids=[f"{module}.{name}" for module, name, _ in CASES]
)
def test_values_are_scipys_and_lie_on_the_device(module, name, arguments):
    import cupy

    there = [cupy.asarray(one) if isinstance(one, np.ndarray) else one for one in arguments]
    ours = getattr(importlib.import_module(f"cupyx.scipy.{module}"), name)
    same(ours(*there), getattr(getattr(scipy, module), name)(*arguments))


def test_a_result_goes_where_it_is_wanted():
    import cupy as cp
    from cupyx.scipy import ndimage

    import virtualgpu

    x, out = cp.asarray(IMAGE), cp.empty(IMAGE.shape)
    with virtualgpu.launches() as listed:
        assert ndimage.gaussian_filter(x, 1, output=out) is out
    np.testing.assert_array_equal(out.get(), scipy.ndimage.gaussian_filter(IMAGE, 1))
    assert [one.name for one in listed] == ["cupyx.scipy.ndimage.gaussian_filter"]
    same(ndimage.shift(x, 1, texture_memory=True), scipy.ndimage.shift(IMAGE, 1))


def test_what_lies_on_the_host_and_what_is_missing_is_refused():
    import cupyx.scipy
    from cupyx.scipy import ndimage, special

    for function in (ndimage.laplace, special.erf):
        with pytest.raises(TypeError, match=r"Unsupported type <class 'numpy\.ndarray'>"):
            function(IMAGE)
    with pytest.raises(NotImplementedError, match=r"generic_filter is not in .* use scipy\.nd"):
        _ = ndimage.generic_filter
    with pytest.raises(NotImplementedError, match=r"cupyx\.scipy\.optimize is not in"):
        _ = cupyx.scipy.optimize
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ndimage.nothing


PLANS = [
    # what is transformed, how the plan is made, and the transform
    ((6, 8), {"axes": 1}, "fft", {}),
    ((6, 8), {"axes": 0}, "ifft", {"axis": 0}),
    ((6, 8), {"axes": (1,), "value_type": "R2C"}, "rfft", {}),
    ((6, 5), {"axes": -1, "value_type": "C2R"}, "irfft", {}),
    ((6, 5), {"shape": 9, "axes": -1, "value_type": "C2R"}, "irfft", {"n": 9}),
    ((3, 6, 8), {"axes": (-2, -1)}, "fft2", {}),
    ((3, 6, 8), {"shape": (4, 4), "axes": (1, 2)}, "ifft2", {"s": (4, 4)}),
    ((6, 8, 3), {"axes": (0, 1)}, "fftn", {"axes": (0, 1)}),
    ((3, 6, 8), {"axes": (1, 2), "value_type": "R2C"}, "rfftn", {"axes": (1, 2)}),
    ((4, 6, 8), {}, "fftn", {}),
]


@pytest.mark.parametrize(("shape", "how", "name", "transform"), PLANS)
def test_a_plan_is_for_the_arrays_it_was_made_for(shape, how, name, transform):
    """PtyPy, ToMoBAR: a plan as an argument and as a context manager; CuPy's user guide on FFT."""
    import cupy as cp
    import cupyx.scipy.fft

    x = np.random.default_rng(3).normal(size=shape)
    x = x if how.get("value_type") == "R2C" else x + 1j * x[::-1]
    a = cp.asarray(x)
    plan = cupyx.scipy.fft.get_fft_plan(a, **how)
    right = getattr(scipy.fft, name)(x, **transform)
    ours = getattr(cupyx.scipy.fft, name)
    np.testing.assert_allclose(ours(a, plan=plan, **transform).get(), right, atol=1e-12)
    with plan:
        assert cp.cuda.cufft.get_current_plan() is plan
        np.testing.assert_allclose(ours(a, **transform).get(), right, atol=1e-12)
        np.testing.assert_allclose(getattr(cp.fft, name)(a, **transform).get(), right, atol=1e-12)
        with pytest.raises(RuntimeError, match="either as a context manager or as an argument"):
            ours(a, plan=plan, **transform)
    assert cp.cuda.cufft.get_current_plan() is None
    narrow = a.astype(a.dtype.char.replace("D", "F").replace("d", "f"))
    for other in (a[: shape[0] - 1].copy(), narrow):
        with pytest.raises(ValueError, match=r"does not match|do not match|mismatch"):
            ours(other, plan=plan, **transform)
    assert plan.work_area.mem.size == 0


@pytest.mark.parametrize(
    ("axes", "value_type"), [((1, 2), "C2C"), ((0, 1), "C2C"), ((0, 1, 2), "C2C"), ((1, 2), "R2C")]
)
def test_a_plan_itself_transforms_and_scales_nothing(axes, value_type):
    import cupy as cp
    from cupy.cuda import cufft
    from cupyx.scipy.fft import get_fft_plan

    x = np.random.default_rng(3).normal(size=(3, 4, 6))
    if value_type == "R2C":
        a, right, kind = cp.asarray(x), np.fft.rfftn(x, axes=axes), "C2R"
    else:
        a, right, kind = cp.asarray(x + 1j), np.fft.fftn(x + 1j, axes=axes), "C2C"
    out, back = cp.empty(right.shape, complex), cp.empty_like(a)
    get_fft_plan(a, axes=axes, value_type=value_type).fft(a, out, cufft.CUFFT_FORWARD)
    np.testing.assert_allclose(out.get(), right, atol=1e-12)
    plan = get_fft_plan(out, axes=axes, value_type=kind)
    plan.fft(out, back, cufft.CUFFT_INVERSE)
    np.testing.assert_allclose(back.get(), a.get() * np.prod(plan.shape), atol=1e-10)


def test_a_plan_that_cufft_does_not_make_is_refused():
    import cupy as cp
    from cupyx.scipy.fft import fft, fft2, get_fft_plan

    a = cp.zeros((4, 6, 8), complex)
    for how, error, words in (
        ({"axes": (0, 2)}, ValueError, "General subsets of FFT axes"),
        ({"axes": 3}, ValueError, "exceeds the number of dimensions"),
        ({"shape": (2, 2), "axes": 1}, ValueError, "different lengths"),
        ({"value_type": "R2C"}, TypeError, "take real numbers"),
        ({"value_type": "Z2Z"}, ValueError, "must be 'C2C'"),
        ({"axes": (2, 1), "value_type": "C2R"}, NotImplementedError, "without a plan"),
    ):
        with pytest.raises(error, match=words):
            get_fft_plan(a, **how)
    with pytest.raises(ValueError, match="must be contiguous"):
        get_fft_plan(a[:, ::2])
    with pytest.raises(ValueError, match=r"expected plan to have type cufft\.Plan1d"):
        fft(a, plan=get_fft_plan(a, axes=(1, 2)))
    with pytest.raises(ValueError, match="Target array size does not match"):
        fft2(a, plan=get_fft_plan(a, axes=1))
    with pytest.raises(ValueError, match="expected plan"):
        fft(a, plan=1)
    turned = cp.asfortranarray(cp.zeros((4, 6), complex))
    assert fft2(turned, plan=get_fft_plan(turned)).shape == (4, 6)
    with pytest.raises(ValueError, match="orders mismatch"):
        fft2(cp.ascontiguousarray(turned), plan=get_fft_plan(turned))


def test_fftpack_takes_a_plan_and_keeps_real_transforms_as_long():
    import cupy as cp
    from cupyx.scipy.fftpack import get_fft_plan, irfft, rfft

    x = IMAGE.astype(np.float64)
    packed = rfft(cp.asarray(x), plan=get_fft_plan(cp.asarray(x), axes=1, value_type="R2C"))
    np.testing.assert_allclose(packed.get(), scipy.fftpack.rfft(x))
    half = cp.zeros((x.shape[0], x.shape[1] // 2 + 1), complex)
    plan = get_fft_plan(half, shape=x.shape[1], axes=1, value_type="C2R")
    np.testing.assert_allclose(irfft(packed, plan=plan).get(), x, atol=1e-12)


def test_the_cache_of_plans_is_empty(capsys):
    """ToMoBAR and httomolibgpu empty it."""
    import cupy as cp

    cache = cp.fft.config.get_plan_cache()
    cache.set_size(4)
    cache.clear()
    assert (cache.get_size(), cache.get_curr_size(), cache.get_curr_memsize()) == (4, 0, 0)
    cp.fft.config.show_plan_cache_info()
    assert "no plan" in capsys.readouterr().out
    with pytest.raises(NotImplementedError, match="set_cufft_callbacks"):
        _ = cp.fft.config.set_cufft_callbacks


def test_which_module_an_array_belongs_to():
    import cupy as cp
    import cupyx.scipy

    assert cupyx.scipy.get_array_module(cp.zeros(1)) is cupyx.scipy
    assert cupyx.scipy.get_array_module(IMAGE) is scipy


def test_windows_are_a_module_too():
    from cupyx.scipy.signal.windows import hann

    same(hann(8), scipy.signal.windows.hann(8))


@pytest.fixture
def pair():
    """A sparse matrix on the device, and SciPy's with the same elements."""
    import cupy as cp
    from cupyx.scipy import sparse

    dense = np.where(RNG.uniform(size=(6, 6)) < 0.4, RNG.normal(size=(6, 6)), 0) + 3 * np.eye(6)
    return sparse.csr_matrix(cp.asarray(dense)), scipy.sparse.csr_matrix(dense)


def test_sparse_matrices_compute_as_scipys(pair):
    import cupy as cp
    from cupyx.scipy.sparse import linalg

    ours, theirs = pair
    x = RNG.normal(size=6)
    for parts in ("data", "indices", "indptr"):
        same(getattr(ours, parts), getattr(theirs, parts))
    same(ours @ cp.asarray(x), theirs @ x)
    same((ours.T @ ours + 2 * ours).toarray(), (theirs.T @ theirs + 2 * theirs).toarray())
    same(ours.sum(axis=0), np.asarray(theirs.sum(axis=0)))
    same(ours[2].toarray(), theirs[2].toarray())
    assert (ours.nnz, ours.shape, ours.T.format) == (theirs.nnz, (6, 6), "csc")
    solved = linalg.spsolve(ours, cp.asarray(x))
    np.testing.assert_allclose((ours @ solved).get(), x)
    assert scipy.sparse.issparse(ours.get())


def test_a_sparse_matrix_is_made_of_its_arrays(pair):
    ours, theirs = pair
    ours.data *= 2
    same(ours.toarray(), 2 * theirs.toarray())
    ours.data[0] = 7
    assert ours.toarray().get().ravel()[theirs.indices[0]] == 7


def test_sparse_matrices_refuse_what_cupys_do():
    import cupy as cp
    from cupyx.scipy import sparse

    with pytest.raises(TypeError, match="Unsupported type"):
        sparse.csr_matrix(np.eye(2))
    with pytest.raises(ValueError, match="Only bool, float32, float64, complex64 and complex128"):
        sparse.csr_matrix(cp.eye(2, dtype=int))
    rows, columns = cp.array([0, 1, 1]), cp.array([1, 0, 0])
    made = sparse.coo_matrix((cp.ones(3), (rows, columns)), shape=(2, 2))
    same(made.tocsr().toarray(), np.array([[0.0, 1.0], [2.0, 0.0]]))
    assert sparse.isspmatrix_coo(made) and not sparse.issparse(cp.eye(2))


def test_curves_through_points():
    import cupy as cp
    from cupyx.scipy import interpolate

    x, at = np.linspace(0, 6, 7), np.array([0.5, 2.25])
    theirs = scipy.interpolate.CubicSpline(x, np.sin(x))
    ours = interpolate.CubicSpline(cp.asarray(x), cp.sin(cp.asarray(x)))
    assert type(ours(cp.asarray(at))) is type(ours.c) is cp.ndarray
    np.testing.assert_allclose(ours(cp.asarray(at)).get(), theirs(at))
    slope = ours.derivative()
    assert isinstance(slope, interpolate.CubicSpline)
    np.testing.assert_allclose(slope(cp.asarray(at)).get(), theirs.derivative()(at))
    line = interpolate.make_interp_spline(cp.asarray(x), cp.asarray(x**2), k=3)
    np.testing.assert_allclose(line(cp.asarray(at)).get(), at**2)
    grid = (cp.arange(3.0), cp.arange(3.0))
    plane = interpolate.RegularGridInterpolator(grid, cp.arange(9.0).reshape(3, 3))
    assert plane(cp.array([[0.5, 0.5]])).tolist() == [2]
    with pytest.raises(AttributeError):
        _ = ours.nothing_of_this_name


def test_distances_and_neighbours():
    import cupy as cp
    from cupyx.scipy import spatial

    points = RNG.normal(size=(12, 2))
    far = spatial.distance.cdist(cp.asarray(points), cp.asarray(points[:3]))
    np.testing.assert_allclose(far.get(), scipy.spatial.distance.cdist(points, points[:3]))
    near, which = spatial.KDTree(cp.asarray(points)).query(cp.asarray(points[:3]), k=2)
    assert type(near) is type(which) is cp.ndarray
    assert which[:, 0].tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="Unsupported type"):
        spatial.distance.cdist(points, points)


def test_duplicates_are_added_in_the_order_of_columns():
    import cupy as cp
    from cupyx.scipy import sparse

    places = cp.array([2, 1, 0, 2, 1, 2, 2]), cp.array([2, 1, 0, 0, 0, 1, 2])
    matrix = sparse.coo_matrix((cp.arange(7.0), places), shape=(3, 3))
    matrix.sum_duplicates()
    assert matrix.row.tolist() == [0, 1, 2, 1, 2, 2]
    assert matrix.col.tolist() == [0, 0, 0, 1, 1, 2]
    assert matrix.data.tolist() == [2, 4, 3, 1, 5, 6]


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("ndimage", lambda f, there, here: f.map_coordinates(there, here[:2], order=1)),
        ("ndimage", lambda f, there, here: f.map_coordinates(there, [[0.0], [1.0]], order=1)),
        ("ndimage", lambda f, there, here: f.affine_transform(there, np.eye(2), order=1)),
        ("ndimage", lambda f, there, here: f.sum_labels(there, here.astype(int), 1)),
        ("ndimage", lambda f, there, here: f.mean(there, labels=here.astype(int))),
        ("ndimage", lambda f, there, here: f.sum_labels(there, there.astype(int), [0, 1])),
        ("ndimage", lambda f, there, here: f.gaussian_filter(input=here, sigma=1)),
        ("signal", lambda f, there, here: f.fftconvolve(here, here)),
        ("signal", lambda f, there, here: f.fftconvolve(there, here)),
        ("signal", lambda f, there, here: f.convolve2d(there, [[1.0, 2.0]])),
        ("signal", lambda f, there, here: f.correlate(in1=here, in2=there)),
    ],
)
def test_arrays_of_the_host_are_refused_wherever_cupy_needs_its_own(cp, module, call):
    functions = __import__(f"cupyx.scipy.{module}", fromlist=[module])
    with pytest.raises(TypeError, match=r"must be cupy\.ndarray, not <class"):
        call(functions, cp.asarray(IMAGE), IMAGE)
