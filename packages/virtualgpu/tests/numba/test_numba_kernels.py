"""What a Numba kernel may contain and be: compiled by Numba itself, run by the virtual GPU.

Arrays, streams and the device: test_numba_frontend.py. Above 500 lines: a short test for each thing
that Numba documents of kernels.
"""

from __future__ import annotations

import collections
import contextlib
import math
import pickle
from contextlib import suppress

import numpy as np
import pytest

import virtualgpu
from virtualgpu.errors import DeadlockError, LaunchError, MemoryAccessError

pytestmark = pytest.mark.usefixtures("active")


@pytest.fixture(scope="module")
def fill(cuda):
    @cuda.jit
    def fill(x, value):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = value

    return fill


def doubled_in_pickle(x):
    x[0] *= 2


# -- compiling and launching ----------------------------------------------------------------------


def test_one_kernel_for_many_types(fill):
    for dtype in (np.int8, np.uint16, np.int64, np.float32, np.float64, np.complex64, np.bool_):
        x = np.zeros(5, dtype)
        fill[1, 8](x, 1)
        assert (x == 1).all()
        assert x.dtype == dtype


def test_signatures(cuda):
    from numba import float32, int32, void

    @cuda.jit("void(float32[:], int32)")
    def text(x, n):
        x[cuda.grid(1)] = n

    @cuda.jit(void(float32[::1], int32))
    def typed(x, n):
        x[cuda.grid(1)] = n

    @cuda.jit(["void(int32[:])", "void(float64[:])"])
    def several(x):
        x[cuda.grid(1)] = 7

    x = np.zeros(3, np.float32)
    text[1, 3](x, 4)
    assert x.tolist() == [4] * 3
    typed[1, 3](x, np.int32(5))
    assert x.tolist() == [5] * 3
    for dtype in (np.int32, np.float64):
        y = np.zeros(3, dtype)
        several[1, 3](y)
        assert y.tolist() == [7] * 3
    with pytest.raises(LaunchError, match="number of dimensions of an argument differs"):
        text[1, 3](np.zeros((2, 2), np.float32), 1)


def test_a_lambda_inside_a_longer_statement(cuda):
    """Of which the source lines alone are no Python: a kernel, and a device function."""

    def doubled(function):
        inner = cuda.jit(device=True)(function)

        @cuda.jit
        def kernel(out):
            out[0] = inner(out[0])

        return kernel

    kernels = {
        "device": doubled(lambda x: 2 * x),
        "kernel": cuda.jit(lambda out: out.fill(6) if out.size > 9 else None),
    }
    out = cuda.to_device(np.array([3.0]))
    for name in kernels:
        kernels[name][1, 1](out)
    assert out.copy_to_host() == [6]


def test_device_functions(cuda):
    from numba import int32

    @cuda.jit(device=True)
    def pair(x):
        return x + 1, x * 2

    @cuda.jit(int32(int32), device=True)
    def minus(x):
        return x - 5

    @cuda.jit(device=True, inline="always")
    def square(x):
        return x * x

    @cuda.jit(device=True)
    def set_both(x, value):
        x[0] = value
        x[1] = minus(value)

    @cuda.jit
    def kernel(out):
        out[2], out[3] = pair(3)
        out[4] = square(minus(1))
        set_both(out, 10)

    out = np.zeros(5)
    kernel[1, 1](out)
    assert out.tolist() == [10, 5, 4, 6, 16]
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        pair[1, 1](3)


def test_functions_in_cuda_c(cuda):
    triple = cuda.declare_device(
        "triple",
        "int32(int32)",
        link=cuda.CUSource(
            'extern "C" __device__ int triple(int *out, int a){ *out = 3 * a; return 0; }'
        ),
    )

    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] = triple(x[i])

    x = np.arange(4, dtype=np.int32)
    kernel[1, 4](x)
    assert x.tolist() == [0, 3, 6, 9]


def test_wrong_cuda_c_is_a_compile_error(cuda):
    broken = cuda.declare_device(
        "broken", "int32(int32)", link=cuda.CUSource('extern "C" __device__ int broken( {')
    )

    @cuda.jit
    def kernel(x):
        x[0] = broken(x[0])

    with pytest.raises(Exception, match="error"):
        kernel[1, 1](np.zeros(1, np.int32))


def test_launch_configurations(cuda, fill):
    x = np.zeros(100)
    fill.forall(100)(x, 3)
    assert (x == 3).all()
    fill.forall(100, tpb=7)(x, 4)
    assert (x == 4).all()
    configured = fill[cuda.to_device(np.zeros(1)).size, (128,)]
    configured(x, 5)
    assert (x == 5).all()
    with pytest.raises(ValueError, match="Kernel launch configuration was not specified"):
        fill(x, 6)
    for grid, block, words in (
        (1, 1025, "at most 1024"),
        (0, 8, "at least 1"),
        ((1, 70000), 8, "larger than"),
    ):
        with pytest.raises(LaunchError, match=words):
            fill[grid, block](x, 7)
    with pytest.raises(TypeError):
        fill[1, 8](x)
    assert (x == 5).all()


def test_options_of_jit(cuda):
    @cuda.jit(max_registers=32, fastmath=True, lineinfo=True, opt=False, inline="never")
    def kernel(x):
        x[0] = math.sin(x[0]) / x[1]

    x = np.float32([1, 2])
    kernel[1, 1](x)
    assert x[0] == pytest.approx(math.sin(1) / 2, rel=1e-5)


def test_a_kernel_can_be_sent_and_looked_at(cuda, fill):
    kernel = pickle.loads(pickle.dumps(cuda.jit(doubled_in_pickle)))
    x = np.ones(1)
    kernel[1, 1](x)
    assert x[0] == 2
    fill[1, 1](x, 2.0)
    assert any(".visible .entry" in text for text in fill.inspect_asm().values())
    assert any("define" in text for text in fill.inspect_llvm().values())


# -- arguments ------------------------------------------------------------------------------------


Point = collections.namedtuple("Point", "x y")


def test_tuples(cuda):
    @cuda.jit
    def kernel(pair, point, nested, out):
        out[0] = pair[0] + pair[1]
        out[1] = point.x * point.y[1]
        out[2] = len(nested) + nested[1][0]
        for i, value in enumerate(nested[0]):
            out[3 + i] = value

    out = np.zeros(6)
    kernel[1, 1]((1, 2.5), Point(3, np.array([7.0, 8.0])), ((4, 5, 6), (7.5,)), out)
    assert out.tolist() == [3.5, 24, 9.5, 4, 5, 6]


RECORD = np.dtype([("a", np.int32), ("b", np.float64), ("c", np.float32, 3)], align=True)


def test_records(cuda):
    @cuda.jit
    def kernel(x, one):
        i = cuda.grid(1)
        x[i].b = x[i].a * 2 + one.b
        x[i].c[1] = i
        x[i]["a"] += one["a"]

    x, one = np.zeros(4, RECORD), np.zeros(1, RECORD)
    x["a"] = range(4)
    one[0] = (10, 0.5, 0)
    kernel[1, 4](x, one[0])
    assert x["a"].tolist() == [10, 11, 12, 13]
    assert x["b"].tolist() == [0.5, 2.5, 4.5, 6.5]
    assert x["c"].tolist() == [[0, i, 0] for i in range(4)]


def test_a_packed_record_is_refused_by_numba(cuda):
    from numba.cuda.core.errors import NumbaTypeError

    @cuda.jit
    def kernel(x):
        x[0].b = 1

    with pytest.raises(NumbaTypeError, match="not aligned"):
        kernel[1, 1](np.zeros(3, np.dtype([("a", np.int8), ("b", np.float64)])))


def test_numbers_of_every_kind(cuda):
    @cuda.jit
    def kernel(out, a, b, c, d, e):
        out[0] = a
        out[1] = b
        out[2] = c
        out[3] = d
        out[4] = e.real + 2 * e.imag

    out = np.zeros(5)
    kernel[1, 1](out, True, np.int8(-3), np.uint64(2**40), np.float16(0.5), 1 + 2j)
    assert out.tolist() == [1, -3, 2**40, 0.5, 5]


# -- memories -------------------------------------------------------------------------------------


TABLE = np.arange(10.0) ** 2
RECORDS = np.array([(1, 2.5), (3, 4.5)], np.dtype([("a", np.int32), ("b", np.float64)], align=True))


def test_shared_local_and_constant_arrays(cuda):
    @cuda.jit
    def kernel(out):
        i = cuda.threadIdx.x
        tile = cuda.shared.array((2, 32), np.float64)
        mine = cuda.local.array(4, np.int32)
        table = cuda.const.array_like(TABLE)
        records = cuda.const.array_like(RECORDS)
        for j in range(4):
            mine[j] = i * j
        tile[1, i] = mine[3] + table[i % 10]
        cuda.syncthreads()
        out[i] = tile[1, 31 - i] + records[i % 2].b

    out = np.zeros(32)
    kernel[1, 32](out)
    i = 31 - np.arange(32)
    np.testing.assert_array_equal(out, 3 * i + TABLE[i % 10] + np.where(i % 2, 2.5, 4.5))


def test_dynamic_shared_memory(cuda):
    @cuda.jit
    def kernel(x):
        whole = cuda.shared.array(0, np.float64)
        bits = cuda.shared.array(0, np.int32)[16:]  # the same bytes, past the eight numbers
        i = cuda.threadIdx.x
        whole[i] = x[i]
        bits[i] = i
        cuda.syncthreads()
        x[i] = whole[7 - i] + bits[i]

    x = np.arange(8.0) * 10
    kernel[1, 8, 0, 96](x)
    assert x.tolist() == [70 - 10 * i + i for i in range(8)]
    with pytest.raises(MemoryAccessError, match=r"kernel\[grid, block, stream, bytes\]"):
        kernel[1, 8](x)


def test_a_local_array_is_each_threads_own(cuda):
    @cuda.jit
    def sort(x):
        row = cuda.grid(1)
        mine = cuda.local.array(6, np.int64)
        for j in range(6):
            mine[j] = x[row, j]
        for a in range(6):
            for b in range(5 - a):
                if mine[b] > mine[b + 1]:
                    mine[b], mine[b + 1] = mine[b + 1], mine[b]
        for j in range(6):
            x[row, j] = mine[j]

    x = np.random.default_rng(0).integers(0, 100, (64, 6))
    wanted = np.sort(x, axis=1)
    sort[2, 32](x)
    np.testing.assert_array_equal(x, wanted)


# -- what threads do together ---------------------------------------------------------------------


def test_atomics(cuda):
    @cuda.jit
    def kernel(n, f):
        i = cuda.grid(1)
        cuda.atomic.add(n, 0, 1)
        cuda.atomic.max(n, 1, i)
        cuda.atomic.inc(n, 2, 5)
        cuda.atomic.cas(n, 3, 0, 9)
        cuda.atomic.exch(n, 4, 8)
        cuda.atomic.sub(n, 5, 1)
        cuda.atomic.and_(n, 6, 0xF0)
        cuda.atomic.or_(n, 7, i & 3)
        cuda.atomic.xor(n, 8, i)
        cuda.atomic.dec(n, 9, 100)
        cuda.atomic.min(f, 0, -1.0 * i)
        cuda.atomic.add(f, 1, 0.5)
        cuda.atomic.nanmax(f, 2, 1.0 * i)

    n, f = np.zeros(10, np.uint32), np.zeros(3)
    n[6], n[9], f[2] = 0xFF, 50, np.nan
    kernel[2, 32](n, f)
    xor = 0
    for i in range(64):
        xor ^= i
    assert n.tolist() == [64, 63, 64 % 6, 9, 8, 2**32 - 64, 0xF0, 3, xor, (50 - 64) % 101]
    assert f.tolist() == [-63, 32, 63]


def test_barriers_votes_and_shuffles(cuda):
    @cuda.jit
    def kernel(out):
        i = cuda.grid(1)
        low = 1 if i < 10 else 0
        out[i, 0] = cuda.syncthreads_count(low)
        out[i, 1] = cuda.syncthreads_and(low)
        out[i, 2] = cuda.syncthreads_or(low)
        out[i, 3] = cuda.ballot_sync(0xFFFFFFFF, low)
        out[i, 4] = cuda.shfl_sync(0xFFFFFFFF, i, 5)
        out[i, 5] = cuda.shfl_up_sync(0xFFFFFFFF, i, 1)
        out[i, 6] = cuda.all_sync(0xFFFFFFFF, low)
        out[i, 7] = cuda.any_sync(0xFFFFFFFF, low)
        out[i, 8] = cuda.match_any_sync(0xFFFFFFFF, i // 16)
        cuda.syncwarp()
        cuda.threadfence()
        out[i, 9] = cuda.activemask()
        out[i, 10] = cuda.laneid
        out[i, 11] = cuda.warpsize + cuda.gridsize(1)

    out = np.zeros((32, 12), np.int64)
    kernel[1, 32](out)
    full = 2**32 - 1
    for i, row in enumerate(out.tolist()):
        assert [v & full for v in row] == [
            10,
            0,
            1,
            0x3FF,
            5,
            max(i - 1, 0),
            0,
            1,
            0xFFFF << (i // 16 * 16),
            full,
            i,
            64,
        ]


def test_an_exchange_that_the_compiler_copied(cuda):
    """One shuffle in a loop that NVVM unrolls: lanes of a warp come to it by two of its copies."""

    @cuda.jit
    def kernel(x, out):
        lane = cuda.threadIdx.x
        v = x[lane]
        for r in range(2):
            if lane & 1 == r:
                v += cuda.shfl_xor_sync(0xFFFFFFFF, v, 17)
        out[lane] = v

    x = np.arange(32, dtype=np.int32) ** 2
    for seed in (None, 3):
        out = cuda.device_array_like(x)
        given = cuda.to_device(x)
        with (
            virtualgpu.check() as report,
            contextlib.nullcontext() if seed is None else virtualgpu.schedule(seed),
        ):
            kernel[1, 32](given, out)
        assert out.copy_to_host().tolist() == (x + x[np.arange(32) ^ 17]).tolist()
        assert not report.findings
    (ptx,) = kernel.inspect_asm().values()
    assert ptx.count("shfl.sync") == 4  # two copies, each of them an int64's two halves


def test_exchanges_that_never_meet_are_told_with_their_lines(cuda):
    @cuda.jit
    def kernel(out):
        lane = cuda.threadIdx.x
        if lane < 12:
            out[lane] = cuda.shfl_xor_sync(0xFFFFFFFF, lane, 16)
        else:
            out[lane] = cuda.shfl_down_sync(0xFFFFFFFF, lane, 16)

    with pytest.raises(DeadlockError) as told:
        kernel[1, 32](np.zeros(32, np.int64))
    first = kernel.py_func.__code__.co_firstlineno
    message = str(told.value)
    assert f"12 of its threads (the first is 0) at line {first + 4} for shfl" in message
    assert f"20 of its threads (the first is 12) at line {first + 6} for shfl" in message


def test_grid_synchronisation(cuda):
    @cuda.jit
    def rotate(x):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        following = x[(i + 1) % x.size]
        grid.sync()
        x[i] = following

    x = np.arange(128)
    rotate[4, 32](x)
    np.testing.assert_array_equal(x, (np.arange(128) + 1) % 128)
    kernel = next(iter(rotate.overloads.values()))
    assert kernel.cooperative
    assert kernel.max_cooperative_grid_blocks(32) == 512


def test_random_numbers(cuda):
    """Numba's generator in Python (its own CPU code) and on the device: the same stream."""
    from numba.cuda.random import (
        create_xoroshiro128p_states,
        xoroshiro128p_normal_float64,
        xoroshiro128p_uniform_float32,
    )

    @cuda.jit
    def kernel(states, uniform, normal):
        i = cuda.grid(1)
        for j in range(uniform.shape[1]):
            uniform[i, j] = xoroshiro128p_uniform_float32(states, i)
            normal[i, j] = xoroshiro128p_normal_float64(states, i)

    results = []
    for seed in (1, 1, 2):
        states = create_xoroshiro128p_states(64, seed=seed)
        uniform, normal = np.zeros((64, 50), np.float32), np.zeros((64, 50))
        kernel[2, 32](states, uniform, normal)
        results.append((uniform, normal))
    (u, n), (same, _), (other, _) = results
    np.testing.assert_array_equal(u, same)
    assert (u != other).any()
    assert ((u >= 0) & (u < 1)).all()
    assert abs(u.mean() - 0.5) < 0.02
    assert abs(n.mean()) < 0.06
    assert abs(n.std() - 1) < 0.05


# -- functions over arrays ------------------------------------------------------------------------


def test_vectorize(cuda):
    from numba import vectorize

    @vectorize(["float32(float32, float32)", "float64(float64, float64)"], target="cuda")
    def weigh(a, b):
        return a + b * 2

    x = np.arange(4.0)
    assert weigh(x, 1.0).tolist() == [2, 3, 4, 5]
    assert weigh(x.astype(np.float32), np.ones(4, np.float32)).dtype == np.float32
    np.testing.assert_array_equal(weigh(x[:, None], x[None]), x[:, None] + 2 * x)
    there = cuda.to_device(x)
    assert weigh(there, there).copy_to_host().tolist() == [0, 3, 6, 9]
    out = np.zeros(4)
    weigh(x, x, out=out)
    assert out.tolist() == [0, 3, 6, 9]


def test_guvectorize(cuda):
    from numba import guvectorize

    @guvectorize(
        ["void(float32[:,:], float32[:,:], float32[:,:])"], "(m,n),(n,p)->(m,p)", target="cuda"
    )
    def multiply(a, b, c):
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                total = np.float32(0)
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = total

    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    b = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    np.testing.assert_array_equal(multiply(a, b), a @ b)


def test_reduce(cuda):
    @cuda.reduce
    def add(a, b):
        return a + b

    @cuda.reduce
    def largest(a, b):
        return max(a, b)

    x = np.random.default_rng(1).integers(-1000, 1000, 5000)
    assert add(x) == x.sum()
    assert largest(x) == x.max()
    assert add(x[:1]) == x[0]
    assert add(x[:0]) == 0
    assert add(x, init=5) == x.sum() + 5
    result = cuda.to_device(np.zeros(1, np.int64))
    add(cuda.to_device(x), size=70, res=result)
    assert result.copy_to_host()[0] == x[:70].sum()


# -- arithmetic -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:float16 relies on LTO")  # no LTO where no machine code is
def test_half_precision(cuda):
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        y[i] = cuda.fp16.hfma(x[i], x[i], x[i]) + x[i] / np.float16(3)

    x = np.linspace(-3, 3, 16).astype(np.float16)
    y = np.zeros_like(x)
    kernel[1, 16](x, y)
    once = (x.astype(np.float64) * x + x).astype(np.float16)
    np.testing.assert_array_equal(y, once + x / np.float16(3))


def test_complex_numbers_and_mathematics(cuda):
    @cuda.jit
    def kernel(z, x, n):
        i = cuda.grid(1)
        z[i] = z[i] * 1j + abs(z[i])
        n[i, 0] = cuda.popc(n[i, 0])
        n[i, 1] = cuda.clz(n[i, 1])
        n[i, 2] = cuda.ffs(n[i, 2])
        n[i, 3] = n[i, 3] // -3
        n[i, 4] = n[i, 4] % -3
        x[i] = (
            math.erf(x[i])
            + math.lgamma(x[i] + 1)
            + x[i] ** 3
            + x[i] // 0.3
            + x[i] % 0.3
            + np.sin(x[i])
            + math.hypot(x[i], 2)
            + cuda.cbrt(x[i])
            + cuda.fma(x[i], 2.0, 1.0)
        )

    z = np.arange(3) + 1j
    x = np.linspace(0.1, 2, 3)
    n = np.array([[7, 1, 8, 10, 10], [255, 0, 1, -10, -10], [-1, -1, 0, 9, 8]], np.int32)
    wanted = [[n[0, 0].bit_count(), 31, 4, -4, -2], [8, 32, 1, 3, -1], [32, 0, 0, -3, -1]]
    expected = [
        math.erf(v)
        + math.lgamma(v + 1)
        + v**3
        + v // 0.3
        + v % 0.3
        + math.sin(v)
        + math.hypot(v, 2)
        + math.cbrt(v)
        + 2 * v
        + 1
        for v in x
    ]
    before = z.copy()
    kernel[1, 3](z, x, n)
    np.testing.assert_allclose(z, before * 1j + abs(before), rtol=1e-15)
    np.testing.assert_allclose(x, expected, rtol=1e-14)
    assert n.tolist() == wanted


# -- what goes wrong ------------------------------------------------------------------------------


def test_printing(cuda, capsys):
    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        if i < 2:
            print("thread", i, x[i], x[i] > 0, 1.5, "end")

    kernel[1, 4](np.array([0, 7]))
    cuda.synchronize()
    assert capsys.readouterr().out == (
        "thread 0 0 False 1.500000 end\nthread 1 7 True 1.500000 end\n"
    )


def test_debug_mode_turns_errors_into_exceptions(cuda):
    from kernels_that_fail import asserting, not_checked, raising

    with pytest.raises(AssertionError, match=r"tid=\[0, 0, [3-7]\] ctaid=\[0, 0, 0\]: too big"):
        asserting[1, 8](np.zeros(8))
    asserting[1, 3](np.zeros(8))
    with pytest.raises(ValueError, match=r"tid=\[0, 0, 2\] ctaid=\[0, 0, 0\]: wrong"):
        raising[1, 8](np.zeros(8))
    x = np.zeros(8)
    not_checked[1, 8](x)
    assert x.sum() == 3  # without debug an assertion ends its thread and says nothing


def test_an_illegal_address_is_numbas_error_and_more(cuda):
    """It can be caught as on a real GPU, and names line, block and thread."""
    from numba.cuda.cudadrv.driver import CudaAPIError

    @cuda.jit
    def beyond(x):
        i = cuda.grid(1)
        x[i] = 1

    with pytest.raises(CudaAPIError) as caught:
        beyond[2, 32](np.zeros(40))
    error = caught.value
    assert isinstance(error, MemoryAccessError)
    assert error.code == 700
    assert error.location.kernel == "beyond"
    assert error.location.filename == __file__
    assert (error.location.block, error.location.thread) == ((1, 0, 0), (8, 0, 0))
    assert "x[i] = 1" in str(error)
    assert "writes x[40] of 40 (23 more threads do the same)" in str(error)
    x = np.zeros(64)
    beyond[2, 32](x)  # the device goes on
    assert x.all()


def test_an_illegal_address_in_a_device_function_names_its_line(cuda):
    @cuda.jit(device=True)
    def inner(x, i):
        x[i] = 2  # here

    @cuda.jit
    def outer(x):
        inner(x, cuda.grid(1))

    with pytest.raises(MemoryAccessError) as caught:
        outer[1, 4](np.zeros(3))
    assert caught.value.location.filename == __file__


def test_typing_errors_are_numbas_own(cuda):
    from numba.cuda.core.errors import TypingError

    @cuda.jit
    def kernel(x):
        x[0] = undefined_name  # noqa: F821

    with pytest.raises(TypingError, match="undefined_name"):
        kernel[1, 1](np.zeros(1))


@pytest.mark.parametrize("written", ["cuda.gird(1)", "len(pair)"])
def test_a_kernel_is_compiled_once_whatever_it_takes(cuda, monkeypatch, written):
    """The author's mistake fails as it is, and types that no debugger knows need no second try."""
    from numba.cuda import dispatcher

    compiled = []
    original = dispatcher.compile_cuda
    monkeypatch.setattr(
        dispatcher, "compile_cuda", lambda *a, **k: compiled.append(1) or original(*a, **k)
    )
    names = {"cuda": cuda}
    exec(f"def kernel(x, pair):\n    x[0] = {written}", names)
    kernel, x = cuda.jit(names["kernel"]), np.zeros(1)
    with suppress(AttributeError):
        kernel[1, 1](x, ((), ()))
        assert x[0] == 2
    assert len(compiled) == 1


def test_link_time_optimisation(active):
    """numba-cuda asks for nvJitLink, which comes with virtualgpu."""
    from numba import cuda

    @cuda.jit(lto=True)
    def add_one(values):
        values[cuda.grid(1)] += 1

    values = cuda.to_device(np.arange(8.0))
    add_one[1, 8](values)
    assert values.copy_to_host().tolist() == [*range(1, 9)]
