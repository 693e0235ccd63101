"""JAX functions judged by their values and their jaxpr, and kernels that take records."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from numba.cuda.random import xoroshiro128p_dtype

from gpucourse.grading.arguments import describe_dtype, read_dtype
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox.levels import Sandbox
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.testing.jaxprs import operations, without_jax
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell

START = """%load_ext gpucourse
import numpy as np
from numba import cuda
from gpucourse import call, expect, expect_equal, launch, operations
"""

SQUARES = """import jax
import jax.numpy as jnp

def squares(start, count):
    ### BEGIN SOLUTION
    return jax.vmap(lambda x: x * x)(start + jnp.arange(count)), {"last": count}
    ### END SOLUTION
"""

TEST_SQUARES = """values, rest = call("squares", 2, 4, where="host")
expect_equal(values, [4, 9, 16, 25], "wrong squares")
expect(operations("squares", 2, 30, static=(1,))["mul"] == 1, "a loop of Python")
"""

BUMP = """@cuda.jit
def bump(states):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < states.size:
        states[i]["s1"] += states[i]["s0"]
    ### END SOLUTION
"""

TEST_BUMP = """states = np.zeros(40, [("s0", np.uint64), ("s1", np.uint64)])
states["s0"], states["s1"] = np.arange(40), 7
launch("bump", 2, 32, states)
expect_equal(states["s1"], 7 + np.arange(40), "wrong sums")
expect_equal(states["s0"], np.arange(40), "changed")
"""

SQUARES_IN_PYTHON = """import jax.numpy as jnp

def squares(start, count):
    numbers = [start + i for i in range(count)]
    return jnp.stack([jnp.asarray(x * x) for x in numbers]), {"last": count}
"""


def small() -> Assignment:
    return Assignment("small", notebook_of([
        setup("start", START),
        solution("squares", SQUARES),
        test_cell("test-squares", TEST_SQUARES, 3),
        solution("bump", BUMP),
        test_cell("test-bump", TEST_BUMP, 2),
    ]))


@pytest.fixture(scope="module")
def server():
    with Sandbox(limits=Limits(request_seconds=60.0)) as sandbox:
        yield sandbox.server


def verdict_on(server, **changed: str):
    assignment = small()
    verdict = grade(assignment, submitted(assignment, **changed), server, "5eed" * 8,
                    Limits(request_seconds=60.0))
    assert verdict.kind == GRADED, verdict.reason
    return [(outcome.earned, outcome.reason) for outcome in verdict.tests]


@pytest.mark.slow
def test_right_answers_earn_their_points(server):
    assert verdict_on(server) == [(3, ""), (2, "")]


@pytest.mark.slow
def test_values_and_jaxprs_are_both_looked_at(server):
    wrong = SQUARES.replace("x * x", "x * x + 1")
    assert verdict_on(server, squares=wrong)[0] == (0, "wrong squares")
    assert verdict_on(server, squares=SQUARES_IN_PYTHON)[0] == (0, "a loop of Python")


def test_loops_of_python_are_unrolled_and_loops_of_jax_are_not():
    import jax

    def unrolled(x, times):
        for _ in range(times):
            x = x * 2.0
        return x

    def rolled(x, times):
        return jax.lax.fori_loop(0, times, lambda _, x: x * 2.0, x)

    assert operations(unrolled, (1.0, 9), (1,)) == Counter(mul=9)
    assert operations(rolled, (1.0, 9), (1,))["mul"] == 1
    # Both branches of a cond, and what stands inside a jit.
    inner = jax.jit(lambda x: jax.lax.cond(x > 0, lambda x: x * 2.0, lambda x: x * 3.0, x))
    assert operations(inner, (1.0,), ())["mul"] == 2


def test_jax_arrays_become_numpy_arrays_wherever_they_stand():
    import jax.numpy as jnp

    value = without_jax({"a": [jnp.ones(2), (jnp.int32(3), "text")], "b": 1.5})
    assert type(value["a"][0]) is np.ndarray and type(value["a"][1]) is tuple
    assert value["a"][1][0] == 3 and value["a"][1][1] == "text" and value["b"] == 1.5


@pytest.mark.parametrize("dtype", [
    np.dtype(np.float32), xoroshiro128p_dtype,
    np.dtype([("a", np.int8), ("b", [("c", np.float64)])], align=True),
])
def test_a_dtype_survives_the_way_to_the_worker(dtype):
    assert read_dtype(json.loads(json.dumps(describe_dtype(dtype)))) == dtype
