"""A device that is asked, with a copy of its memory here: what goes over, and what comes back."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu
from virtualgpu import devices
from virtualgpu.devices.mirrored import MirroredDevice
from virtualgpu.devices.virtual_process import _do
from virtualgpu.errors import MemoryAccessError, VirtualGPUError

SCALE = r"""extern "C" __global__ void scale(float *x, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
__device__ float table[4];
extern "C" __global__ void from_table(float *x) { x[threadIdx.x] = table[threadIdx.x]; }
"""


class There:
    """What a mirrored device asks, and what it was asked for."""

    def __init__(self):
        self.device, self.modules, self.asked = devices.VirtualDevice(64 << 20), [], []

    def ask(self, fields, arrays):
        self.asked.append(fields["device"])
        try:
            return _do(self.device, self.modules, dict(fields), [array.copy() for array in arrays])
        except VirtualGPUError as error:
            return {"device_error": str(error)}, []


@pytest.fixture
def there():
    return There()


@pytest.fixture
def mirrored(there):
    before = virtualgpu.is_active()
    virtualgpu.activate(force=True)
    # Numba remembers a device's name from the first time that it looks, whichever is current then.
    device = MirroredDevice(there.ask, there.device.name, (9, 0), 64 << 20)
    with devices.use(device):
        yield device
    if not before:
        virtualgpu.deactivate()


@pytest.fixture
def cp(mirrored):
    import cupy

    return cupy


def test_arrays_and_kernels_of_cupy(there, mirrored, cp):
    x = cp.arange(8, dtype=cp.float32)
    assert mirrored.extent(x.data.ptr + 3) == (x.data.ptr, x.data.ptr + 32)
    scale = cp.RawKernel(SCALE, "scale")
    scale((1,), (32,), (x, cp.float32(3), np.int32(8)))
    assert x.get().tolist() == [0, 3, 6, 9, 12, 15, 18, 21]
    assert there.device.read(x.data.ptr, 32).view(np.float32)[7] == 21
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
    assert there.device.read(address, 16).view(np.int32).tolist() == [0, 1, -0x1010102, 3]
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
    with pytest.raises(VirtualGPUError, match="no allocation has them"):
        mirrored.view(first, (1,), np.int64)
    mirrored.revive(first, 8)
    assert there.asked[asked:] == ["retire", "free", "revive"]
    assert mirrored.extent(first) == (first, first + 8) and mirrored.allocated == 8
    mirrored.free(first)
    mirrored.synchronize()
    assert there.device.allocated == 0
