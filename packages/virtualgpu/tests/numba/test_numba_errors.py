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


ELSEWHERE = """from numba import cuda

def shifted(a, i):
    y = a[i + 1]
    a[i] = y

def twice(a, i):
    step(a, i)
"""


@pytest.mark.parametrize("options", [{}, {"debug": True, "opt": False}, {"lineinfo": True}])
def test_a_fault_in_a_device_function_is_told_at_its_own_line(tmp_path, options):
    """numba-cuda writes no line information of device functions by itself."""
    from numba import cuda

    file = tmp_path / "helpers.py"
    file.write_text(ELSEWHERE)
    names: dict = {}
    exec(compile(ELSEWHERE, str(file), "exec"), names)
    step = names["step"] = cuda.jit(device=True)(names["shifted"])
    twice = cuda.jit(device=True)(names["twice"])

    @cuda.jit(**options)
    def kernel(a):
        i = cuda.grid(1)
        if i < a.size:
            twice(a, i)

    with pytest.raises(virtualgpu.MemoryAccessError) as caught:
        kernel[1, 64](cuda.device_array(64))
    assert (caught.value.location.filename, caught.value.location.line) == (str(file), 4)
    assert caught.value.location.thread == (63, 0, 0)
    assert step.targetoptions.get("lineinfo", False) is False, "nothing of it stays"


def test_a_device_function_that_no_debugger_can_be_told_of_compiles(tmp_path):
    from numba import cuda

    @cuda.jit(device=True)
    def first(nested):
        return nested[1]

    @cuda.jit
    def kernel(a):
        a[0] = first(((), 5))

    out = cuda.device_array(1)
    kernel[1, 1](out)
    assert out.copy_to_host()[0] == 5
