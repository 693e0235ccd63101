"""A virtual GPU in another process: every front end and stand-in works with it, errors included."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.devices.virtual_process import VirtualProcess
from virtualgpu.errors import (
    LaunchError,
    LinkError,
    MemoryAccessError,
    OutOfMemory,
    VirtualGPUError,
)

SOURCE = r"""
__device__ int counter = 5;
extern "C" __global__ void scale(float *x, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
extern "C" __global__ void too_far(float *x)
{
    x[threadIdx.x + 30] = 1;
}
extern "C" __global__ void hello()
{
    printf("thread %d\n", threadIdx.x);
    atomicAdd(&counter, 1);
}
"""


@pytest.fixture(scope="module")
def there() -> Iterator[VirtualProcess]:
    """The device of another process, for every front end."""
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    with VirtualProcess(256 << 20) as device, devices.use(device):
        yield device
    if not before:
        virtualgpu.deactivate()


@pytest.fixture
def module(there) -> virtualgpu.Module:
    return virtualgpu.Module.from_cuda(SOURCE, name="scale.cu")


@pytest.fixture(scope="module")
def cp(there):
    import cupy

    return cupy


@pytest.fixture
def pycuda(there):
    import pycuda.autoinit
    import pycuda.compiler
    import pycuda.gpuarray

    return pycuda


# -- the device itself --------------------------------------------------------------------------


def test_memory_is_seen_on_both_sides(there):
    before = there.allocated
    address = there.allocate(16)
    assert there.allocated == before + 16
    assert there.extent(address + 3) == (address, address + 16)
    assert (there.read(address, 16) == 0xFE).all()
    view = there.view(address, (2, 2), np.float32, (4, 8))
    view[...] = [[1, 3], [2, 4]]
    assert there.address_of(view[1:].ctypes.data) == address + 4
    assert there.read(address, 16).view(np.float32).tolist() == [1, 2, 3, 4]
    there.write(address, np.arange(4, dtype=np.int32))
    there.copy(address + 8, address, 4)
    there.fill(address, 255, 2)
    assert view.view(np.uint32).T.reshape(-1).tolist() == [0xFFFF, 1, 0, 3]
    assert there.host_view(address + 4, 4).view(np.int32) == 1
    there.free(address)
    assert there.extent(address) is None and there.allocated == before


def test_errors_are_the_same_as_here(there):
    here = devices.VirtualDevice(there.total_memory)
    assert (there.name, there.compute_capability) == (here.name, here.compute_capability)
    for wrong in (lambda device: device.allocate(1 << 40),
                  lambda device: device.allocate(-1),
                  lambda device: device.free(12),
                  lambda device: device.read(16, 8),
                  lambda device: device.demand(16, 8, "a thing"),
                  lambda device: device.load("no PTX"),
                  lambda device: device.symbol(device.load(""), "missing"),
                  lambda device: device.launch(device.load(""), "k", (1, 1, 1), (1, 1, 1), [])):
        with pytest.raises((VirtualGPUError, ValueError)) as as_here:
            wrong(here)
        with pytest.raises(as_here.type) as as_there:
            wrong(there)
        if as_here.type is not OutOfMemory:  # how much is free differs
            assert str(as_there.value) == str(as_here.value)


def test_a_module_has_its_variables_there(there, module, capsys):
    before = there.allocated
    assert module.read_symbol("counter", np.int32).tolist() == [5]
    module.launch("hello", 1, 2)
    assert capsys.readouterr().out == "thread 0\nthread 1\n"
    assert module.read_symbol("counter", np.int32).tolist() == [7]
    with pytest.raises(LinkError, match="no variable nothing"):
        module.symbol("nothing")
    with pytest.raises(LaunchError, match="at most 1024"):
        module.launch("hello", 1, 2000)
    module.unload()
    assert there.allocated == before


def test_an_illegal_access_names_line_block_and_thread(module):
    x = np.zeros(32, np.float32)
    with pytest.raises(MemoryAccessError, match=r"scale\.cu line 10, thread 2 of block 0") as wrong:
        module.launch("too_far", 1, 32, [x])
    place = wrong.value.location
    assert (place.kernel, place.line, place.block, place.thread) == (
        "too_far", 10, (0, 0, 0), (2, 0, 0))
    assert wrong.value.space == "global" and wrong.value.address
    here = virtualgpu.Module.from_cuda(SOURCE, name="scale.cu", device=virtualgpu.VirtualDevice())
    with pytest.raises(MemoryAccessError) as as_here:
        here.launch("too_far", 1, 32, [x])
    assert str(wrong.value) == str(as_here.value)


def test_who_would_watch_is_told_that_nothing_can_be_seen(module):
    for watching in (virtualgpu.check(), virtualgpu.profile(), virtualgpu.schedule(1)):
        with watching, pytest.raises(VirtualGPUError, match="launches in another"):
            module.launch("hello", 1, 1)


def test_the_end_of_the_process_is_an_error_that_says_so():
    with VirtualProcess(1 << 20) as device:
        address = device.allocate(8)
        device._child.process.kill()
        with pytest.raises(VirtualGPUError, match=r"the virtual GPU's process ended \(-9\)"):
            device.read(address, 8)
        with pytest.raises(VirtualGPUError, match="ended"):
            device.synchronize()
        device.free(address)  # by a finaliser, which nobody hears
    other = VirtualProcess(1 << 20)
    other.close()
    with pytest.raises(VirtualGPUError, match="was ended"):
        other.allocate(8)


def test_what_is_freed_in_the_middle_of_a_request_is_freed_after_it(there, monkeypatch):
    """The collector runs finalisers at any time, also while an answer is waited for."""
    before = there.allocated
    first, second = there.allocate(8), there.allocate(8)
    answer = there._child.answer

    def interrupted(seconds):
        monkeypatch.setattr(there._child, "answer", answer)
        there.free(first)
        return answer(seconds)

    monkeypatch.setattr(there._child, "answer", interrupted)
    assert there.extent(second) == (second, second + 8)
    there.free(second)
    assert there.extent(first) is None and there.allocated == before


def test_threads_take_turns(there):
    addresses = [there.allocate(8) for _ in range(4)]

    def work(number: int) -> None:
        for value in range(50):
            there.write(addresses[number], np.array([value, number], np.int32))
            assert there.read(addresses[number], 8).view(np.int32).tolist() == [value, number]
        right.append(number)

    right: list[int] = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(right) == [0, 1, 2, 3]
    for address in addresses:
        there.free(address)


# -- front ends and stand-ins -------------------------------------------------------------------


def test_numba_kernels(there):
    from numba import cuda

    @cuda.jit
    def twice(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 2 * x[i]

    x = np.arange(100, dtype=np.float32)
    y = cuda.device_array_like(x)
    twice[4, 32](cuda.to_device(x), y)
    assert there.extent(y.device_ctypes_pointer.value)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * x)
    managed = cuda.managed_array(10, np.float32)
    managed[:] = 3
    twice[1, 32](managed, y)
    np.testing.assert_array_equal(y[:10].copy_to_host(), np.full(10, 6))

    @cuda.jit
    def beyond(x):
        x[cuda.grid(1) + 1] = 0

    with pytest.raises(MemoryAccessError, match=r"test_remote.py line \d+") as wrong:
        beyond[2, 50](x)
    assert (wrong.value.location.block, wrong.value.location.thread) == ((1, 0, 0), (49, 0, 0))


def test_cupy_arrays_and_raw_kernels(there, cp):
    x = cp.arange(12, dtype=cp.float32).reshape(3, 4)
    assert there.extent(x.data.ptr) == (x.data.ptr, x.data.ptr + 48)
    y = (x * 2 + 1)[::-1, 1:]
    np.testing.assert_array_equal(
        y.get(), (np.arange(12, dtype=np.float32).reshape(3, 4) * 2 + 1)[::-1, 1:])
    assert float(x.sum()) == 66 and x.max(axis=0).get().tolist() == [8, 9, 10, 11]
    x[1, :] = -1
    scale = cp.RawKernel(SOURCE, "scale")
    scale((1,), (32,), (x, cp.float32(10), np.int32(12)))
    assert cp.asnumpy(x).ravel().tolist() == [0, 10, 20, 30, -10, -10, -10, -10, 80, 90, 100, 110]
    squared = cp.ElementwiseKernel("float32 x", "float32 y", "y = x * x", "squared")
    assert squared(x)[2].get().tolist() == [6400, 8100, 10000, 12100]
    assert cp.cuda.runtime.memGetInfo()[1] == there.total_memory
    with pytest.raises(MemoryAccessError, match="line 10"):
        cp.RawKernel(SOURCE, "too_far")((1,), (32,), (x,))


def test_cupy_gives_its_memory_back(there, cp):
    pool = cp.cuda.MemoryPool()  # the default one may hold blocks that other tests' arrays split
    before = there.allocated
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.ones(1000)
        pointer = x.data.ptr
        del x
        assert there.extent(pointer) is None and there.allocated > before
        again = cp.zeros(1000)
        assert again.data.ptr == pointer
        del again
    pool.free_all_blocks()
    assert there.allocated == before


def test_pycuda_modules_and_arrays(there, pycuda):
    module = pycuda.compiler.SourceModule(SOURCE, no_extern_c=True)
    x = pycuda.gpuarray.to_gpu(np.arange(8, dtype=np.float32))
    module.get_function("scale")(x, np.float32(3), np.int32(8), block=(8, 1, 1), grid=(1, 1))
    assert there.extent(x.ptr) == (x.ptr, x.ptr + 32)
    assert (x + 1)[2:5].get().tolist() == [7, 10, 13]
    assert pycuda.gpuarray.sum(x).get() == 84
    shared = pycuda.driver.managed_empty(4, np.float32)
    shared[:] = 2
    module.get_function("scale")(
        shared.base, np.float32(4), np.int32(4), block=(4, 1, 1), grid=(1, 1))
    assert shared.tolist() == [8, 8, 8, 8]
    with pytest.raises(MemoryAccessError, match="line 10"):
        module.get_function("too_far")(x, block=(8, 1, 1), grid=(1, 1))


def test_cudf_series(there, cp):
    import cudf

    series = cudf.Series([1.5, 2.5, None, 4.0])
    assert (series * 2 + 1).to_pandas().tolist()[:2] == [4.0, 6.0]
    assert series.sum() == 8
    whole = cudf.Series(cp.arange(5))
    assert there.extent(cp.asarray(whole.values).data.ptr)
    assert (whole + whole).to_numpy().tolist() == [0, 2, 4, 6, 8]
    frame = cudf.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
    assert frame.groupby("a").b.sum().sort_index().to_pandas().tolist() == [3.0, 3.0]


def test_a_device_out_of_reach_is_refused_by_name(there, cp, monkeypatch):
    monkeypatch.setattr(there, "shares_memory", False, raising=False)
    with pytest.raises(VirtualGPUError, match=r"CuPy's stand-in computes on the memory of .*, and "
                                              r"'Virtual GPU \(CPU\)' keeps its memory in another"):
        cp.zeros(3)
