"""Threat 84: right answers in styles that a grader easily takes for wrong ones."""

from __future__ import annotations

import pytest

from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell

START = """%load_ext gpucourse
import jax
import jax.numpy as jnp
import numpy as np
from numba import cuda, njit
from gpucourse import call, expect, expect_equal, launch, unwritten
"""
COUNT = """@cuda.jit
def tally(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)

def count(values, bins):
    ### BEGIN SOLUTION
    counts = cuda.to_device(np.zeros(bins, np.int32))
    tally[1, 256](values, counts)
    return counts.copy_to_host()
    ### END SOLUTION
"""
TEST_COUNT = """values = np.arange(200) % 7
expect_equal(call("count", values, 9, schedules=0), np.bincount(values, minlength=9), "wrong")
"""
SPREAD = """@cuda.jit
def spread(values, rows):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < rows.shape[0]:
        for j in range(rows.shape[1]):
            rows[i, j] = values[i]
    ### END SOLUTION
"""
TEST_SPREAD = """rows = unwritten((20, 3), np.float64)
launch("spread", 1, 32, np.arange(20.0), rows, schedules=1)
expect_equal(rows, np.arange(20.0)[:, None] * np.ones(3), "wrong rows")
"""
TOTAL = """def total(values):
    ### BEGIN SOLUTION
    return jnp.sum(values)
    ### END SOLUTION
"""
TEST_TOTAL = """expect(call("total", np.ones(5000, np.float32), where="host") == 5000, "wrong sum")
"""
CUPY = """import cupy as cp

ADD = cp.RawKernel(r'''extern "C" __global__
void add(const long long *values, int n, int *counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[values[i]], 1);
}''', "add")
EACH = cp.ElementwiseKernel("int64 value", "raw int32 counts",
                            "atomicAdd(&counts[value], 1)", "each")

def count(values, bins):
    counts = cp.zeros(bins, cp.int32)
    HOW
    return counts
"""
RAW = "ADD((2,), (128,), (cp.asarray(values), np.int32(values.size), counts))"
STYLES = {
    "cupy-raw-kernel": {"count": CUPY.replace("HOW", RAW)},
    "cupy-raw-kernel-copied": {
        "count": CUPY.replace("HOW", RAW).replace("return counts", "return cp.asnumpy(counts)")
    },
    "cupy-elementwise-kernel": {"count": CUPY.replace("HOW", "EACH(cp.asarray(values), counts)")},
    "converted-on-the-host": {
        "count": COUNT.replace("np.int32", "np.int64").replace(
            "copy_to_host()", "copy_to_host().astype(np.int32)"
        )
    },
    "joined-on-the-host": {
        "count": COUNT.replace(
            "return counts.copy_to_host()",
            "return np.concatenate([counts[:4].copy_to_host(), counts[4:].copy_to_host()])",
        )
    },
    "shown": {
        "count": COUNT.replace("    return", "    display(counts, raw=True)\n    return"),
        "total": TOTAL.replace("    return", "    display(values)\n    return"),
    },
    "cached": {
        "count": COUNT.replace("@cuda.jit", "@cuda.jit(cache=True)"),
        "spread": SPREAD.replace("@cuda.jit", "@cuda.jit(cache=True)"),
        "total": "@njit(cache=True)\n" + TOTAL.replace("jnp", "np"),
    },
    "for-a-debugger": {
        "spread": """@cuda.jit(debug=True, opt=False)
def spread(values, rows):
    i = cuda.grid(1)
    if i < rows.shape[0]:
        mine = rows[i]
        for j in range(mine.size):
            mine[j] = values[i]
""",
        "count": COUNT.replace("@cuda.jit", "@cuda.jit(debug=True, opt=False)")
        .replace("i < values.size", "i < values.size and long_enough(i) >= 0")
        .replace(
            "@cuda",
            """@cuda.jit(
    device=True, debug=True, opt=False)
def long_enough(i):
    x = 0
    for j in range(30000):
        x = (x + j) % 7
    return x

@cuda""",
            1,
        ),
    },
}


def small() -> Assignment:
    return Assignment(
        "small",
        notebook_of(
            [
                setup("start", START),
                solution("count", COUNT),
                test_cell("test-count", TEST_COUNT, 3),
                solution("spread", SPREAD),
                test_cell("test-spread", TEST_SPREAD, 2),
                solution("total", TOTAL),
                test_cell("test-total", TEST_TOTAL, 1),
            ]
        ),
    )


def told(server, **changed: str) -> list[str]:
    """The reasons of the tests that fail."""
    assignment = small()
    verdict = grade(assignment, submitted(assignment, **changed), server, "5eed" * 8)
    assert verdict.kind == GRADED, verdict.reason
    return [outcome.reason for outcome in verdict.tests if outcome.reason]


@pytest.mark.parametrize("style", STYLES)
def test_threat_84_honest_styles(server, style):
    """With a sum of 5,000 float32 in JAX, which asks for /proc/cpuinfo."""
    assert told(server, **STYLES[style]) == []


@pytest.mark.parametrize(
    "answer",
    [
        "return np.bincount(values, minlength=bins)",
        (
            "return np.concatenate([counts.copy_to_host()[:3], np.bincount(values, "
            "minlength=bins)[3:]])"
        ),
        "return np.bincount(values, minlength=bins).astype(np.int8)",
    ],
)
def test_what_numpy_counted_stays_refused(server, answer):
    (reason,) = told(
        server,
        count=COUNT.replace("return counts.copy_to_host()", answer)
        .replace("np.zeros(bins, np.int32)", "np.zeros(2 * bins, np.int32)")
        .replace("values[i], 1", "0, 1"),
    )
    assert "computed on the host" in reason


@pytest.mark.parametrize(
    "how",
    [
        "counts = cp.bincount(cp.asarray(values), minlength=bins)",
        RAW.replace("values.size", "9")
        + """
    counts += cp.bincount(cp.asarray(values[9:]), minlength=bins).astype(cp.int32)""",
    ],
)
def test_what_cupys_stand_in_computed_is_no_kernels(server, how):
    (reason,) = told(server, count=CUPY.replace("HOW", how))
    assert "computed on the host" in reason


def test_an_error_after_the_last_line_says_so(server):
    (reason,) = told(server, total="class Sum:\n    pass\ndef total(values):\n    return Sum()\n")
    assert reason == "'total' returns something that cannot be read as numbers: TypeError"


def test_a_compile_error_after_hidden_inputs_is_named(server):
    """Numba's own class, of a variable that has the name of the module; and where to read more."""
    answer = SPREAD.replace("i = cuda.grid(1)", "i = cuda.grid(1)\n    cuda = i")
    (reason,) = told(server, spread=answer)
    assert "NotDefinedError. Run the visible test in your notebook" in reason
