"""Errors of a launch are those of virtualgpu and those of numba-cuda, with a GPU's numbers."""

from __future__ import annotations

import pytest

import virtualgpu

pytestmark = pytest.mark.usefixtures("active")


@pytest.fixture(scope="module")
def put():
    """A kernel that writes a float to an address."""
    from numba import cuda

    store = cuda.declare_device("store", "int32(int64)", link=cuda.CUSource(
        'extern "C" __device__ int store(int *out, long at) '
        "{ *(float *)at = 1.0f; *out = 0; return 0; }"))

    @cuda.jit
    def put(address):
        store(address)

    return put


@pytest.mark.parametrize(("away", "kind", "number"), [
    (1, virtualgpu.MisalignedAddressError, 716), (64, virtualgpu.MemoryAccessError, 700)])
@pytest.mark.filterwarnings("ignore:Grid size")
def test_bad_addresses(put, away: int, kind: type, number: int):
    from numba import cuda
    from numba.cuda.cudadrv.driver import CudaAPIError

    room = cuda.device_array(16, "float32")
    put[1, 1](room.device_ctypes_pointer.value)
    with pytest.raises(CudaAPIError) as caught:
        put[1, 1](room.device_ctypes_pointer.value + away)
    assert isinstance(caught.value, kind)
    assert type(caught.value).__name__ == kind.__name__
    assert caught.value.code == number
