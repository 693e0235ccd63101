"""Memory of the driver's that the host or another process reaches: managed memory, CUDA IPC."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fresh_python import in_fresh_python
from virtualgpu.driver import library

pytestmark = [
    pytest.mark.skipif(not library.is_possible(), reason="Linux on x86-64 alone"),
    pytest.mark.usefixtures("active"),
]


def test_managed_memory_has_one_address():
    """``cuMemAllocManaged``: host and kernels use one pointer, and the driver knows what it is. The
    device is the first of its process; a second one's memory has two addresses."""
    result = in_fresh_python("""
import ctypes
import virtualgpu
virtualgpu.activate(force=True)
from cuda import core
from cuda.bindings import driver

device = core.Device(0)
device.set_current()
kernel = core.Program('extern "C" __global__ void twice(int *x) { x[threadIdx.x] *= 2; }',
                      "c++").compile("ptx").get_kernel("twice")
error, made = driver.cuMemAllocManaged(128, 1)
assert error == 0
seen = (ctypes.c_int32 * 32).from_address(int(made))
seen[:] = range(32)
core.launch(device.default_stream, core.LaunchConfig(grid=1, block=32), kernel, int(made))
attribute = driver.CUpointer_attribute
known = [int(driver.cuPointerGetAttribute(
    getattr(attribute, f"CU_POINTER_ATTRIBUTE_{name}"), made)[1])
    for name in ("IS_MANAGED", "HOST_POINTER", "MEMORY_TYPE")]
result = [list(seen), int(made), known, int(driver.cuMemFree(made)[0])]
other = virtualgpu.VirtualDevice(1 << 26)
with virtualgpu.devices.use(other):
    code, _ = driver.cuMemAllocManaged(128, 1)
    result += [code.name, driver.cuGetErrorString(code)[1].decode(), other.allocated]
""")
    assert result[0] == list(range(0, 64, 2))
    assert result[2:4] == [[1, result[1], 2], 0]
    assert result[4] == "CUDA_ERROR_NOT_SUPPORTED" and result[6] == 0
    assert "one address that is valid on the host and on the device" in result[5]


def test_another_process_opens_an_array(cuda):
    """CUDA IPC: a handle that numba-cuda sends, opened through the driver in C and by Numba."""
    shared = cuda.to_device(np.arange(10))
    handle = shared.get_ipc_handle()
    sent = pickle.dumps(handle).hex()
    raw = bytes(handle._ipc_handle.handle.reserved).hex()
    code, seen, doubled, closed = in_fresh_python(f"""
import ctypes
import pickle
import virtualgpu
virtualgpu.activate(force=True)
from cuda.bindings import driver
from numba import cuda

cuda.current_context()
handle = driver.CUipcMemHandle()
ctypes.memmove(handle.getPtr(), bytes.fromhex({raw!r}), 64)
code, address = driver.cuIpcOpenMemHandle(handle, 1)
numbers = (ctypes.c_int64 * 10)()
driver.cuMemcpyDtoH(ctypes.addressof(numbers), address, 80)
driver.cuMemsetD32(address, 7, 1)

with pickle.loads(bytes.fromhex({sent!r})) as array:
    doubled = (array.copy_to_host() * 2).tolist()
closed = [driver.cuIpcCloseMemHandle(address)[0].name for _ in range(2)]
result = [int(code), list(numbers), doubled, closed]
""")
    assert code == 0 and seen == list(range(10)) and doubled == [14, *range(2, 20, 2)]
    assert closed == ["CUDA_SUCCESS", "CUDA_ERROR_INVALID_VALUE"]
    assert shared.copy_to_host().tolist() == [7, *range(1, 10)]
