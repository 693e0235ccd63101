"""``cupy.cuda``: the device, streams, events, the runtime; and what the package says of itself."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest


def test_there_is_one_device(cp):
    runtime = cp.cuda.runtime
    assert (runtime.getDeviceCount(), runtime.getDevice(), cp.cuda.get_device_id()) == (1, 0, 0)
    assert cp.cuda.is_available() and cp.is_available()
    device = cp.cuda.Device()
    device.use()
    with cp.cuda.Device(0) as same:
        assert same == device
    device.synchronize()
    assert (int(device), repr(device), device.compute_capability) == (0, "<CUDA Device 0>", "90")
    assert cp.cuda.Device.from_pci_bus_id(device.pci_bus_id) == device
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidDevice: invalid device"):
        cp.cuda.Device(1).use()
    with pytest.raises(runtime.CUDARuntimeError):
        runtime.getDeviceProperties(1)
    assert cp.arange(2).device == device


def test_attributes_are_those_of_the_virtual_gpu(cp):
    from numba import cuda

    attributes = cp.cuda.Device().attributes
    ours = cuda.get_current_device()
    assert attributes["MaxThreadsPerBlock"] == ours.MAX_THREADS_PER_BLOCK == 1024
    assert attributes["MultiProcessorCount"] == ours.MULTIPROCESSOR_COUNT
    assert attributes["WarpSize"] == 32
    assert attributes["ClockRate"] == attributes["L2CacheSize"] == 0  # there is no such thing
    number = cp.cuda.runtime.cudaDevAttrMaxBlockDimZ
    assert cp.cuda.runtime.deviceGetAttribute(number, 0) == 64
    assert cp.cuda.runtime.deviceGetAttribute(10**6, 0) == 0


def test_properties(cp):
    properties = cp.cuda.runtime.getDeviceProperties(0)
    assert properties["name"] == b"Virtual GPU (CPU)"
    assert (properties["major"], properties["minor"], properties["warpSize"]) == (9, 0, 32)
    assert properties["maxThreadsDim"] == (1024, 1024, 64)
    assert properties["totalGlobalMem"] == cp.cuda.Device().mem_info[1]
    assert properties["clockRate"] == 0
    text = properties["uuid"].hex()
    assert text == cp.cuda.Device(0).uuid.removeprefix("GPU-").replace("-", "")
    assert properties["luid"] == bytes(8)
    assert properties["streamPrioritiesSupported"] in (0, 1)
    assert cp.cuda.runtime.runtimeGetVersion() >= 12000


def test_it_says_what_it_is(cp, capsys):
    cp.show_config()
    text = capsys.readouterr().out
    assert "stand-in for machines without a GPU" in text
    assert "Virtual GPU (CPU)" in text
    assert np.__version__ in text
    assert cp.__version__.startswith("14.2") and "virtualgpu" in cp.__version__


def test_streams(cp):
    stream = cp.cuda.Stream(non_blocking=True)
    null = cp.cuda.Stream.null
    assert cp.cuda.get_current_stream() == null
    with stream:
        assert cp.cuda.get_current_stream() is stream
        with null:
            assert cp.cuda.get_current_stream() is null
        assert cp.cuda.get_current_stream() is stream
        a = cp.arange(3)
    assert cp.cuda.get_current_stream() is null
    stream.use()
    assert cp.cuda.get_current_stream() is stream
    null.use()
    stream.synchronize()
    assert stream.done and stream.is_non_blocking
    assert a.get(stream=stream, blocking=False).tolist() == [0, 1, 2]
    seen = []
    stream.add_callback(lambda *arguments: seen.append(arguments), 5)
    stream.launch_host_func(seen.append, 6)
    assert seen == [(stream, 0, 5), 6]
    assert cp.cuda.ExternalStream(stream.ptr) == stream
    assert len({null, cp.cuda.Stream(null=True), stream}) == 2
    with pytest.raises(NotImplementedError, match="no CUDA graphs"):
        stream.begin_capture()


def test_another_thread_has_its_own_current_stream(cp):
    import threading

    found = []
    with cp.cuda.Stream():
        worker = threading.Thread(target=lambda: found.append(cp.cuda.get_current_stream()))
        worker.start()
        worker.join()
    assert found == [cp.cuda.Stream.null]


def test_events_have_no_times(cp, monkeypatch):
    monkeypatch.setattr(cp.cuda.stream, "_warned", False)
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    cp.arange(1000).sum()
    cp.cuda.get_current_stream().record(end)
    end.synchronize()
    assert end.done
    with pytest.warns(UserWarning, match="the virtual GPU has no times"):
        assert math.isnan(cp.cuda.get_elapsed_time(start, end))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(cp.cuda.get_elapsed_time(start, end))  # said once
    for other in (cp.cuda.Event(), cp.cuda.Event(disable_timing=True)):
        with pytest.raises(cp.cuda.runtime.CUDARuntimeError, match="invalid resource handle"):
            cp.cuda.get_elapsed_time(start, other)
    with pytest.raises(ValueError, match="Timing must be disabled"):
        cp.cuda.Event(interprocess=True)


def test_the_runtime_copies(cp):
    runtime = cp.cuda.runtime
    address = runtime.malloc(64)
    host = np.arange(8.0)
    runtime.memcpy(address, host.ctypes.data, 64, runtime.memcpyHostToDevice)
    other = runtime.malloc(64)
    runtime.memcpyAsync(other, address, 64, runtime.memcpyDefault, 0)
    runtime.memset(other, 0, 8)
    found = np.empty(8)
    runtime.memcpy(found.ctypes.data, other, 64, runtime.memcpyDefault)
    assert found.tolist() == [0, *range(1, 8)]
    runtime.free(address)
    runtime.free(other)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorInvalidValue"):
        runtime.free(address)
    with pytest.raises(runtime.CUDARuntimeError, match="out of memory"):
        runtime.malloc(cp.cuda.Device().mem_info[1] + 1)
    with pytest.raises(NotImplementedError, match=r"cupy\.cuda\.runtime\.graphLaunch"):
        runtime.graphLaunch(0, 0)


def test_memoize(cp):
    calls = []

    @cp.memoize(for_each_device=True)
    def square(x):
        calls.append(x)
        return x * x

    assert [square(3), square(3)] == [9, 9]
    cp.clear_memo()
    assert square(3) == 9
    assert calls == [3, 3]


def test_a_dlpack_capsule_of_device_memory_lives_as_long_as_its_reader(cp):
    import cupy._arrays.dlpack as _dlpack

    before = len(_dlpack._given)
    a = cp.arange(6.0).reshape(2, 3).T
    b = _dlpack.take_in(_OnlyDLPack(a))
    assert b.data.ptr == a.data.ptr and b.strides == a.strides
    assert cp.asnumpy(b).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert len(_dlpack._given) == before + 1
    del b
    assert len(_dlpack._given) == before


class _OnlyDLPack:
    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **named):
        return self._array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def test_dlpack_to_the_host_is_a_copy(cp):
    a = cp.arange(4.0)
    assert a.__dlpack_device__() == (2, 0)
    host = np.from_dlpack(a, device="cpu")
    assert host.tolist() == [0, 1, 2, 3]
    a[0] = 9
    assert host[0] == 0
    with pytest.raises(BufferError, match="needs a GPU"):
        a.__dlpack__()
    with pytest.raises(ValueError, match="the valid stream"):
        a.__dlpack__(stream=0)


def test_vectorize_and_polynomials(cp):
    above = cp.vectorize(lambda x, y: x + y if x > y else 0)
    assert above(cp.arange(4), 1).tolist() == [0, 0, 3, 4]
    line = cp.poly1d(cp.array([2.0, 1]))
    assert type(line.coeffs) is cp.ndarray
    assert ((line * line) + 1)(cp.arange(3)).tolist() == [2, 10, 26]
    assert line.get() == np.poly1d([2.0, 1])


def test_leaving_an_interpreter_with_arrays_alive_is_quiet():
    program = (
        "import virtualgpu; virtualgpu.activate(); import cupy; a = cupy.arange(3)\n"
        "class Keep: pass\nk = Keep(); k.k, k.a = k, cupy.ones(5)[1:]"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_kernels_of_ones_own_are_imported_when_asked_for():
    program = (
        "import sys, virtualgpu; virtualgpu.activate(); import cupy\n"
        "(cupy.arange(3) + 1).get(); print([n for n in sys.modules if 'cupy._kernel' in n])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.stdout.strip() == "[]", ended.stderr


def test_names_that_other_packages_use(cp):
    """FBPIC and cuBIE: a device's name, streams of other libraries, pools, modules of PTX."""
    import numba

    device, stream = cp.cuda.Device(0), cp.cuda.Stream()
    assert device.uuid == f"GPU-{numba.cuda.get_current_device().uuid}".replace("GPU-GPU", "GPU")
    external = cp.cuda.Stream.from_external(stream)
    assert external == stream and isinstance(external, cp.cuda.Stream)
    pool = cp.cuda.MemoryAsyncPool()
    assert pool.malloc(100).mem.size == 512 and isinstance(pool, cp.cuda.MemoryPool)

    def add_one(values):
        values[numba.cuda.grid(1)] += 1

    ptx, _ = numba.cuda.compile_ptx(add_one, (numba.float64[::1],))
    module = cp.cuda.function.Module()
    with pytest.raises(ValueError, match="nothing is loaded"):
        module.get_function("add_one")
    module.load(ptx.encode())
    name = ptx.partition(".entry ")[2].partition("(")[0].strip()
    x = cp.zeros(5)
    word = np.int64
    module.get_function(name)((1,), (5,), (word(0), word(0), word(5), word(8), x, word(5), word(8)))
    assert x.tolist() == [1] * 5
    with pytest.raises(NotImplementedError, match="machine code of a real GPU"):
        module.load(b"\x7fELF")


def test_a_plan_transforms_batches_in_place_in_memory_and_scales_none(cp):
    """Many transforms of one length; https://docs.nvidia.com/cuda/cufft: none is scaled."""
    from cupy.cuda import cufft

    random = np.random.default_rng(0)
    a = random.normal(size=(3, 10)) + 1j * random.normal(size=(3, 10))
    plan = cufft.Plan1d(10, cufft.CUFFT_Z2Z, 3)
    d_a = cp.asarray(a)
    out = plan.get_output_array(d_a)
    plan.fft(d_a, out, cufft.CUFFT_FORWARD)
    np.testing.assert_allclose(out.get(), np.fft.fft(a), rtol=1e-12)
    plan.fft(out, out, cufft.CUFFT_INVERSE)
    np.testing.assert_allclose(out.get(), 10 * a, rtol=1e-12)
    flat = cp.asarray(a.T, order="F")  # columns that lie one after the other
    plan.fft(flat, flat, cufft.CUFFT_FORWARD)
    np.testing.assert_allclose(flat.get(), np.fft.fft(a).T, rtol=1e-12)

    real = a.real.astype(np.float32)
    forward = cufft.Plan1d(10, cufft.CUFFT_R2C, 3)
    half = forward.get_output_array(cp.asarray(real))
    forward.fft(cp.asarray(real), half, cufft.CUFFT_FORWARD)
    assert half.shape == (3, 6) and half.dtype == np.complex64
    back = cp.empty((3, 10), np.float32)
    with cufft.Plan1d(10, cufft.CUFFT_C2R, 3) as inverse:
        inverse.fft(half, back, cufft.CUFFT_INVERSE)
    np.testing.assert_allclose(back.get(), 10 * real, rtol=1e-4, atol=1e-5)

    with pytest.raises(TypeError, match="needs out of dtype complex128, not complex64"):
        plan.fft(d_a, half, cufft.CUFFT_FORWARD)
    with pytest.raises(ValueError, match="30 contiguous numbers"):
        plan.fft(cp.zeros((6, 10), complex)[::2], out, cufft.CUFFT_FORWARD)
    with pytest.raises(ValueError, match="not one of cufft's"):
        cufft.Plan1d(10, 7, 3)
    with pytest.raises(NotImplementedError, match="several GPUs"):
        cufft.Plan1d(10, cufft.CUFFT_Z2Z, 3, devices=2)
    with pytest.raises(NotImplementedError, match=r"XtPlanNd.*use Plan1d"):
        _ = cufft.XtPlanNd


def test_thrust_sorts_at_an_address(cp):
    """As FBPIC sorts its particles' cells: the numbers and where they came from at once."""
    from cupy.cuda import thrust

    import virtualgpu

    numbers = np.array([5, 1, 4, 1, 5, 0], np.int32)
    keys, places = cp.asarray(numbers), cp.empty(6, np.int64)
    with virtualgpu.launches() as listed:
        thrust.argsort(keys.dtype, places.data.ptr, keys.data.ptr, 0, keys.shape)
    assert keys.tolist() == sorted(numbers.tolist()) and places.tolist() == [5, 1, 3, 2, 0, 4]
    assert {one.name for one in listed} == {"thrust.argsort"}
    rows = cp.asarray([[3.0, float("nan"), 1.0], [2.0, 0.0, 1.0]])
    thrust.sort(rows.dtype, rows.data.ptr, 0, rows.shape)
    np.testing.assert_array_equal(rows.get(), [[1, 3, np.nan], [0, 1, 2]])
    thrust.lexsort(rows.dtype, places.data.ptr, rows.data.ptr, 2, 3)
    assert places[:3].tolist() == [0, 1, 2]
    with pytest.raises(virtualgpu.VirtualGPUError, match="array over memory of 800 bytes"):
        thrust.sort(rows.dtype, rows.data.ptr, 0, (100,))
    with pytest.raises(NotImplementedError, match=r"get_build_version.*cupy\.sort"):
        _ = thrust.get_build_version


@pytest.mark.parametrize("kind", "sdcz")
def test_cublas_multiplies_columns_at_an_address(cp, kind):
    """BLAS: C = alpha op(A) op(B) + beta C, column by column; FBPIC calls dgemm of it."""
    from cupy.cuda import cublas, device

    dtype = {"s": "f", "d": "d", "c": "F", "z": "D"}[kind]
    random = np.random.default_rng(1)

    def numbers(*shape):
        return (random.normal(size=shape) + (1j if dtype in "FD" else 0)).astype(dtype)

    def at(value):
        scalars.append(np.array(value, dtype))
        return scalars[-1].ctypes.data

    def op(matrix, how):
        return matrix if not how else matrix.T if how == 1 else matrix.conj().T

    scalars: list = []
    handle, gemm = device.get_cublas_handle(), getattr(cublas, f"{kind}gemm")
    tolerance = {"rtol": 1e-4 if dtype in "fF" else 1e-12, "atol": 1e-5}
    for ways in ((0, 0), (1, 0), (0, 2), (2, 1)):
        a, b, c = numbers(*((3, 4) if not ways[0] else (4, 3))), numbers(4, 2), numbers(3, 2)
        b = b if not ways[1] else np.ascontiguousarray(b.T)
        d_a, d_b, d_c = (cp.asarray(one, order="F") for one in (a, b, c))
        gemm(handle, *ways, 3, 2, 4, at(2), d_a.data.ptr, a.shape[0], d_b.data.ptr, b.shape[0],
             at(0.5), d_c.data.ptr, 3)  # fmt: skip
        right = 2 * op(a, ways[0]) @ op(b, ways[1]) + 0.5 * c
        np.testing.assert_allclose(d_c.get(), right, **tolerance)

    # Rows of C order are columns; the next pair lies 6 elements on.
    a, b = numbers(2, 2, 3), numbers(2, 3, 2)
    d_a, d_b, d_c = cp.asarray(a), cp.asarray(b), cp.full((2, 2, 2), np.nan, dtype)
    getattr(cublas, f"{kind}gemmStridedBatched")(
        handle, 0, 0, 2, 2, 3, at(1), d_b.data.ptr, 2, 6, d_a.data.ptr, 3, 6, at(0), d_c.data.ptr,
        2, 4, 2,
    )  # fmt: skip
    np.testing.assert_allclose(d_c.get(), a @ b, **tolerance)

    # alpha and beta on the device
    factors = cp.asarray([3, 0], dtype)
    y, x = cp.full(6, np.nan, dtype), cp.asarray(numbers(3))
    other = cublas.create()
    cublas.setPointerMode(other, cublas.CUBLAS_POINTER_MODE_DEVICE)
    getattr(cublas, f"{kind}gemv")(
        other, 1, 3, 2, factors.data.ptr, d_a.data.ptr, 3, x.data.ptr, 1,
        factors.data.ptr + factors.itemsize, y.data.ptr, 3,
    )  # fmt: skip
    np.testing.assert_allclose(y.get()[::3], 3 * a[0] @ x.get(), **tolerance)
    assert np.isnan(y.get()[[1, 2, 4, 5]]).all()
    cublas.destroy(other)


def test_cublas_refuses_what_would_go_wrong_on_a_gpu(cp):
    from cupy.cuda import cublas, device

    import virtualgpu

    a, one = cp.ones((2, 2)), np.array(1.0)
    handle, there, alpha = device.get_cublas_handle(), a.data.ptr, one.ctypes.data

    def call(handle=handle, op=0, m=2, alpha=alpha, ld=2):
        cublas.dgemm(handle, op, 0, m, 2, 2, alpha, there, ld, there, 2, alpha, there, ld)

    for wrong, status, words in (
        ({"handle": 3}, 1, "NOT_INITIALIZED: 3 is not a handle"),
        ({"op": 5}, 7, "operation 5 is not one"),
        ({"ld": 1}, 7, "lda = 1 is less than a column.s 2 rows"),
        ({"alpha": 1}, 7, "address of the host's memory"),
        ({"alpha": there}, 7, "address of the host's memory"),
    ):
        with pytest.raises(cublas.CUBLASError, match=words) as caught:
            call(**wrong)
        assert caught.value.status == status
    with pytest.raises(virtualgpu.VirtualGPUError, match="array over memory"):
        call(m=9, ld=9)
    with pytest.raises(NotImplementedError, match=r"sgetrfBatched.*cupy\.linalg"):
        _ = cublas.sgetrfBatched
    assert cp.cuda.Device().cublas_handle == handle


@pytest.mark.rehearsal
def test_complex_numbers_of_thrust(cp):
    """PtyPy's kernels: `namespace thrust` by CuPy's header, and by thrust's own name."""
    for header in ("cupy/complex.cuh", "thrust/complex.h"):
        module = cp.RawModule(
            code=f"#include <{header}>\n"
            + r"""
extern "C" __global__ void turn(thrust::complex<float> *a) {
    a[threadIdx.x] = thrust::conj(a[threadIdx.x]) * thrust::polar(1.0f, 0.5f);
}""",
            options=("-std=c++17",),
        )
        a = cp.asarray(np.array([1, 2j], np.complex64))
        module.get_function("turn")((1,), (2,), (a,))
        np.testing.assert_allclose(a.get(), np.array([1, -2j]) * np.exp(0.5j), rtol=1e-6)


def test_what_is_joined_need_not_be_an_array_of_the_device(cp):
    """hstack and its like make arrays of what they are given, by atleast_1d and its like."""
    assert cp.hstack([1.0, cp.asarray(2.0)]).tolist() == [1, 2]
    assert cp.vstack([np.zeros(2), cp.ones(2)]).tolist() == [[0, 0], [1, 1]]
    assert np.dstack([np.zeros((2, 2), "u1"), cp.ones((2, 2), "u1")]).shape == (2, 2, 2)
    for strict in (cp.concatenate, cp.column_stack):
        with pytest.raises(TypeError, match="Only cupy arrays can be"):
            strict([np.zeros(2), cp.ones(2)])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda cp: cp.cuda.alloc_pinned_memory(512),
        lambda cp: np.asarray(cp.cuda.alloc_pinned_memory(512)),
        lambda cp: np.frombuffer(cp.cuda.alloc_pinned_memory(512), np.uint8),
        lambda cp: np.ndarray(512, np.uint8, cp.cuda.alloc_pinned_memory(512))[100:],
        lambda cp: np.asarray(cp.cuda.alloc_pinned_memory(512) + 8)[8:].view(np.int16),
        lambda cp: importlib.import_module("cupyx").zeros_pinned(512, np.uint8),
    ],
)
def test_pinned_memory_is_an_arrays_as_long_as_that_lives(cp, wrap):
    one, other = wrap(cp), wrap(cp)
    assert not np.shares_memory(one, other)


def test_ranges_of_nvtx_nest(cp):
    from cupy.cuda import nvtx

    assert [nvtx.RangePush("outer"), nvtx.RangePush("inner", 1)] == [0, 1]
    nvtx.Mark("here")
    assert [nvtx.RangePop(), nvtx.RangePop(), nvtx.RangePop()] == [1, 0, -2]
