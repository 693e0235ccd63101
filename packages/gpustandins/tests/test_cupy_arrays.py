"""Arrays of the stand-in: views, layouts, sharing with Numba, what checkers see of them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from numba import cuda

import virtualgpu
from virtualgpu.errors import MemoryAccessError


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def one_too_far(x):
    x[cuda.grid(1) + 1] = 1


@cuda.jit
def total(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])


# -- views ----------------------------------------


@pytest.mark.parametrize(
    "look",
    [
        lambda a: a[2:],
        lambda a: a[::-1],
        lambda a: a[1],
        lambda a: a[..., 0],
        lambda a: a[None],
        lambda a: a.T,
        lambda a: a.reshape(3, 4),
        lambda a: a.ravel(),
        lambda a: a.swapaxes(0, 1),
        lambda a: a[1, 2],
        lambda a: a.view(np.int64),
        lambda a: a[1:3, ::2],
        lambda a: a.squeeze(),
        lambda a: a.diagonal(),
        lambda a: a.real,
    ],
)
def test_a_view_shares_its_memory(cp, look):
    a = cp.arange(12.0).reshape(4, 3)
    part = look(a)
    assert part.base is not None
    assert (part.data.ptr - a.data.ptr) % 8 == 0
    assert a.data.ptr <= part.data.ptr < a.data.ptr + a.nbytes
    part[...] = 0
    assert int((a == 0).sum()) >= part.size
    assert part.shape == look(np.arange(12.0).reshape(4, 3)).shape


def test_a_view_outlives_its_array(cp):
    part = cp.arange(5)[3:]
    other = cp.zeros(5)
    assert part.tolist() == [3, 4]
    assert other.data.mem.ptr != part.data.mem.ptr


def test_broadcasts_can_be_written(cp):
    a = cp.zeros(3)
    cp.broadcast_to(a, (2, 3))[1, 2] = 5  # NumPy protects such a view, CuPy does not
    assert a.tolist() == [0, 0, 5]


def test_copies_do_not_share(cp):
    a = cp.arange(6).reshape(2, 3)
    for made in (
        a.copy(),
        a.flatten(),
        a[[0]],
        a[a > 2],
        copy.copy(a),
        copy.deepcopy(a),
        pickle.loads(pickle.dumps(a)),
        a.astype(a.dtype),
        cp.array(a),
        a.take([1]),
    ):
        assert made.base is None
        assert made.data.mem.ptr != a.data.mem.ptr


def test_layout(cp):
    a = cp.zeros((2, 3), np.float32, order="F")
    assert (a.strides, a.itemsize, a.nbytes, a.ndim, a.size, len(a)) == ((4, 8), 4, 24, 2, 6, 2)
    assert (a.flags.f_contiguous, a.flags["C_CONTIGUOUS"], a.flags.owndata) == (True, False, True)
    assert "OWNDATA : True" in repr(a.flags)
    with pytest.raises(KeyError):
        a.flags["WRITEABLE"]
    assert a.copy().flags.c_contiguous and a.copy("K").flags.f_contiguous
    assert cp.asarray(np.ones((2, 3), order="F")).flags.f_contiguous
    assert cp.ascontiguousarray(a).flags.c_contiguous
    assert cp.ascontiguousarray(cp.array(1)).shape == (1,)
    a.shape = (2, 3, 1)
    assert a.shape == (2, 3, 1)
    assert a.astype(np.float64).flags.f_contiguous
    with pytest.raises(AttributeError, match="in-place"):
        a.shape = (6,)  # its elements lie in another order
    with pytest.raises(ValueError, match="size 6"):
        a.shape = (7,)
    assert a.shape == (2, 3, 1)


def test_a_strided_array_keeps_its_order_when_cast(cp):
    a = cp.zeros((2, 3, 4)).transpose(1, 0, 2)
    assert a.astype(np.float32).strides == a.get().astype(np.float32).strides or (
        a.astype(np.float32).strides == tuple(s // 2 for s in a.strides)
    )


def test_nested_arrays(cp):
    rows = [cp.arange(3), cp.arange(3) + 1.5]
    assert cp.array(rows).tolist() == [[0, 1, 2], [1.5, 2.5, 3.5]]
    with pytest.raises(TypeError, match="Implicit conversion"):
        cp.array([cp.array(2), 3])


def test_text(cp):
    a = cp.array([1.5, 2])
    assert (repr(a), str(a), f"{a[0]:.2f}") == ("array([1.5, 2. ])", "[1.5 2. ]", "1.50")
    assert repr(type(a)) == "<class 'cupy.ndarray'>"


def test_get_and_set(cp):
    a, out = cp.arange(6.0).reshape(2, 3), np.empty((2, 3))
    assert a.get(out=out) is out and out.tolist() == a.tolist()
    assert a.get(order="F").flags.f_contiguous
    a.set(out * 2)
    assert a.tolist() == (out * 2).tolist()
    with pytest.raises(TypeError, match="float32 array cannot be set to float64 array"):
        a.set(out.astype(np.float32))
    with pytest.raises(ValueError, match="Shape mismatch"):
        a.get(out=np.empty(6))
    a.T.fill(3)
    assert (a == 3).all()


def test_masks(cp):
    a = cp.arange(6).reshape(2, 3)
    a[a > 3] = 0
    assert a.tolist() == [[0, 1, 2], [3, 0, 0]]
    a[cp.array([True, False])] = cp.array([7, 8, 9])
    assert a.tolist() == [[7, 8, 9], [3, 0, 0]]
    with pytest.raises(IndexError, match="boolean index did not match"):
        a[cp.array([True, False, True])]
    with pytest.raises(IndexError, match="must be of integer or boolean type"):
        a[cp.array([0.0])]
    with pytest.raises(IndexError, match="too many indices"):
        a[0, 0, 0]


def test_structured_arrays(cp):
    a = cp.zeros(3, np.dtype([("x", "f4"), ("n", "i4")]))
    a["x"] = 2
    a["n"][1] = 5
    assert a.get().tolist() == [(2, 0), (2, 5), (2, 0)]


def test_numpys_functions_take_cupys_arrays(cp):
    a = cp.arange(4.0)
    for result in (
        np.sqrt(a),
        np.sum(a),
        np.concatenate([a, a]),
        np.linalg.norm(a),
        np.fft.fft(a),
        np.where(a > 1, a, 0),
        np.float64(2) * a,
    ):
        assert type(result) is cp.ndarray
    assert cp.get_array_module(a) is cp
    assert cp.get_array_module(np.ones(2), 3) is np


@pytest.mark.parametrize(
    "call",
    [
        "all()",
        "any(axis=0)",
        "argmax(1)",
        "argmin()",
        "argpartition(1)[..., 1]",
        "argsort()",
        "argsort(axis=0)",
        "astype('f4')",
        "byteswap()",
        "clip(-1, 1)",
        "clip(max=0.5)",
        "compress(rows, axis=0)",
        "conj()",
        "copy()",
        "cumprod(axis=1)",
        "cumsum()",
        "diagonal(1)",
        "dot(x.T)",
        "flatten('F')",
        "max(0)",
        "mean(axis=1, keepdims=True)",
        "min()",
        "nonzero()",
        "prod(0)",
        "ravel()",
        "repeat(2, axis=1)",
        "reshape(6, 4)",
        "reshape((3, -1), order='F')",
        "round(1)",
        "squeeze()",
        "std(ddof=1)",
        "std(0, None, None, 1)",
        "sum(0, 'f4')",
        "sum((0, 1))",
        "swapaxes(0, 1)",
        "take(where, axis=1)",
        "trace()",
        "transpose()",
        "transpose(1, 0)",
        "var(1)",
        "view('i8')",
        "T",
        "mT",
        "real",
        "imag",
        "tolist()",
        "tobytes()",
        "flat[3:7]",
        "ravel()[:4].searchsorted(x[0])",
        "ndim",
    ],
)
def test_methods_are_numpys(cp, call):
    host = np.random.default_rng(3).normal(size=(4, 6))
    results = []
    for module in (np, cp):
        names = {
            "x": module.asarray(host),
            "rows": module.asarray([True, False, True, True]),
            "where": module.asarray([0, 5, 2]),
        }
        results.append(eval(f"x.{call}", names))
    expected, found = results
    if isinstance(expected, tuple):
        expected, found = np.stack(expected), cp.stack(found)
    if isinstance(expected, np.ndarray | np.generic):
        assert type(found) is cp.ndarray
        found = found.get()
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        assert found == expected


def test_sorting_in_place(cp):
    a = cp.array([[3, 1], [0, 2]])
    a.sort(axis=0)
    assert a.tolist() == [[0, 1], [3, 2]]
    a.partition(0)
    assert a.tolist() == [[0, 1], [2, 3]]
    with pytest.raises(np.exceptions.AxisError, match="rank of zero"):
        cp.array(1).sort()


def test_libraries_with_the_array_protocol_have_their_turn(cp):
    class Mine:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "mine"

    assert cp.ones(2) + Mine() == "mine"


# -- memory shared with kernels ----------------------------------------


def test_numba_kernels_take_the_arrays_themselves(cp):
    a = cp.arange(10.0)
    add_one[1, 32](a)
    assert a.tolist() == list(range(1, 11))
    add_one[1, 32](a[::2])
    assert a.tolist() == [2, 2, 4, 4, 6, 6, 8, 8, 10, 10]
    add_one[1, 32](a[:2:-1])
    assert a.tolist() == [2, 2, 4, 5, 7, 7, 9, 9, 11, 11]


def test_numbas_arrays_are_taken_without_a_copy(cp):
    theirs = cuda.to_device(np.arange(6, dtype=np.float32).reshape(2, 3))
    ours = cp.asarray(theirs)
    assert ours.data.ptr == theirs.device_ctypes_pointer.value
    ours[1, 1] = 40
    assert theirs.copy_to_host()[1, 1] == 40
    assert float((theirs + cp.zeros((2, 3), np.float32)).sum()) == 51  # its owner lives on
    flipped = cp.asarray(cuda.as_cuda_array(ours[:, ::-1]))
    assert flipped.tolist() == ours[:, ::-1].tolist()


def test_the_interface(cp):
    a = cp.zeros((2, 3), np.int16)
    found = a.__cuda_array_interface__
    assert (found["shape"], found["typestr"], found["strides"]) == ((2, 3), "<i2", None)
    assert (found["version"], found["data"]) == (3, (a.data.ptr, False))
    assert a.T.__cuda_array_interface__["strides"] == (2, 6)
    assert cp.zeros(0).__cuda_array_interface__["data"] == (0, False)


def test_arrays_over_a_pointer(cp):
    a = cp.arange(8, dtype=np.int32)
    half = cp.ndarray((4,), np.int32, memptr=a.data + 16)
    assert half.tolist() == [4, 5, 6, 7]
    every_other = cp.ndarray((4,), np.int32, memptr=a.data, strides=(8,))
    assert every_other.tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError, match="all elements must lie within"):
        cp.ndarray((4,), np.int32, strides=(8,))


def test_a_kernel_past_the_end_is_caught(cp):
    # CuPy rounds to 512 bytes, so a GPU would not notice.
    a = cp.zeros(100)
    with pytest.raises(MemoryAccessError, match=r"writes x\[100\] of 100;"):
        one_too_far[1, 100](a)


def test_a_kernel_on_freed_memory_is_caught(cp):
    a = cp.zeros(100)
    view = cuda.as_cuda_array(
        cp.ndarray(
            100, memptr=cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(a.data.ptr, a.nbytes, None), 0)
        )
    )
    del a
    with pytest.raises(MemoryAccessError, match="use after free"):
        add_one[1, 100](view)


def test_fresh_memory_is_visibly_unwritten(cp):
    assert (cp.empty(4, np.uint8) == 0xFE).all()
    a = cp.empty(1000)
    a[:] = 1
    address = a.data.ptr
    del a
    b = cp.empty(1000)
    assert b.data.ptr == address
    assert (b < -1e300).all()


@pytest.mark.parametrize(
    "fill",
    [
        lambda cp: cp.zeros(32),
        lambda cp: cp.ones(32) * 2,
        lambda cp: cp.asarray(np.ones(32)),
        lambda cp: cp.random.rand(32),
        lambda cp: cp.empty(32).astype(float),
        lambda cp: cp.sort(cp.arange(32.0)),
        lambda cp: cp.arange(64.0)[::2].copy(),
    ],
    ids="zeros expression host random cast sort strided".split(),
)
def test_what_array_work_wrote_counts_as_written(cp, fill):
    a, out = fill(cp), cp.zeros(1)
    with virtualgpu.check() as report:
        total[1, 32](a, out)
    assert report.ok, str(report)


def test_reading_what_nobody_wrote_is_found(cp):
    a, out = cp.empty(32), cp.zeros(1)
    a[:16] = 0
    with virtualgpu.check() as report:
        total[1, 32](a, out)
    assert {finding.kind for finding in report.findings} == {"uninitialised"}
    a[16:] = 0
    with virtualgpu.check() as report:
        total[1, 32](a, out)
    assert report.ok


def test_array_work_on_unwritten_memory_is_not_found(cp):
    with virtualgpu.check() as report:
        cp.empty(32) + 1
    assert report.ok


def test_work_on_arrays_inside_a_check_is_no_finding(cp):
    with virtualgpu.check() as report:
        a, out = cp.arange(32.0), cp.zeros(1)
        a += 1
        total[1, 32](a, out)
    assert report.ok, str(report)
    assert float(out[0]) == 528


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("cholesky", lambda cp: (cp.array([[1.0, 2], [2, 1]]),)),
        ("svd", lambda cp: (cp.full((2, 2), np.nan),)),
        ("tensorsolve", lambda cp: (cp.zeros((2, 2)), cp.ones(2))),
        ("tensorinv", lambda cp: (cp.zeros((4, 6, 8, 3)),)),
        ("matrix_power", lambda cp: (cp.zeros((2, 2)), -1)),
        ("inv", lambda cp: (cp.zeros((2, 2)),)),
        ("solve", lambda cp: (cp.zeros((2, 2)), cp.ones(2))),
    ],
)
def test_linear_algebra_raises_for_shapes_and_never_for_numbers(cp, name, make):
    """cuSOLVER says so in a code that CuPy looks at only under errstate(linalg="raise")."""
    function, arguments = getattr(cp.linalg, name), make(cp)
    found = function(*arguments)
    for part in found if isinstance(found, tuple) else [found]:
        assert cp.isnan(part).all()
    if name in ("cholesky", "inv"):
        with pytest.raises(np.linalg.LinAlgError):
            function(cp.zeros((2, 3)))


def test_the_others_of_a_stack_of_matrices_are_right(cp):
    good, bad = np.array([[4.0, 0], [0, 9]]), np.array([[1.0, 2], [2, 1]])
    found = cp.linalg.cholesky(cp.asarray(np.stack([bad, good]))).get()
    assert np.isnan(found[0]).all()
    assert found[1].tolist() == [[2, 0], [0, 3]]


def test_a_vectorized_function_has_the_type_of_all_its_elements(cp):
    branches = cp.vectorize(lambda a: a + 0.5 if a > 1 else 0)
    found = branches(cp.arange(3.0))
    assert (found.tolist(), found.dtype) == ([0, 0, 2.5], np.float64)
    assert cp.vectorize(lambda a: 1 / a)(cp.zeros(2)).tolist() == [np.inf] * 2
    empty = cp.vectorize(lambda a: a + 1)(cp.zeros(0, np.float32))
    assert (empty.shape, empty.dtype) == ((0,), np.float32)
    column, row = cp.arange(2, dtype=np.int32)[:, None], cp.ones(3, np.int32)
    added = cp.vectorize(lambda a, b: a + b)(column, row)
    assert (added.tolist(), added.dtype) == ([[1, 1, 1], [2, 2, 2]], np.int32)


def test_what_cannot_be_fused_is_named_by_its_public_name(cp):
    for name in ("nansum", "diff"):
        with pytest.raises(NotImplementedError, match=rf"cupy\.{name} cannot be fused"):
            cp.fuse(lambda a, name=name: getattr(cp, name)(a))(cp.linspace(0, 10, 5))
