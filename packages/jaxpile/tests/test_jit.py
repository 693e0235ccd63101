"""The decorator: arguments, stages, the cache, what composes, and memory that is given back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpile
from jaxpile.errors import JaxpileError

X = np.arange(6.0)


def test_static_arguments_by_number_and_by_name():
    @jaxpile.jit(static_argnums=1, static_argnames="sign")
    def power(x, n, sign=1):
        assert isinstance(n, int)
        return sign * x**n

    np.testing.assert_array_equal(power(X, 2), X**2)
    np.testing.assert_array_equal(power(X, n=2), X**2)
    assert power.cache_info()[0] == 1
    np.testing.assert_array_equal(power(X, 3, sign=-1), -(X**3))
    assert power.cache_info()[0] == 2


def test_defaults_and_keywords():
    @jaxpile.jit
    def f(x, *, scale=2.0, shift=1.0):
        return x * scale + shift

    np.testing.assert_array_equal(f(X), X * 2 + 1)
    np.testing.assert_array_equal(f(X, shift=3.0), X * 2 + 3)


def test_static_values_of_other_types_are_other_programs():
    f = jaxpile.jit(lambda x, k: x * k, static_argnums=1)
    assert f(np.arange(3), 1).dtype == np.int64
    assert f(np.arange(3), 1.0).dtype == np.float64


def test_static_values_need_a_hash():
    with pytest.raises(JaxpileError, match="no hash"):
        jaxpile.jit(lambda x, k: x, static_argnums=1)(X, [1])


def test_methods():
    class Model:
        @jaxpile.jit(static_argnums=0)
        def double(self, x):
            return 2 * x

    np.testing.assert_array_equal(Model().double(X), 2 * X)


def test_weak_types_are_told_apart():
    f = jaxpile.jit(lambda x, y: x + y)
    single = np.ones(2, np.float32)
    assert f(single, 1.0).dtype == np.float32
    assert f(single, np.float64(1.0)).dtype == np.float64
    assert f.cache_info()[0] == 2


def test_a_program_for_each_shape_and_dtype():
    f = jaxpile.jit(lambda x: x + 1)
    for x in (X, X[:3], X.astype(np.float32), X[:3]):
        np.testing.assert_array_equal(f(x), x + 1)
    assert f.cache_info() == (3, 64)


def test_the_least_recently_used_program_goes():
    f = jaxpile.jit(lambda x: x + 1, cache_size=2)
    f(X[:1])
    f(X[:2])
    f(X[:1])
    f(X[:3])
    assert {key[1][0][0] for key in f.programs} == {(1,), (3,)}


def test_transformations_compose():
    f = jaxpile.jit(lambda x: jnp.sin(x).sum())
    np.testing.assert_allclose(jax.grad(f)(X), np.cos(X))
    np.testing.assert_allclose(jax.jit(f)(X), np.sin(X).sum())
    np.testing.assert_allclose(jax.vmap(f)(X.reshape(2, 3)), np.sin(X.reshape(2, 3)).sum(1))
    np.testing.assert_allclose(jax.jvp(f, (X,), (X,))[1], (X * np.cos(X)).sum())
    np.testing.assert_allclose(jaxpile.jit(jax.grad(f))(X), np.cos(X))
    np.testing.assert_allclose(jaxpile.jit(lambda x: f(x) + 1)(X), np.sin(X).sum() + 1)


def test_stages():
    lowered = jaxpile.jit(lambda x: {"y": jnp.sin(x)}).lower(X)
    assert "sin" in lowered.as_text("jaxpr")
    assert "define" in lowered.as_text("llvm")
    assert "__global__" in lowered.as_text("cuda")
    assert "for i0 in range(6)" in lowered.as_text("python")
    with pytest.raises(ValueError, match="'jaxpr', 'llvm', 'cuda', 'python'"):
        lowered.as_text("ptx")
    np.testing.assert_allclose(lowered.compile()(X)["y"], np.sin(X))


def test_lower_takes_shapes_alone():
    lowered = jaxpile.jit(lambda x: x * 2).lower(jax.ShapeDtypeStruct((6,), np.float64))
    np.testing.assert_array_equal(lowered.compile()(X), X * 2)


def test_compiled_programs_refuse_other_shapes():
    compiled = jaxpile.jit(lambda x: x * 2).lower(X).compile()
    with pytest.raises(JaxpileError, match=r"compiled for shape \(6,\).*\(3,\)"):
        compiled(X[:3])
    with pytest.raises(JaxpileError, match="arguments of the form"):
        compiled(X, X)


def test_arrays_of_any_layout():
    x = np.arange(12.0).reshape(3, 4)
    f = jaxpile.jit(lambda x: x * 2)
    np.testing.assert_array_equal(f(x.T), x.T * 2)
    np.testing.assert_array_equal(f(x[:, ::2]), x[:, ::2] * 2)
    np.testing.assert_array_equal(f(jnp.asarray(x)), x * 2)


def test_results_are_freed_when_dropped():
    f = jaxpile.jit(lambda x: (x + 1, x.sum()))
    f(X)
    gc.collect()
    gc.disable()
    try:
        first, second = f(X)
        seen = [weakref.ref(first), weakref.ref(second)]
        del first, second
        assert [ref() for ref in seen] == [None, None]
    finally:
        gc.enable()


def test_arguments_are_freed_when_dropped():
    f = jaxpile.jit(lambda x: x + 1)
    f(X)
    gc.collect()
    gc.disable()
    try:
        x = jnp.asarray(X) * 2
        f(x)
        seen = weakref.ref(x)
        del x
        assert seen() is None
    finally:
        gc.enable()


def test_threads_share_large_loops(monkeypatch):
    monkeypatch.setenv("JAXPILE_THREADS", "3")
    x = np.random.default_rng(1).normal(size=(500, 1001))
    f = jaxpile.jit(lambda x: (jnp.sin(x) * x, x.sum(), x.sum(1), (x @ x.T).max()))
    compiled = f.lower(x).compile()
    assert compiled.executable.large
    for ours, theirs in zip(compiled(x), jax.jit(f)(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


ANOTHER_PROCESSOR = """
import re, jax.numpy as jnp, jaxpile
from jaxpile.llvm import engine
x = jnp.arange(1000.0)
f = jaxpile.jit(lambda x: x * x + jnp.exp(-x / 100))
assert jnp.allclose(f(x), x * x + jnp.exp(-x / 100), rtol=1e-6)
text = f.lower(x).as_text("llvm")
assembly = engine.target_machine().emit_assembly(engine.optimised(text))
print(sorted(set(re.findall("%([xyz]mm)", assembly))))
"""


@pytest.mark.parametrize(
    ("name", "registers"),
    [
        ("x86-64-v2", "['xmm']"),
        pytest.param("x86-64-v3", "['xmm', 'ymm']", marks=pytest.mark.rehearsal),
    ],
)
def test_code_for_a_processor_that_has_less(name, registers):
    """As Numba's code, by Numba's variables: what has no AVX is given none."""
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER_PROCESSOR],
        capture_output=True,
        text=True,
        env=os.environ | {"NUMBA_CPU_NAME": name, "JAX_PLATFORMS": "cpu"},
    )
    assert (done.stdout.strip(), done.returncode) == (registers, 0), done.stderr


def test_not_a_function():
    with pytest.raises(TypeError, match="is not a function"):
        jaxpile.jit(3)
    with pytest.raises(ValueError, match="backend"):
        jaxpile.jit(np.sin, backend="tpu")
    with pytest.raises(ValueError, match="static_argnames has 'y'"):
        jaxpile.jit(lambda x: x, static_argnames="y")
    with pytest.raises(TypeError, match="static_argnames"):
        jaxpile.jit(lambda x, y: x)(X, "word")
