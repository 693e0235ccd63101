"""Linear algebra, complex numbers, odd sizes and views; programs that were once wrong."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpile
from alike import Programs, assert_as_jax

PROGRAMS = programs = Programs()
RANDOM = np.random.default_rng(3)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


Z = normal(6) + 1j * normal(6)
W = normal(6) - 2j * normal(6)


@programs(normal(33))
def scan_of_maxima(x):
    return [
        lax.associative_scan(jnp.maximum, x[:n], reverse=back)
        for n in (2, 3, 5, 33)
        for back in (False, True)
    ]


@programs(jax.random.key(3))
def ising(key):
    spins = jnp.where(jax.random.bernoulli(key, 0.5, (16, 16)), 1, -1)
    even = (jnp.arange(16)[:, None] + jnp.arange(16)) % 2 == 0

    def sweep(spins, key):
        for some in (even, ~even):
            around = sum(jnp.roll(spins, by, axis) for by in (1, -1) for axis in (0, 1))
            key, now = jax.random.split(key)
            chance = jax.random.uniform(now, spins.shape)
            spins = jnp.where((chance < jnp.exp(-0.8 * spins * around)) & some, -spins, spins)
        return spins, spins.sum()

    return lax.scan(sweep, spins, jax.random.split(key, 5))


@programs(normal(8, 3))
def jacobians(x):
    def f(row):
        return jnp.tanh(row @ (jnp.arange(6.0).reshape(3, 2) / 7))

    return (
        jax.vmap(jax.jacfwd(f))(x),
        jax.vmap(jax.jacrev(f))(x),
        jax.hessian(lambda row: f(row)[0])(x[0]),
    )


@programs(normal(4, 5, 6))
def column_order(x):
    return x.ravel(order="F"), x.reshape((6, -1), order="F"), lax.reshape(x, (30, 4), (2, 1, 0))


@programs(np.zeros((0, 3), np.float32))
def stacks_of_nothing(x):
    return jnp.stack([x, x]), jnp.concatenate([x, x], 1), jnp.concatenate([x, jnp.ones((2, 3))])


@programs(normal(5, 5), normal(5), normal(3, 4, 4))
def systems(a, b, many):
    positive = many @ many.mT + jnp.eye(4, dtype=many.dtype)
    return (
        jnp.linalg.solve(a, b),
        jnp.linalg.inv(a),
        jnp.linalg.slogdet(a),
        lax.linalg.lu(a[:3]),
        jnp.linalg.solve(many, jnp.ones((3, 4, 2))),
        jnp.linalg.cholesky(positive),
        jnp.linalg.cholesky(-positive),
        jax.grad(lambda a: jnp.linalg.slogdet(a)[1])(a),
    )


@programs(normal(4, 4) + 4 * np.eye(4, dtype=np.float32), normal(4, 3))
def triangles(a, b):
    return [
        lax.linalg.triangular_solve(
            a,
            b if left else b.T,
            left_side=left,
            lower=lower,
            transpose_a=flipped,
            unit_diagonal=unit,
        )
        for left in (True, False)
        for lower in (True, False)
        for flipped in (True, False)
        for unit in (True, False)
    ]


@programs(Z, W)
def complex_arithmetic(z, w):
    return (
        z + w,
        z - w,
        z * w,
        z / w,
        -z,
        z**3,
        z**-2,
        1 / z,
        jnp.abs(z),
        jnp.conj(z),
        z.real,
        z.imag,
        z == w,
        z != w,
        jnp.angle(z),
        z.astype(jnp.complex64),
        z * 2,
        z.astype(bool),
    )


@programs(Z, np.array([0j, 1, -1, 1j, -1j], np.complex64))
def complex_functions(z, edges):
    return [f(x) for f in (jnp.exp, jnp.sqrt, jnp.sin, jnp.cos, jnp.abs) for x in (z, edges)] + [
        jnp.log(z),
        edges / 0,
    ]


@programs(Z, W)
def complex_arrays(z, w):
    return (
        z.sum(),
        z.prod(),
        jnp.cumsum(z),
        z @ w,
        jnp.outer(z, w).T @ jnp.conj(z),
        z[::-1],
        jnp.concatenate([z, w]),
        z.at[jnp.array([1, 1])].add(w[:2]),
        z[jnp.array([7, 1])],
        jnp.where(z.real > 0, z, w),
        jnp.linalg.solve(jnp.outer(z, w) + jnp.eye(6, dtype=z.dtype), z),
    )


@programs(normal(7))
def wave(x):
    def step(psi, _):
        return psi * jnp.exp(-0.1j * x**2), jnp.sum(jnp.abs(psi) ** 2)

    return lax.scan(step, jnp.exp(1j * x - x**2), None, length=5), jax.grad(
        lambda x: jnp.sum(jnp.abs(jnp.exp(1j * x) * x + 1) ** 2)
    )(x)


@programs(normal(4, 6), np.arange(24, dtype=np.int32).reshape(4, 6))
def reductions_of_ones_own(x, places):
    def best(one, other):
        first = one[0] >= other[0]
        return jnp.where(first, one[0], other[0]), jnp.where(first, one[1], other[1])

    low = np.float32(-np.inf)

    def largest(axes, rows=4):
        return lax.reduce((x[:rows], places[:rows]), (low, np.int32(0)), best, axes)

    return (
        lax.reduce(x, low, jnp.logaddexp, (1,)),
        largest((0,)),
        largest((0, 1)),
        largest((0,), 0),
    )


@programs(normal(2, 8, 8, 3), np.zeros((1, 4, 4, 1), np.float32))
def gradients_of_pooling(x, ties):
    def pooled(x, how):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), how)

    return [
        jax.grad(lambda x, how=how: jnp.sin(pooled(x, how)).sum())(y)
        for how in ("SAME", "VALID")
        for y in (x, ties)
    ]


@programs(np.array([0, 1, -1, 2**31 - 1, -(2**31), 12345], np.int32))
def bits_of_other_sizes(x):
    small = lax.bitcast_convert_type(x, jnp.uint8)
    return (
        small,
        lax.bitcast_convert_type(small, jnp.int32),
        jnp.array([1.5]).view(jnp.uint16),
        lax.bitcast_convert_type(small, jnp.float32),
    )


@programs(np.array([1.1, -3.3, 1e20, 1e-7, np.inf, np.nan, -0.0], np.float32))
def fewer_bits(x):
    return [lax.reduce_precision(x, *kept) for kept in ((8, 7), (5, 10), (5, 2), (8, 23))]


# What compiles for long, and uses no primitive of JAX that the other programs do not use.
REHEARSED = [
    "complex_functions",
    "gradients_of_pooling",
    "ising",
    "jacobians",
    "reductions_of_ones_own",
    "scan_of_maxima",
    "systems",
    "triangles",
]


@pytest.mark.parametrize("name", PROGRAMS.each(REHEARSED))
def test_as_jax(name):
    assert_as_jax(*PROGRAMS[name])


@pytest.mark.parametrize("compiled", [jax.jit, jaxpile.jit])
def test_the_last_row_of_a_contraction_is_right(compiled):
    """In float32, 32768 squared is 2**30; jax.jit of 0.10.2 says 1065369600 (jax-ml/jax#39103)."""

    def squares(x):
        return jax.vmap(lambda row: jnp.sum((jnp.eye(3, dtype=x.dtype) @ row) ** 2))(x)

    first = np.arange(32769, dtype=np.float32)
    x = jnp.zeros((32769, 3), jnp.float32).at[:, 0].set(first)
    np.testing.assert_array_equal(compiled(squares)(x), first**2)


def test_donated_arguments_stay():
    x = jnp.arange(3.0)
    assert jaxpile.jit(lambda x: x + 1, donate_argnums=0)(x).tolist() == [1, 2, 3]
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "operation",
    [jnp.sin, pytest.param(lambda x: x.at[1:-1].add(x[2:] * 0.1), marks=pytest.mark.rehearsal)],
)
def test_long_programs_compile_each_thing_once(operation):
    """Three hundred sines, or updates, are a few functions: seconds of LLVM's time otherwise."""

    def program(x):
        for _ in range(300):
            x = operation(x)
        return x

    x = jnp.linspace(0.0, 1.0, 1000)
    lowered = jaxpile.jit(program).lower(x)
    assert len(lowered.as_text("llvm").split("\ndefine ")) < 20
    np.testing.assert_allclose(lowered.compile()(x), jax.jit(program)(x), rtol=1e-11)
