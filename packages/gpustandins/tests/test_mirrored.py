"""A device in another process, with a copy of its memory here: what goes over, and what comes back.
Every front end and stand-in works with it.
"""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from device_elsewhere import DeviceElsewhere
from virtualgpu import devices
from virtualgpu.devices.mirrored import MirroredDevice
from virtualgpu.errors import MemoryAccessError, VirtualGPUError

SCALE = r"""extern "C" __global__ void scale(float *x, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__device__ float table[4];
extern "C" __global__ void from_table(float *x) { x[threadIdx.x] = table[threadIdx.x]; }
"""


@pytest.fixture(scope="module")
def elsewhere():
    device = DeviceElsewhere()
    yield device
    device.close()


@pytest.fixture
def there(elsewhere):
    elsewhere.begin()
    return elsewhere


@pytest.fixture
def mirrored(there):
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    # Numba remembers a device's name from the first time that it looks, whichever is current then.
    device = MirroredDevice(there.ask, "Virtual GPU (CPU)", (9, 0), 64 << 20)
    with devices.use(device):
        yield device
    if not before:
        virtualgpu.deactivate()


@pytest.fixture
def cp(mirrored):
    import cupy

    return cupy


@pytest.fixture
def pycuda(mirrored):
    import pycuda.autoinit
    import pycuda.compiler
    import pycuda.gpuarray

    return pycuda


def test_arrays_and_kernels_of_cupy(there, mirrored, cp):
    x = cp.arange(8, dtype=cp.float32)
    assert mirrored.extent(x.data.ptr + 3) == (x.data.ptr, x.data.ptr + 32)
    scale = cp.RawKernel(SCALE, "scale")
    scale((1,), (32,), (x, cp.float32(3), np.int32(8)))
    assert x.get().tolist() == [0, 3, 6, 9, 12, 15, 18, 21]
    assert there.read(x.data.ptr, 32).view(np.float32)[7] == 21
    x[2:4] = -1  # the host writes, after the device has
    scale((1,), (32,), (x, cp.float32(2), np.int32(8)))
    assert x.get().tolist() == [0, 6, -2, -2, 24, 30, 36, 42]
    assert cp.bincount(cp.asarray([1, 1, 3])).get().tolist() == [0, 2, 0, 1]
    assert int(cp.ElementwiseKernel("float32 a", "float32 b", "b = a * a", "squared")(x)[1]) == 36
    module = cp.RawModule(code=SCALE)
    table = cp.ndarray(4, cp.float32, module.get_global("table"))
    table[:] = 5
    module.get_function("from_table")((1,), (4,), (x,))
    assert x.get().tolist() == [5, 5, 5, 5, 24, 30, 36, 42]


def test_an_access_outside_is_told_at_the_exact_end(mirrored, cp):
    for _ in range(2):  # the second array gets the place of the first, of 512 bytes
        x = cp.zeros(7, cp.float32)
        with pytest.raises(VirtualGPUError, match="illegal address"):
            cp.RawKernel(SCALE, "scale")((1,), (32,), (x, cp.float32(3), np.int32(8)))
        del x
    assert issubclass(MemoryAccessError, VirtualGPUError)


def test_only_what_the_host_wrote_goes_over(there, mirrored):
    address = mirrored.allocate(16)
    view = mirrored.view(address, (4,), np.int32)
    assert (view.view(np.uint8) == 0xFE).all() and "read" not in there.asked
    for at in (0, 1, 3):
        view[at] = at
        mirrored.wrote(address + 4 * at, 4)
    mirrored.fill(mirrored.allocate(4), 0, 4)
    assert there.asked.count("write") == 2  # two neighbours, and one apart
    assert there.read(address, 16).view(np.int32).tolist() == [0, 1, -0x1010102, 3]
    mirrored.write(address, np.arange(4, dtype=np.int32) + 7)
    assert view.tolist() == [7, 8, 9, 10]
    mirrored.copy(address, address + 8, 8)
    mirrored.fill(address + 8, 1, 1)
    assert view.tolist() == [9, 10, 1, 10]


def test_mapped_memory_follows_without_a_word(mirrored):
    from numba import cuda

    @cuda.jit
    def twice(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    mapped = cuda.mapped_array(5, np.int64)
    for _ in range(2):
        mapped[:] = [1, 2, 3, 4, 5]
        twice[1, 32](mapped)
        assert mapped.tolist() == [2, 4, 6, 8, 10]


def test_what_finalisers_give_back_is_told_with_the_next_request(there, mirrored):
    first, second = mirrored.allocate(8), mirrored.allocate(8)
    asked = len(there.asked)
    mirrored.retire(first)
    mirrored.free(second)
    assert len(there.asked) == asked and mirrored.extent(first) is None
    with pytest.raises(VirtualGPUError, match="no live allocation"):
        mirrored.free(second)
    with pytest.raises(VirtualGPUError, match="not inside one allocation"):
        mirrored.view(first, (1,), np.int64)
    mirrored.revive(first, 8)
    assert there.asked[asked:] == ["retire", "free", "revive"]
    assert mirrored.extent(first) == (first, first + 8) and mirrored.allocated == 8
    mirrored.free(first)
    mirrored.synchronize()
    assert there.allocated == 0


# -- front ends and stand-ins -------------------------------------------------------------------


def test_numba_kernels(mirrored):
    from numba import cuda

    @cuda.jit
    def twice(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = 2 * x[i]

    x = np.arange(100, dtype=np.float32)
    y = cuda.device_array_like(x)
    twice[4, 32](cuda.to_device(x), y)
    assert mirrored.extent(y.device_ctypes_pointer.value)
    np.testing.assert_array_equal(y.copy_to_host(), 2 * x)
    managed = cuda.managed_array(10, np.float32)
    managed[:] = 3
    twice[1, 32](managed, y)
    np.testing.assert_array_equal(y[:10].copy_to_host(), np.full(10, 6))

    @cuda.jit
    def beyond(x):
        x[cuda.grid(1) + 1] = 0

    with pytest.raises(VirtualGPUError, match=r"test_mirrored.py line \d+, thread 49 of block 1"):
        beyond[2, 50](x)


def test_cupy_gives_its_memory_back(there, mirrored, cp):
    pool = cp.cuda.MemoryPool()  # the default one may hold blocks that other tests' arrays split
    before = mirrored.allocated
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.ones(1000)
        pointer = x.data.ptr
        del x
        assert mirrored.extent(pointer) is None
        again = cp.zeros(1000)
        assert again.data.ptr == pointer
        del again
    pool.free_all_blocks()
    mirrored.synchronize()
    assert mirrored.allocated == there.allocated == before


def test_pycuda_modules_and_arrays(mirrored, pycuda):
    module = pycuda.compiler.SourceModule(SCALE, no_extern_c=True)
    x = pycuda.gpuarray.to_gpu(np.arange(8, dtype=np.float32))
    module.get_function("scale")(x, np.float32(3), np.int32(8), block=(8, 1, 1), grid=(1, 1))
    assert mirrored.extent(x.ptr) == (x.ptr, x.ptr + 32)
    assert (x + 1)[2:5].get().tolist() == [7, 10, 13]
    assert pycuda.gpuarray.sum(x).get() == 84
    shared = pycuda.driver.managed_empty(4, np.float32)
    shared[:] = 2
    module.get_function("scale")(
        shared.base, np.float32(4), np.int32(4), block=(4, 1, 1), grid=(1, 1)
    )
    assert shared.tolist() == [8, 8, 8, 8]
    with pytest.raises(VirtualGPUError, match="line 4"):
        module.get_function("scale")(x, np.float32(3), np.int32(32), block=(32, 1, 1))


def test_cudf_series(mirrored, cp):
    import cudf

    series = cudf.Series([1.5, 2.5, None, 4.0])
    assert (series * 2 + 1).to_pandas().tolist()[:2] == [4.0, 6.0]
    assert series.sum() == 8
    whole = cudf.Series(cp.arange(5))
    assert mirrored.extent(cp.asarray(whole.values).data.ptr)
    assert (whole + whole).to_numpy().tolist() == [0, 2, 4, 6, 8]
    frame = cudf.DataFrame({"a": [1, 1, 2], "b": [1.0, 2.0, 3.0]})
    assert frame.groupby("a").b.sum().sort_index().to_pandas().tolist() == [3.0, 3.0]


def test_a_device_out_of_reach_is_refused_by_name(mirrored, cp, monkeypatch):
    monkeypatch.setattr(mirrored, "shares_memory", False, raising=False)
    with pytest.raises(
        VirtualGPUError,
        match=r"CuPy's stand-in computes in the memory of .*, but the memory of "
        r"'Virtual GPU \(CPU\)' is in another",
    ):
        cp.zeros(3)
