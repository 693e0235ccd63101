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
from gpucourse.grading.sandbox import jax_programs
from gpucourse.grading.sandbox.wire import ProtocolError
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.testing.jaxprs import KEYS, operations, run_by_jax, traced, without_jax
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

TEST_SQUARES = """values, rest = call("squares", 2, 4, where="jax", static=(1,))
expect_equal(values, [4, 9, 16, 25], "wrong squares")
expect(rest == {"last": 4}, "not the last")
expect(operations("squares", 2, 4, static=(1,))["mul"] == 1, "a loop of Python")
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
    return Assignment(
        "small",
        notebook_of(
            [
                setup("start", START),
                solution("squares", SQUARES),
                test_cell("test-squares", TEST_SQUARES, 3),
                solution("bump", BUMP),
                test_cell("test-bump", TEST_BUMP, 2),
            ]
        ),
    )


def verdict_on(server, **changed: str):
    assignment = small()
    verdict = grade(
        assignment,
        submitted(assignment, **changed),
        server,
        "5eed" * 8,
        Limits(request_seconds=60.0, request_wall_seconds=300.0),
    )
    assert verdict.kind == GRADED, verdict.reason
    return [(outcome.earned, outcome.reason) for outcome in verdict.tests]


@pytest.mark.parametrize(
    ("loop", "in_an_iteration", "in_all"),
    [
        ("jax.vmap(one)(keys)", 64 * 10, 64 * 10),
        ("jax.lax.map(one, keys)", 10, 64 * 10),
        ("jax.lax.map(one, keys, batch_size=16)", 160, 64 * 10),
        ("jax.vmap(one_by_one)(keys)", 64, 64 * 10),
        ("jax.vmap(until)(keys)", 64, 2 * 64),
        ("jax.lax.map(one_by_one, keys)", 1, 64 * 10),
        ("jax.lax.map(of_all, keys)", 640, 64 * 640),
        ("jax.lax.fori_loop(0, 64, lambda i, x: x + of_all(keys[i]), 0)", 640, 64 * 640),
        ("jax.lax.while_loop(lambda x: x < 9, lambda x: x + of_all(keys[0]), 0.0)", 640, 2 * 640),
    ],
)
def test_elements_of_one_iteration_and_of_all(loop, in_an_iteration, in_all):
    """Streams at once or one after the other, whatever loops there are in a stream."""
    import jax

    def one(key):
        return jax.random.uniform(key, (10,))

    def of_all(key):
        return jax.random.uniform(key, (64, 10))[0, 0]

    def turn(key):
        key, now = jax.random.split(key)
        return key, jax.random.uniform(now)

    def one_by_one(key):
        return jax.lax.scan(lambda key, _: turn(key), key, length=10)[1]

    def until(key):
        return jax.lax.while_loop(
            lambda state: state[1] < 0.9, lambda state: turn(state[0]), (key, 0.0)
        )[1]

    here = {"jax": jax, "one": one, "one_by_one": one_by_one, "until": until, "of_all": of_all}
    closed = traced(
        lambda keys: eval(loop, here | {"keys": keys}),
        [jax.random.split(jax.random.key(0), 64)],
        (),
    )[0]
    assert operations(closed, elements="iteration")["random_bits"] == in_an_iteration
    assert operations(closed, elements="all")["random_bits"] == in_all


@pytest.mark.parametrize("dealt", [True, False])
def test_keys_that_numbers_are_drawn_from_are_counted(dealt):
    """One draw that is dealt to the streams has one key, however many were split."""
    import jax

    def hits(seed):
        keys = jax.random.split(jax.random.key(seed), 64)
        if dealt:
            return jax.random.uniform(keys[0], (64, 10)).sum(axis=1)
        return jax.vmap(lambda key: jax.random.uniform(key, (10,)).sum())(keys)

    counted = operations(traced(hits, (1,), ())[0], elements="all")
    assert counted["random_split"] == 64 and counted["random_bits"] == 640
    assert counted[KEYS] == (1 if dealt else 64)


@pytest.mark.slow
def test_right_answers_earn_their_points(server):
    assert verdict_on(server) == [(3, ""), (2, "")]


IN_NUMPY = SQUARES_IN_PYTHON.replace(
    "jnp.stack([jnp.asarray(x * x) for x in numbers])", "np.array([x * x for x in numbers])"
)
# Whatever the student's process says of its counts and programs.
FORGED_COUNTS = """
from gpucourse.grading.sandbox import worker
worker.operations = lambda *args: {"mul": 1}
"""
FORGED_PROGRAM = """
from gpucourse.grading.sandbox import worker
worker.jax_programs.describe = lambda *args: {"in": [], "constants": [], "equations": "no"}
"""
NO_ARRAYS = """
from gpucourse.grading.sandbox import worker
worker.encode = lambda *args: {"t": "tuple", "v": [{"t": "float", "v": "0x1p+3"}] * 2}
"""
DEEP = """
from gpucourse.grading.sandbox import worker
inside = []
for _ in range(900):
    inside = [inside]
worker.jax_programs.describe = lambda *args: inside
"""
# The worker cannot tell what is counted from what is run.
BY_TURNS = """
from gpucourse.grading.sandbox import worker
whole, turns = worker.traced, []
def traced(function, args, static):
    turns.append(args)
    short = lambda start, count: jax.vmap(lambda x: x * x)(start + jnp.arange(count))
    return whole(function if len(turns) == 1 else short, args, static)
import jax
worker.traced = traced
"""
ANOTHER_PROGRAM = """
import jax
from gpucourse.grading.sandbox import worker
whole = worker.traced
worker.traced = lambda function, args, static: whole(
    lambda start, count: (jax.numpy.arange(count) ** 2, {"last": count}), args, static)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "forged", "reason"),
    [
        (IN_NUMPY, FORGED_COUNTS, "TracerArrayConversionError"),
        (SQUARES_IN_PYTHON, FORGED_COUNTS, "a loop of Python"),
        (SQUARES, FORGED_PROGRAM, "cannot be run by itself"),
        (SQUARES, NO_ARRAYS, "cannot be traced by JAX"),
        (SQUARES, DEEP, "cannot be run by itself"),
        (SQUARES_IN_PYTHON, BY_TURNS, "a loop of Python"),
        (SQUARES_IN_PYTHON, ANOTHER_PROGRAM, "wrong squares"),
    ],
    ids=["numpy", "a-loop", "no-program", "no-arrays", "deep", "by-turns", "another-program"],
)
def test_threat_79_counts_and_values_come_from_what_the_oracle_ran(server, answer, forged, reason):
    (earned, said), rest = verdict_on(server, squares=answer + forged)
    assert earned == 0 and reason in said
    assert rest == (2, "")


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

    assert operations(traced(unrolled, (1.0, 9), (1,))[0]) == Counter(mul=9)
    assert operations(traced(rolled, (1.0, 9), (1,))[0])["mul"] == 1
    # Both branches of a cond, and what stands inside a jit.
    inner = jax.jit(lambda x: jax.lax.cond(x > 0, lambda x: x * 2.0, lambda x: x * 3.0, x))
    assert operations(traced(inner, (1.0,), ())[0])["mul"] == 2


def programs() -> dict:
    """Functions of one vector of 8 numbers, by what is special about them."""
    import jax
    import jax.numpy as jnp

    def keys(x):
        key = jax.random.fold_in(jax.random.key(3), x[0].astype(jnp.int32))
        drawn = jax.vmap(lambda k: jax.random.uniform(k, (5,)))(jax.random.split(key, 4))
        old = jax.random.PRNGKey(1)
        return drawn, jax.random.normal(old, (2,)), jax.random.randint(key, (3,), 0, 9)

    def rolled(x):
        total, turns = jax.lax.scan(lambda a, b: (a + b, a * 2), 0.0, x)
        many = jax.lax.while_loop(lambda v: v < 50, lambda v: v * 2, x[1] + 1)
        return total, turns, many, jax.lax.fori_loop(0, 3, lambda i, v: v + x[i], 0.0)

    def chosen(x):
        return jax.lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), jax.lax.switch(2, [jnp.exp] * 3, x)

    def indexed(x):
        order = jnp.argsort(x)
        return x[order], x.at[order[:3]].add(1.0), x[::2], jnp.take(x, 20), jnp.searchsorted(x, 2.0)

    def shaped(x):
        square = x.reshape(2, 4)
        return (
            square @ square.T,
            jnp.einsum("ij,kj->ik", square, square),
            jnp.cumsum(x),
            jnp.concatenate([x, x[:1]]),
            jnp.split(x, 2)[1],
            jnp.pad(x, 1),
            jnp.diff(x).max(),
        )

    def special(x):
        return (
            jax.scipy.special.gammaln(x + 1),
            jax.nn.relu(x),
            jax.scipy.stats.norm.cdf(x),
            jax.scipy.stats.poisson.logpmf(jnp.round(x), 2.0),
            jnp.where(x > 1, jnp.nan, x),
        )

    def reduced(x):
        def larger(a, b):
            return jnp.maximum(a[0], b[0]), a[1] + b[1]

        return (
            jax.lax.reduce(x, 1.0, jax.lax.mul, (0,)),
            jax.vmap(lambda v: jax.lax.reduce((v, v), (-9.0, 0.0), larger, (0,)))(x.reshape(2, 4)),
        )

    return {
        "reduced": reduced,
        "numbers": lambda x: (x + 1, np.float32(2) * x, x > 0, jnp.array([1, 2]), jnp.inf),
        "keys": keys,
        "rolled": rolled,
        "chosen": chosen,
        "indexed": indexed,
        "shaped": shaped,
        "special": special,
        "compiled": jax.jit(lambda x: jax.jit(jnp.sum)(x * TABLE)),
        "derived": jax.vmap(jax.grad(lambda v: jnp.sqrt(jnp.abs(v)) * jnp.tanh(v))),
        "remembered": jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(x) ** 2))),
        "printed": lambda x: [jax.debug.print("{}", x.sum()), x - 1][1],
    }


TABLE = np.linspace(0, 1, 8)
KINDS = (
    "numbers",
    "keys",
    "rolled",
    "chosen",
    "indexed",
    "shaped",
    "special",
    "compiled",
    "derived",
    "remembered",
    "printed",
    "reduced",
)


def handed_over(function, *args):
    """The jaxpr, and what is rebuilt of it after a way through JSON."""
    closed, _ = traced(function, args, ())
    arrays: list[np.ndarray] = []
    text = json.dumps(jax_programs.describe(closed, arrays))
    return closed, jax_programs.rebuild(json.loads(text), arrays)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_is_handed_over_computes_the_same(kind):
    import jax
    from jax.extend.core import jaxpr_as_fun

    x = np.linspace(-1, 4, 8, dtype=np.float32)
    closed, rebuilt = handed_over(programs()[kind], x)
    for mine, theirs in zip(
        jax.jit(jaxpr_as_fun(closed))(x), jax.jit(jaxpr_as_fun(rebuilt))(x), strict=True
    ):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
    # Calls become plain ones, and conversions to the same type are left out by JAX itself.
    aside = (
        "custom_jvp_call",
        "custom_vjp_call",
        "checkpoint",
        "remat2",
        "jit",
        "debug_callback",
        "debug_print",
        "convert_element_type",
    )
    before, after = operations(closed), operations(rebuilt)
    for name in aside:
        del before[name], after[name]
    assert before == after


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=[pytest.mark.rehearsal] * (one == "keys")) for one in KINDS]
)
def test_with_other_numbers_a_program_is_the_same_but_for_those_that_it_draws(kind):
    import jax

    x = np.linspace(-1, 4, 8, dtype=np.float32)
    ordinary, squeezed = (
        jax.tree.leaves(run_by_jax(programs()[kind], (x,), (), low)) for low in (None, 0.25)
    )
    # A vector of numbers, normal ones and whole ones.
    ends = {"keys": [(0.25, 0.75), (-0.68, 0.68), (0, 8)]}.get(kind, [])
    for number, (mine, theirs) in enumerate(zip(ordinary, squeezed, strict=True)):
        if ends:
            low, high = ends[number]
            assert ((low <= theirs) & (theirs <= high)).all()
        else:
            np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


# In a loop whose body is a program of its own: what the others have, and more.
DRAWN_IN_A_LOOP = lambda jax, key: jax.lax.map(  # noqa: E731
    jax.jit(lambda k: jax.random.uniform(k)), jax.random.split(key, 64)
)


@pytest.mark.parametrize(
    "draw",
    [
        DRAWN_IN_A_LOOP,
        lambda jax, key: jax.random.bits(key, (64,), "uint16") / 2.0**16,
        *(
            pytest.param(one, marks=pytest.mark.rehearsal)
            for one in (
                lambda jax, key: jax.random.uniform(key, (64,)),
                lambda jax, key: jax.vmap(lambda k: jax.random.uniform(k))(
                    jax.random.split(key, 64)
                ),
                lambda jax, key: jax.lax.scan(
                    lambda k, _: (jax.random.fold_in(k, 1), jax.random.uniform(k)), key, length=64
                )[1],
            )
        ),
    ],
)
def test_numbers_are_squeezed_wherever_they_are_drawn(draw):
    import jax

    def program(seed):
        return draw(jax, jax.random.key(seed))

    for low in (0.0, 0.06, 0.5):
        numbers = np.asarray(run_by_jax(program, (3,), (), low))
        assert low <= numbers.min() < low + 0.05 and low + 0.45 < numbers.max() < low + 0.5 + 1e-6


def test_the_reason_names_the_operation_that_cannot_be_handed_over():
    refusal = "the operation 'reduce_window', which takes a function"
    assert jax_programs.operation_in(refusal) == "reduce_window"
    for told in ("the operation 'secret42', which takes", "secret 'reduce'", ""):
        assert jax_programs.operation_in(told) == ""


def test_a_program_that_calls_python_is_refused():
    import jax

    def outside(x):
        return jax.pure_callback(np.sin, x, x)

    with pytest.raises(jax_programs.NotAProgram, match="'pure_callback'"):
        handed_over(outside, np.ones(3, np.float32))


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p.update(equations=[["pure_callback", [0], {}]]),
        lambda p: p.update(equations=[["sin", [7], {"accuracy": None}]]),
        lambda p: p.update(equations=[["sin", [-1], {"accuracy": None}]]),
        lambda p: p.update(equations=[["sin", [0], {"accuracy": {"named": ["linalg", []]}}]]),
        lambda p: p.update(out=[0, "x"]),
        lambda p: p.update({"in": [["object", [3]]]}),
        lambda p: p.update(equations=p["equations"] * 30_000),
        lambda p: p.pop("constants"),
    ],
)
def test_what_is_no_program_is_an_error(change):
    import jax

    closed, _ = traced(jax.numpy.sin, (np.ones(3, np.float32),), ())
    described = jax_programs.describe(closed, [])
    change(described)
    with pytest.raises((ProtocolError, KeyError, TypeError, ValueError, IndexError)):
        jax_programs.rebuild(described, [])


def test_a_table_is_no_program():
    closed, _ = traced(lambda x: x + np.ones(1 << 17, np.float32), (1.0,), ())
    arrays: list[np.ndarray] = []
    described = jax_programs.describe(closed, arrays)
    with pytest.raises(ProtocolError, match="constants"):
        jax_programs.rebuild(described, arrays)


def test_jax_arrays_become_numpy_arrays_wherever_they_stand():
    import jax.numpy as jnp

    value = without_jax({"a": [jnp.ones(2), (jnp.int32(3), "text")], "b": 1.5})
    assert type(value["a"][0]) is np.ndarray and type(value["a"][1]) is tuple
    assert value["a"][1][0] == 3 and value["a"][1][1] == "text" and value["b"] == 1.5


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype(np.float32),
        xoroshiro128p_dtype,
        np.dtype([("a", np.int8), ("b", [("c", np.float64)])], align=True),
    ],
)
def test_a_dtype_survives_the_way_to_the_worker(dtype):
    assert read_dtype(json.loads(json.dumps(describe_dtype(dtype)))) == dtype
