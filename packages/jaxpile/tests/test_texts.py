"""The texts are programs: Python source runs, CUDA C++ compiles and runs where there is a cupy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpile
from jaxpile.cuda.codegen import Kernel, generate
from jaxpile.cuda.columns import by_columns
from jaxpile.errors import NoGPU
from jaxpile.expressions import dim, linear, load, var
from jaxpile.primitives import default_registry
from jaxpile.program import Buffer, Nest, Repeat, Store
from jaxpile.stages import program_of

X = np.random.default_rng(2).normal(size=(6, 7))
I = np.array([0, 3, 3, 5])  # noqa: E741

FUNCTIONS = {
    "softmax": lambda x: jax.nn.softmax(x),
    "concatenated": lambda x: jnp.concatenate([x, x * 2], 1)[::-1].T,
    "reductions": lambda x: (x.sum(0), x.max(), jnp.argmin(x, 1), (x > 0).any()),
    "nan kept": lambda x: jnp.maximum(jnp.sqrt(x), 0.5),
    "scatter": lambda x: x.at[I].add(1.0),
    "scan": lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), x[0], x),
    "scan by columns": lambda x: lax.scan(
        lambda c, r: ((c[1] + r, c[0]), c[0] * r), (x[0], x[1]), x, reverse=True
    ),
    "scan that mixes columns": lambda x: lax.scan(lambda c, r: (c[::-1] + r, c), x[0], x),
    "while": lambda x: lax.while_loop(
        lambda s: s[0] < 40.0, lambda s: (s[0] * 2, s[1] + 1), (jnp.abs(x[0, 0]) + 1, 0)
    ),
    "cond": lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "sort": lambda x: jnp.sort(x, 0),
    "product": lambda x: x @ x.T,
    "cumsum": lambda x: jnp.cumsum(x, 0),
    "integers": lambda x: (x * 9).astype(int) * 7 + (jnp.arange(7) << 2),
}


def check(found, function):
    expected = jax.tree.leaves(jax.jit(function)(X))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.reshape(ours, theirs.shape), theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_python_source_runs(name):
    space: dict = {}
    exec(jaxpile.jit(FUNCTIONS[name]).lower(X).as_text("python"), space)
    found = space["program"](X.reshape(-1))
    check(found if isinstance(found, tuple) else (found,), FUNCTIONS[name])


@pytest.fixture
def cupy():
    """CuPy with a GPU, or the virtual one's stand-in."""
    virtual = pytest.importorskip("virtualgpu", reason="no stand-in for cupy here")
    active = virtual.is_active()
    virtual.activate()
    yield
    if not active:
        virtual.deactivate()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_run(name, cupy):
    check(jax.tree.leaves(jaxpile.jit(FUNCTIONS[name], backend="cuda")(X)), FUNCTIONS[name])


@pytest.mark.parametrize(
    ("name", "alone"), [("scan by columns", True), ("scan that mixes columns", False)]
)
def test_a_scan_over_rows_is_one_kernel_where_columns_do_not_meet(name, alone):
    lowered = jaxpile.jit(FUNCTIONS[name]).lower(X)
    plan = generate(program_of(lowered.jaxpr, default_registry(), name, "gpu"))
    assert all(isinstance(step, Kernel) for step in plan.steps) == alone


@pytest.mark.parametrize(
    ("place", "alone"),
    [
        ((7, 1, 0), True),
        ((7, 1, 7), True),
        ((7, 1, 1), False),
        ((1, 1, 0), False),
        ((7, -1, 6), False),
    ],
)
def test_columns_that_meet_are_left_apart(place, alone):
    """A buffer is written at 7 t + i, and read where ``place`` says: factors of t and i, offset."""
    t, column = var("t", 0, 5), dim(0, 0, 7)
    memory = Buffer("b", (99,), np.dtype(float), "temp")
    read = load(memory, linear([(t, place[0]), (column, place[1])], place[2]))
    nest = Nest(((0, 7),), [Store(memory, linear([(t, 7), (column, 1)]), read)])
    assert (by_columns(Repeat(t, 5, [nest])) is not None) == alone


def test_kernels_keep_nan():
    text = jaxpile.jit(lambda x, y: jnp.maximum(x, y)).lower(X, X).as_text("cuda")
    assert "jx_max<double>" in text and "fmax" not in text


def test_without_cupy(monkeypatch):
    import importlib

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    from jaxpile.cuda.launch import cupy as find

    with pytest.raises(NoGPU, match="module cupy is not installed"):
        find()


def test_loops_are_vectorised():
    from jaxpile.llvm.engine import optimised

    # float32: LLVM finds vectors of two float64 on processors without AVX not worth it.
    text = jaxpile.jit(lambda x: jnp.exp(x) * 2).lower(np.ones(1000, np.float32)).as_text("llvm")
    assert " x float>" in str(optimised(text))


def test_sums_of_random_numbers_are_hidden_from_loop_strength_reduction():
    """Shown to it, these fifty draws took 4.5 s to write as machine code."""
    from jaxpile.llvm.engine import optimised

    def walk(x, key):
        return x + jax.random.normal(key), None

    def program(x):
        return jax.lax.scan(walk, x, jax.random.split(jax.random.key(1), 50))[0]

    lines = str(optimised(jaxpile.jit(program).lower(0.5).as_text("llvm"))).split("\n")
    sums = [k for k, line in enumerate(lines) if " = add i32 " in line]
    assert len(sums) > 40 and all(" = freeze i32 %sum." in lines[k + 1] for k in sums)
