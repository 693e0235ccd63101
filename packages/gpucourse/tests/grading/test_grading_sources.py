"""CUDA C++ that a host function wrote: compiled behind the wall, launched by the oracle."""

from __future__ import annotations

import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell

START = """%load_ext gpucourse
import numpy as np
from gpucourse import call, expect, expect_equal, launch_source, secret_rng, unwritten
"""

WRITE = '''def write(factor):
    ### BEGIN SOLUTION
    return f"""extern "C" __global__ void scale(const double *x, double *out) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 40) out[i] = {factor} * x[i];
}}"""
    ### END SOLUTION
'''

TEST = """x, out = secret_rng().normal(size=40), unwritten(40, np.float64)
x.setflags(write=False)
source = call("write", 3, where="host")
launched = launch_source(source, "scale", 2, 32, x, out)
expect_equal(out, 3 * x, "wrong values")
expect(launched.counters.global_load_requests == 2, "loads are not counted")
"""

SMALL = Assignment(
    "small",
    notebook_of(
        [setup("start", START), solution("write", WRITE), test_cell("test-write", TEST, 2)]
    ),
)


@pytest.fixture
def reason_of(server, monkeypatch):
    """Why the test fails for what `write` returns, an expression of Python; empty if it passes."""

    def here(*args, **options):
        raise AssertionError("the oracle compiles a student's text itself")

    monkeypatch.setattr("virtualgpu.compilers.nvrtc.compile_cuda", here)

    def of(returned: str = "", **limits: float) -> str:
        changed = {"write": f"def write(factor):\n    return {returned}\n"} if returned else {}
        verdict = grade(SMALL, submitted(SMALL, **changed), server, "5eed" * 8, Limits(**limits))
        assert verdict.kind == GRADED, verdict.reason
        return verdict.tests[0].reason

    return of


def kernel(parameters: str, body: str, before: str = "") -> str:
    return repr(f'{before}\nextern "C" __global__ void scale({parameters}) {{ {body} }}')


POINTERS = "const double *x, double *out"
INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def test_the_text_is_compiled_elsewhere_and_launched_here(reason_of):
    assert reason_of() == ""


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("7", "is not a string"),
        (kernel(POINTERS, INDEX + "out[i] = 3 * x[i];"), "outside its arrays"),
        (
            kernel(POINTERS, INDEX + "if (i < 40) { out[i] = 3 * x[i]; ((double *)x)[i] = 0; }"),
            "changes its input",
        ),
        (kernel("double *out", INDEX + "if (i < 40) out[i] = 1;"), "must take 2 pointers"),
        ("'__global__ void scale(const double *x, double *out) {}'", "no kernel 'scale'"),
    ],
)
def test_what_is_wrong_with_a_text_is_told(reason_of, returned, told):
    assert told in reason_of(returned)


def test_a_text_that_is_too_long_is_told(reason_of):
    assert "larger than any" in reason_of("'x' * 3000", ptx_bytes=2000)


def test_of_a_text_that_no_reason_can_be_searched_for_nothing_is_told(reason_of):
    assert "details are not shown" in reason_of("'x' * (5 << 20)")


def test_a_message_of_the_compiler_says_nothing_that_the_code_has_seen(reason_of):
    """The text may quote what the worker was told: then the compiler's words are not passed on."""
    told = reason_of("f'#error secret {factor}'")
    assert told == "the source of the kernel 'scale' does not compile"


def test_a_text_that_keeps_the_compiler_busy_costs_itself_only(reason_of):
    bomb = "#define A0 x+x\\n" + "".join(f"#define A{n} A{n - 1}+A{n - 1}\\n" for n in range(1, 40))
    told = reason_of(f"'{bomb}__device__ int x = A39;'", request_seconds=2.0)
    assert "compiling the kernel 'scale'" in told
    assert reason_of() == ""
