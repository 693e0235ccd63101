"""What is refused: by name, with the line of the learner's function, and what to do about it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpile
from jaxpile.errors import UnsupportedPrimitive, UnsupportedProgram, UnsupportedType
from jaxpile.values import pointwise

X = np.arange(6.0)
#: A registry that lacks a primitive: a test does not depend on what the package has not come to.
LACKING = jaxpile.Registry(
    {
        name: translator
        for name, translator in jaxpile.default_registry().items()
        if name != "nextafter"
    }
)


def test_a_primitive_without_a_translator():
    def next_number(x):
        return lax.nextafter(x, x + 1)

    with pytest.raises(UnsupportedPrimitive) as caught:
        jaxpile.jit(next_number, translators=LACKING)(X)
    text = str(caught.value)
    line = next_number.__code__.co_firstlineno + 1
    assert "'nextafter'" in text and f"test_refusals.py:{line}" in text
    assert "@jaxpile.translates('nextafter')" in text


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: jnp.linalg.cholesky(1j * x[:4].reshape(2, 2)).real, "cholesky"),
        (lambda x: jnp.linalg.qr(x.reshape(2, 3)), "qr"),
        (lambda x: jnp.fft.rfft(x).real, "fft"),
        (lambda x: lax.bessel_i0e(x), "bessel_i0e"),
        (lambda x: jax.random.gamma(jax.random.key(1), x), "random_gamma"),
        (lambda x: lax.reduce(x, 1.0, lambda a, b: a * jnp.full(3, b).sum(), (0,)), "reduce"),
        (lambda x: x.at[2:4].apply(jnp.sin), "scatter"),
        (lambda x: jax.pure_callback(np.sin, x, x), "pure_callback"),
    ],
)
def test_what_is_missing_is_refused_with_the_line(function, name):
    line = function.__code__.co_firstlineno
    with pytest.raises(UnsupportedPrimitive, match=f"'{name}', used in .*test_refusals.py:{line}"):
        jaxpile.jit(function)(X)


def test_a_function_of_jax_compiled_directly_has_no_line():
    with pytest.raises(UnsupportedPrimitive, match=r"the primitive 'qr'[.] Write one"):
        jaxpile.jit(jnp.linalg.qr)(X.reshape(2, 3))


def test_a_line_within_a_nested_function():
    def step(c, v):
        return lax.nextafter(c, v), None

    with pytest.raises(UnsupportedPrimitive, match=f":{step.__code__.co_firstlineno + 1}"):
        jaxpile.jit(lambda x: lax.scan(step, 0.0, x), translators=LACKING)(X)


def test_a_translator_of_ones_own():
    @jaxpile.translates("nextafter", kind="pointwise")
    def nextafter(driver, equation, x, y):
        return pointwise("libm", x.dtype, x, y, attr="nextafter")

    f = jaxpile.jit(lambda x: lax.nextafter(x, x + 1), translators=LACKING.extended(nextafter))
    np.testing.assert_array_equal(f(X), np.nextafter(X, X + 1))
    assert "nextafter" not in LACKING


def test_a_translator_replaced_for_one_function():
    @jaxpile.translates("sin", kind="pointwise")
    def line(driver, equation, x):
        return x

    odd = jaxpile.jit(jnp.sin, translators=jaxpile.default_registry().extended(line))
    np.testing.assert_array_equal(odd(X), X)
    np.testing.assert_allclose(jaxpile.jit(jnp.sin)(X), np.sin(X))


def test_a_translator_that_makes_another_shape():
    @jaxpile.translates("sin")
    def wrong(driver, equation, x):
        return pointwise("lt", np.dtype(bool), x, x)

    with pytest.raises(UnsupportedPrimitive, match="translator of 'sin' made"):
        jaxpile.jit(lambda x: jnp.sin(x), translators=jaxpile.default_registry().extended(wrong))(X)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_types_without_machine_code(dtype):
    with pytest.raises(UnsupportedType, match=f"{dtype}.*used|arrays of {dtype}"):
        jaxpile.jit(lambda x: x.astype(dtype) * 2)(X)
    with pytest.raises(UnsupportedType, match=dtype):
        jaxpile.jit(lambda x: x * 2)(jnp.ones(3, dtype))


@pytest.mark.parametrize(
    "function", [lambda z: jnp.sort(z), lambda z: z.max(), lambda z: jnp.tanh(z)]
)
def test_operations_that_complex_numbers_lack(function):
    line = function.__code__.co_firstlineno
    with pytest.raises(UnsupportedType, match=f"test_refusals.py:{line}.* of complex numbers"):
        jaxpile.jit(function)(X * 1j)


def test_no_outputs():
    with pytest.raises(UnsupportedProgram, match="returns no array"):
        jaxpile.jit(lambda x: None)(X)


def test_side_effects():
    def talks(x):
        jax.debug.print("{}", x)
        return x

    with pytest.raises(UnsupportedProgram, match=r"side effects"):
        jaxpile.jit(talks)(X)
