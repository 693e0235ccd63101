"""Kernels and host functions judged from outside: rows E of the list of threats.

The student's kernels are compiled in the sandbox by the real numba-cuda and run on the oracle's
virtual GPU.
"""

from __future__ import annotations

import numpy as np
import pytest
from grading_toy import notebook_of, setup, solution, submitted, test_cell

from gpucourse.grading.arguments import array_parameters, describe_type, parameter_sizes
from gpucourse.grading.assignment import Assignment
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import grade
from gpucourse.grading.sandbox import Sandbox
from gpucourse.grading.verdict import GRADED, INFRASTRUCTURE_FAULT

SEED = "5eed" * 8

START = """%load_ext gpucourse
import numpy as np
from numba import cuda, int32
from gpucourse import call, expect, expect_equal, launch, launches, secret_rng, unwritten
"""

SCALE = """@cuda.jit
def scale(values, factor, out):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < values.size:
        out[i] = factor * values[i]
    ### END SOLUTION
"""

TEST_SCALE = """for n in (100, 33, 0):
    values = secret_rng(str(n)).uniform(size=n)
    values.setflags(write=False)
    out = unwritten(n, np.float64)
    launch("scale", 4, 32, values, 2.0, out)
    expect_equal(out, 2.0 * values, "wrong for an empty input" if n == 0 else "wrong values")
"""

COUNT = """@cuda.jit
def tally(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)

def histogram(values, bins):
    ### BEGIN SOLUTION
    counts = cuda.to_device(np.zeros(bins, np.int32))
    tally[(len(values) + 63) // 64 + 1, 64](cuda.to_device(values), counts)
    return counts.copy_to_host()
    ### END SOLUTION
"""

TEST_COUNT = """for number in range(2):
    values = secret_rng(str(number)).integers(0, 5, 200)
    expect_equal(call("histogram", values, 7), np.bincount(values, minlength=7), "wrong counts")
expect(len(launches()) == 1, "not one launch")
"""


def kernels() -> Assignment:
    """One kernel (3 points), one host function with a kernel of its own (2 points)."""
    return Assignment("kernels", notebook_of([
        setup("start", START),
        solution("scale", SCALE),
        test_cell("test-scale", TEST_SCALE, 3),
        solution("count", COUNT),
        test_cell("test-count", TEST_COUNT, 2),
    ]))


@pytest.fixture(scope="session")
def server():
    with Sandbox(limits=Limits(request_seconds=30.0)) as sandbox:
        yield sandbox.server


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


def scale(body: str) -> str:
    return "@cuda.jit\ndef scale(values, factor, out):\n    i = cuda.grid(1)\n" + body


def test_threat_46_numpy_instead_of_a_kernel(reasons):
    source = "def scale(values, factor, out):\n    out[:] = factor * values\n"
    assert "is not a CUDA kernel" in reasons(scale=source)[0]
    host = "def histogram(values, bins):\n    return np.bincount(values, minlength=bins)\n"
    assert "computed on the host" in reasons(count=host)[1]
    # A device array that no launch has touched, and one that a launch only passed by.
    copied = """def histogram(values, bins):
    d = cuda.to_device(np.bincount(values, minlength=bins))
    return {}
"""
    assert "computed on the host" in reasons(count=copied.format("d.copy_to_host()"))[1]
    assert "computed on the host" in reasons(count=copied.format("d"))[1]
    idle = "@cuda.jit\ndef idle(d):\n    pass\n\n" + copied.format("(idle[1, 1](d), d)[1]")
    assert "computed on the host" in reasons(count=idle)[1]


def test_a_result_may_stay_on_the_device(reasons):
    source = COUNT.replace("return counts.copy_to_host()", "return counts")
    assert reasons(count=source) == ["", ""]


def test_a_slice_of_what_a_kernel_wrote_is_its_result(reasons):
    source = COUNT.replace("np.zeros(bins", "np.zeros(bins + 3").replace(
        "copy_to_host()", "copy_to_host()[:bins]")
    assert reasons(count=source) == ["", ""]


def test_threat_47_a_launch_for_each_element(reasons):
    source = COUNT.replace(
        "    tally[",
        "    for v in values:\n        tally[1, 1](cuda.to_device(values[:1]), counts)\n"
        "    return counts.copy_to_host()\n    tally[")
    assert "wrong counts" in reasons(count=source)[1]


def test_threat_48_results_cannot_be_remembered(reasons):
    source = COUNT.replace("    counts =", "    if 'old' in globals(): return globals()['old']\n"
                           "    counts =").replace(
        "return counts.copy_to_host()", "globals()['old'] = counts.copy_to_host()\n    return old")
    assert "wrong counts" in reasons(count=source)[1] or "host" in reasons(count=source)[1]


def test_threat_49_50_hard_coded_sizes(reasons):
    assert "outside its arrays" in reasons(scale=scale("    if i < 100:\n"
                                                       "        out[i] = factor * values[i]\n"))[0]
    one_block = scale("    i = cuda.threadIdx.x\n    if i < values.size:\n"
                      "        out[i] = factor * values[i]\n")
    assert reasons(scale=one_block)[0] != ""


def test_threat_51_a_lucky_race(reasons):
    source = COUNT.replace("cuda.atomic.add(counts, values[i], 1)", "counts[values[i]] += 1")
    told = reasons(count=source)[1]
    assert "race" in told or "order in which threads run" in told or "wrong counts" in told


def test_threat_51_an_answer_that_depends_on_the_order_without_a_race(reasons):
    # In lockstep every thread draws its own number, and the answer is right by luck.
    tickets = scale("""    drawn = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        drawn[0] = 0
    cuda.syncthreads()
    ticket = cuda.blockIdx.x * cuda.blockDim.x + cuda.atomic.add(drawn, 0, 1)
    if i < values.size and ticket < values.size:
        out[ticket] = factor * values[i]
""")
    source = """@cuda.jit
def gather(values, place, out):
    i = cuda.grid(1)
    if i < values.size:
        out[cuda.atomic.add(place, 0, 1)] = values[i]

def histogram(values, bins):
    out = cuda.device_array(len(values), np.int64)
    gather[2, 128](cuda.to_device(values), cuda.to_device(np.zeros(1, np.int32)), out)
    return out.copy_to_host()[:bins]
"""
    told = reasons(scale=tickets, count=source)
    assert ["the order in which threads run" in reason for reason in told] == [True, True], told


def test_threat_52_out_of_bounds_names_the_line_of_the_cell(reasons):
    told = reasons(scale=scale("    out[i] = factor * values[i]\n"))[0]
    assert "outside its arrays" in told
    assert "cell 'scale' line 4" in told
    assert "out[i] = factor * values[i]" in told


def test_threat_53_unwritten_output(reasons):
    first_left_out = "    if 0 < i < values.size:\n        out[i] = factor * values[i]\n"
    assert reasons(scale=scale(first_left_out))[0] == "wrong values"


def test_threat_54_changed_input(reasons):
    told = reasons(scale=scale("    if i < values.size:\n        values[i] *= factor\n"
                               "        out[i] = values[i]\n"))
    assert "changes its input" in told[0]


def test_threat_57_patched_clocks_change_nothing(reasons):
    source = "import time\ntime.monotonic = time.time = lambda: 0.0\n" + SCALE
    assert reasons(scale=source) == ["", ""]


def test_threat_58_59_lower_precision_and_constants(reasons):
    single = scale("    if i < values.size:\n        out[i] = np.float32(factor * values[i])\n")
    assert reasons(scale=single)[0] == "wrong values"
    constant = scale("    if i < values.size:\n        out[i] = 1.0\n")
    assert reasons(scale=constant)[0] == "wrong values"


def test_threat_60_all_of_the_gpus_memory(reasons):
    source = COUNT.replace("    counts =", "    cuda.device_array(1 << 40, np.int8)\n    counts =")
    assert "free arrays" in reasons(count=source)[1]


def test_threat_62_the_device_cannot_be_swapped(reasons):
    source = ("import virtualgpu.device as d, virtualgpu\nvirtualgpu.deactivate()\n"
              "d.set_current(d.VirtualDevice())\nvirtualgpu.activate(force=True)\n" + COUNT)
    assert "computed on the host" in reasons(count=source)[1]


@pytest.mark.parametrize("ptx", [
    "", "not PTX", ".version 8.0\n.target sm_90\n.address_size 64\n" + "{" * 10_000,
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n",
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a) { L: bra L; }",
], ids=["empty", "text", "braces", "no parameters", "one parameter"])
def test_threat_64_ptx_made_by_hand(reasons, ptx):
    source = f"""
from virtualgpu.frontends import kernel_ptx
kernel_ptx.compile_kernel = lambda *a: kernel_ptx.CompiledKernel([{ptx!r}], "k", False)
""" + SCALE
    made_by_hand, honest = reasons(scale=source)
    assert "'scale'" in made_by_hand
    assert ("takes other arguments" in made_by_hand) == (".entry" in ptx)
    assert honest == ""


def test_a_kernel_with_other_arguments(reasons):
    source = "@cuda.jit\ndef scale(values, out):\n    pass\n"
    assert "cannot be compiled for the arguments" in reasons(scale=source)[0]


def test_a_compile_error_names_the_missing_helper(reasons):
    told = reasons(scale=scale("    out[i] = missing(values[i])\n"))[0]
    assert "'missing' is not defined" in told


def test_a_test_that_fails_by_itself_is_the_courses_fault(server):
    assignment = kernels()
    assignment.cells = [
        cell if cell.role != "test" else type(cell)(
            cell.role, cell.grade_id, cell.cell_type, "1 / 0", cell.points)
        for cell in assignment.cells
    ]
    verdict = grade(assignment, submitted(kernels()), server, SEED)
    assert verdict.kind == INFRASTRUCTURE_FAULT
    assert verdict.earned is None
    assert "test-scale" in verdict.reason


@pytest.mark.parametrize("value", [
    np.zeros((3, 4), np.float32), np.zeros(0, np.int64), np.float32(1), np.int8(3),
    2, 2.5, True, 1j,
])
def test_arguments_have_numbas_layout(value):
    """Sizes against what numba-cuda itself makes of the types."""
    from numba import cuda
    from numba.cuda import types

    from gpucourse.grading.worker import numba_type
    from virtualgpu.ptx import parse

    kind = numba_type(describe_type(value))
    assert isinstance(kind, types.Array) == isinstance(value, np.ndarray)
    text, _ = cuda.compile_ptx(lambda argument: None, (kind,), cc=(9, 0))
    (entry,) = [f for f in parse(text).functions.values() if f.is_entry]
    assert [p.size for p in entry.parameters] == parameter_sizes(describe_type(value))


def test_array_parameters_are_size_itemsize_pointer_shape_strides():
    numbers = [int.from_bytes(raw, "little")
               for raw in array_parameters(np.zeros((3, 4), np.float32), 512)]
    assert numbers == [0, 0, 12, 4, 512, 3, 4, 16, 4]
