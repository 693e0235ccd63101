"""Kernels and host functions judged from outside.

The student's kernels are compiled in the sandbox by the real numba-cuda and run on the oracle's
virtual GPU.
"""

from __future__ import annotations

import numpy as np
import pytest

from gpucourse.grading.arguments import describe_type, parameter_sizes
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.devices import new_device
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT
from grading_toy import submitted
from kernel_answers import SEED, kernels, scale
from threats import COUNT
from virtualgpu.devices import VirtualDevice
from virtualgpu.devices.real.machine_array import MachineArray


def test_what_students_send_is_not_compiled_in_the_oracle(monkeypatch):
    monkeypatch.setenv("VIRTUALGPU_NATIVE", "always")
    device = new_device(Limits())
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry k() { .reg .b32 %r<2>; mov.u32 %r1, 7; ret; }"
    )
    module = device.load(text)
    device.launch(module, "k", (1, 1, 1), (32, 1, 1), [])
    assert module.program("k").native is None


@pytest.fixture
def reasons(server):
    """Reasons of the two tests for a submission with some cells replaced; empty is passed."""
    assignment = kernels()

    def of(**changed: str) -> list[str]:
        verdict = grade(assignment, submitted(assignment, **changed), server, SEED)
        assert verdict.kind == GRADED, verdict.reason
        return [outcome.reason for outcome in verdict.tests]

    return of


def test_honest_control(reasons):
    assert reasons() == ["", ""]


# Right, and quick in lockstep; its lanes meet 2,100 times.
SHUFFLES = """
@cuda.jit
def tally(values, counts):
    own = cuda.local.array(8, int32)
    for slot in range(8):
        own[slot] = 0
    i = cuda.grid(1)
    if i < values.size:
        own[values[i]] += 1
    for repeat in range(60):
        for slot in range(7):
            n = own[slot]
            for distance in (16, 8, 4, 2, 1):
                n += cuda.shfl_down_sync(0xFFFFFFFF, n, distance)
            if repeat == 59 and i % 32 == 0 and n > 0:
                cuda.atomic.add(counts, slot, n)
"""


@pytest.mark.slow
def test_threat_104_a_right_kernel_that_takes_long_in_random_order(server):
    """Its repeat ends in lockstep; one that never ends is told as before."""
    assignment, limits = kernels(), Limits(launch_seconds=6.0)
    right = COUNT[: COUNT.index("@cuda.jit")] + SHUFFLES + COUNT[COUNT.index("def histogram") - 1 :]
    verdict = grade(assignment, submitted(assignment, count=right), server, SEED, limits)
    assert verdict.earned == verdict.points, verdict.to_json()
    endless = right.replace(
        "if repeat == 59", "while n == 1:\n                pass\n            if 1"
    )
    verdict = grade(assignment, submitted(assignment, count=endless), server, SEED, limits)
    assert "never finishes" in verdict.tests[1].reason


def test_a_result_may_stay_on_the_device(reasons):
    source = COUNT.replace("return counts.copy_to_host()", "return counts")
    assert reasons(count=source) == ["", ""]


def test_a_slice_of_what_a_kernel_wrote_is_its_result(reasons):
    source = COUNT.replace("np.zeros(bins", "np.zeros(bins + 3").replace(
        "copy_to_host()", "copy_to_host()[:bins]"
    )
    assert reasons(count=source) == ["", ""]


def test_what_is_not_written_yet_is_named(reasons):
    stub = "@cuda.jit\ndef scale(values, out):\n    raise NotImplementedError()\n"
    first, second = reasons(scale=stub)
    assert first == "raises NotImplementedError: nothing is written in 'scale' yet"
    assert second == ""


def test_a_stub_of_no_name_of_the_course_is_not_named(reasons):
    own = "\n\ndef secret(values):\n    raise NotImplementedError()\n\n\nhistogram = secret\n"
    first, second = reasons(count=COUNT + own)
    assert first == ""
    assert second == "raises NotImplementedError: nothing is written here yet"


def test_a_kernel_with_other_arguments(reasons):
    source = "@cuda.jit\ndef scale(values, out):\n    pass\n"
    assert "cannot be compiled for the arguments" in reasons(scale=source)[0]


def test_a_compile_error_names_the_missing_helper(reasons):
    told = reasons(scale=scale("    out[i] = missing(values[i])\n"))[0]
    assert "'missing' is not defined" in told


@pytest.mark.parametrize(
    ("above", "line", "told"),
    [
        ("from numba.cuda import threadIdx", "out[threadIdx.x] = 0.0", "write 'cuda.threadIdx'"),
        ("from numba.cuda import *", "shared.array(4, float64)", "write 'cuda.shared'"),
        ("from numba.cuda import atomic", "atomic.add(out, 0, 1.0)", "write 'cuda.atomic'"),
        ("from numba.cuda import threadIdx as at", "out[at.x] = 0.0", "such as cuda.threadIdx"),
        ("def plain(x):\n    return x", "out[i] = plain(values[i])", "@cuda.jit(device=True)"),
        (
            "class Own:\n    x = 1\nthing = Own()",
            "out[i] = thing.x",
            "a type that kernels cannot use",
        ),
        ("", "out[i] = missing(values[i])", "'missing' is not defined"),
    ],
)
def test_threat_100_a_name_that_is_there_is_not_called_undefined(reasons, above, line, told):
    reason = reasons(scale=f"{above}\n{scale(f'    {line}')}")[0]
    assert told in reason
    assert ("is not defined" in reason) == (not above)


def test_a_test_that_fails_by_itself_is_the_courses_fault(server):
    assignment = kernels()
    assignment.cells = [
        cell
        if cell.role != "test"
        else type(cell)(cell.role, cell.grade_id, cell.cell_type, "1 / 0", cell.points)
        for cell in assignment.cells
    ]
    verdict = grade(assignment, submitted(kernels()), server, SEED)
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert verdict.earned is None
    assert "test-scale" in verdict.reason


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((3, 4), np.float32),
        np.zeros(0, np.int64),
        np.float32(1),
        np.int8(3),
        2,
        2.5,
        True,
        1j,
    ],
)
def test_arguments_have_numbas_layout(value):
    """Sizes against what numba-cuda itself makes of the types."""
    from numba import cuda
    from numba.cuda import types

    from gpucourse.grading.sandbox.worker import numba_type
    from virtualgpu.ptx import parse

    kind = numba_type(describe_type(value))
    assert isinstance(kind, types.Array) == isinstance(value, np.ndarray)
    text, _ = cuda.compile_ptx(lambda argument: None, (kind,), cc=(9, 0))
    (entry,) = [f for f in parse(text).functions.values() if f.is_entry]
    assert [p.size for p in entry.parameters] == parameter_sizes(describe_type(value))


def test_array_parameters_are_size_itemsize_pointer_shape_strides():
    array = MachineArray(np.zeros((3, 4), np.float32), VirtualDevice())
    numbers = [int.from_bytes(raw, "little") for raw in array.parameters()]
    assert numbers == [0, 0, 12, 4, array.address, 3, 4, 16, 4]
