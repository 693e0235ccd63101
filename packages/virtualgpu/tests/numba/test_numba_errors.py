"""Errors of a launch are those of virtualgpu and those of numba-cuda, with a GPU's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import virtualgpu

pytestmark = pytest.mark.usefixtures("active")


@pytest.fixture(scope="module")
def put():
    """A kernel that writes a float to an address."""
    from numba import cuda

    store = cuda.declare_device(
        "store",
        "int32(int64)",
        link=cuda.CUSource(
            'extern "C" __device__ int store(int *out, long at) '
            "{ *(float *)at = 1.0f; *out = 0; return 0; }"
        ),
    )

    @cuda.jit
    def put(address):
        store(address)

    return put


@pytest.mark.parametrize(
    ("away", "kind", "number"),
    [(1, virtualgpu.MisalignedAddressError, 716), (64, virtualgpu.MemoryAccessError, 700)],
)
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
    if not options.get("debug"):  # whose calls are calls; these are inlined
        here = kernel.py_func.__code__.co_firstlineno + 4
        assert caught.value.location.callers == ((str(file), 8), (__file__, here))
        assert str(caught.value).splitlines()[-3:] == [
            "    y = a[i + 1]",
            "    called from line 8: step(a, i)",
            f"    called from test_numba_errors.py line {here}: twice(a, i)",
        ]


def test_a_finding_in_a_device_function_names_its_callers_and_is_one(tmp_path):
    """Two calls of one line are one place: the lines' equality leaves the callers out."""
    from numba import cuda

    @cuda.jit(device=True)
    def put(a, value):
        a[0] = value

    @cuda.jit
    def kernel(a):
        put(a, cuda.threadIdx.x)
        put(a, cuda.threadIdx.x + 1)

    with virtualgpu.check() as report:
        kernel[1, 64](cuda.device_array(1))
    assert [finding.kind for finding in report.findings] == ["race"]
    assert report.findings[0].line == put.py_func.__code__.co_firstlineno + 2
    assert "called from line" in str(report)


def test_a_loop_of_a_device_function_keeps_its_labels():
    """With its arguments described to debuggers, libNVVM leaves out a label that a branch names."""
    from numba import cuda, float32

    @cuda.jit(device=True)
    def steps_inside(cx, cy, limit):
        x = y = float32(0)
        steps = 0
        while steps < limit and x * x + y * y <= float32(4):
            x, y = x * x - y * y + cx, (x + x) * y + cy
            steps += 1
        return steps

    @cuda.jit
    def kernel(real, imag, limit, out):
        column, row = cuda.grid(2)
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = steps_inside(real[column], imag[row], limit)

    out = cuda.device_array((1, 4), np.int32)
    real = cuda.to_device(np.array([-2.5, -1, 0.5, 1], np.float32))
    kernel[1, 32](real, cuda.to_device(np.zeros(1, np.float32)), 100, out)
    assert out.copy_to_host().tolist() == [[1, 100, 5, 3]]


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
