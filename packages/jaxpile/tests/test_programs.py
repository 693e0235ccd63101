"""Ordinary JAX programs against jax.jit: arithmetic, views, reductions, gathers, products."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from alike import Programs, assert_as_jax

RANDOM = np.random.default_rng(20)
M = RANDOM.normal(size=(12, 10))
V = RANDOM.normal(size=100)
P = RANDOM.uniform(0.1, 2, size=(7, 9))
I = RANDOM.integers(-20, 20, size=30)  # noqa: E741
F = RANDOM.normal(size=(6, 8)).astype(np.float32)
T = RANDOM.normal(size=(4, 5, 6))
program = Programs()


@program(M)
def polynomial(x):
    return 3 * x**3 - 2 * x**2 + x - 1


@program(P)
def functions(x):
    return (
        jnp.exp(x),
        jnp.log(x),
        jnp.log1p(x),
        jnp.expm1(x),
        jnp.tanh(x),
        jnp.sin(x),
        jnp.cos(x),
        jnp.sqrt(x),
        lax.rsqrt(x),
        x**1.7,
        jnp.sinh(x),
        jnp.arctan2(x, 1 - x),
    )


@program(F)
def functions_float32(x):
    return jnp.exp(x), jnp.tanh(x), jnp.sin(x), jnp.cos(x), jnp.log1p(x * x), jnp.expm1(x)


@program(F)
def special_functions(x):
    return lax.erf(x), lax.erfc(x), lax.erf_inv(jnp.tanh(x)), lax.lgamma(x * x + 1), jnp.cbrt(x)


@program(M)
def special_inverse(x):
    return lax.erf_inv(jnp.tanh(x))


@program(M)
def reductions(x):
    return x.sum(), x.sum(0), x.sum(1), x.prod(1), x.max(), x.min(0), (x > 0).all(1), (x > 2).any()


@program(T)
def middle_axis(x):
    return x.sum(1), x.max((0, 2)), x.mean((1, 2)), jnp.var(x, axis=1)


@program(RANDOM.normal(size=(33, 3001)))
def large_sums(x):
    return x.sum(), x.max(), x.sum(1), x.T.sum(), (x[:, ::2] * 2).sum()


@program(M)
def softmax(x):
    return jax.nn.softmax(x, axis=-1), jax.nn.log_softmax(x, axis=0), jax.nn.logsumexp(x)


@program(M)
def activations(x):
    return jax.nn.relu(x), jax.nn.gelu(x), jax.nn.sigmoid(x), jax.nn.silu(x), jax.nn.elu(x)


@program(M)
def layer_norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)


@program(M)
def matrix_products(x):
    return x @ x.T, x.T @ x, x @ x[0], x[:, 0] @ x, jnp.dot(x[0], x[1]), jnp.outer(x[0], x[1])


@program(T)
def einsums(x):
    return (
        jnp.einsum("ijk,ilk->ijl", x, x),
        jnp.einsum("ijk->kj", x),
        jnp.einsum("ijk,ijk->", x, x),
        jnp.einsum("ijk,lk->jil", x, x[0]),
    )


@program(M, I.reshape(5, 6))
def integer_products(x, i):
    return i @ i.T, (i @ i.T) @ i


@program(M)
def gradient(x):
    return jax.grad(lambda y: (jnp.tanh(y @ y.T) ** 2).sum())(x)


@program(P)
def value_and_gradient(x):
    return jax.value_and_grad(lambda y: (jnp.log(y) * jnp.sin(y)).sum())(x)


@program(V[:6])
def hessian(x):
    return jax.hessian(lambda y: jnp.exp(y).prod() + (y**3).sum())(x)


@program(V[:6])
def jacobians(x):
    def f(y):
        return jnp.sin(y)[:, None] * y[None, ::2]

    return jax.jacfwd(f)(x), jax.jacrev(f)(x)


@program(V, V[::-1].copy())
def forward_mode(x, dx):
    return jax.jvp(lambda y: jnp.where(y > 0, jnp.sqrt(jnp.abs(y)), y**2), (x,), (dx,))


@program(M)
def mapped(x):
    return jax.vmap(lambda row: row / jnp.linalg.norm(row))(x)


@program(M)
def mapped_gradient(x):
    return jax.vmap(jax.grad(lambda row: jnp.cos(row).prod()))(x)


@program(M)
def concatenated(x):
    return jnp.concatenate([x, x.T[:, :10], x * 2]), jnp.hstack([x, -x]), jnp.stack([x, x + 1], 1)


@program(RANDOM.normal(size=500))
def concatenated_long(x):
    return jnp.concatenate([x[:100], jnp.sin(x), x[::-1]]) * 2


@program(M)
def padded(x):
    return (
        jnp.pad(x, ((1, 2), (0, 3))),
        jnp.pad(x, 2, mode="edge"),
        jnp.pad(x, 1, mode="wrap"),
        lax.pad(x, 9.0, ((-1, 2, 0), (1, -2, 1))),
    )


@program(M)
def rolled(x):
    return jnp.roll(x, 3, 0), jnp.roll(x, (1, -2), (0, 1)), x[::-1, ::2], jnp.flip(x)


@program(T)
def shapes(x):
    return (
        x.reshape(20, 6),
        x.transpose(2, 0, 1).reshape(-1),
        x.T.reshape(5, 24),
        jnp.squeeze(x[:1]),
        jnp.expand_dims(x, 1),
        x.swapaxes(0, 2),
        jnp.tile(x[0], (2, 3)),
        jnp.repeat(x, 2, axis=1),
    )


@program(M)
def stencil(x):
    inner = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    return x.at[1:-1, 1:-1].add(0.1 * inner)


@program(V, I)
def gathers(x, i):
    return x[i], x[jnp.abs(i)], jnp.take(x, i, mode="clip"), jnp.take(x, i + 90, mode="fill")


@program(M, I)
def gathers_two(x, i):
    rows, columns = jnp.abs(i) % 12, jnp.abs(i) % 10
    return x[rows, columns], x[rows], x[:, columns], x[rows[:, None], columns[None, :3]]


@program(M)
def along_axis(x):
    order = jnp.argsort(x, axis=1)
    return jnp.take_along_axis(x, order, axis=1), order


@program(V, I)
def scatters(x, i):
    j = jnp.abs(i)
    return (
        x.at[j].add(1.5),
        x.at[j].max(0.5),
        x.at[j].min(0.5),
        x.at[j].mul(2.0),
        x.at[3].set(7.0),
        x.at[10:20].set(0.0),
    )


@program(M, I)
def scatters_rows(x, i):
    rows = jnp.abs(i) % 12
    return x.at[rows].add(x[:1]), x.at[:, 2].set(1.0), x.at[rows, 3].add(1.0)


@program(I)
def histogram(i):
    return jnp.zeros(41, int).at[i + 20].add(1), jnp.bincount(jnp.abs(i), length=25)


@program(V, I)
def segment_sums(x, i):
    return jax.ops.segment_sum(x[:30], jnp.abs(i) % 5, num_segments=5)


@program(M)
def gather_gradient(x):
    return jax.grad(lambda y: (y[jnp.array([0, 0, 3])] ** 2).sum())(x)


@program(V)
def dynamic_slices(x):
    k = jnp.argmax(x)
    return (
        lax.dynamic_slice(x, (k,), (5,)),
        lax.dynamic_update_slice(x, x[:3] * 2, (k,)),
        lax.dynamic_index_in_dim(x, k),
    )


@program(V)
def running(x):
    return (
        jnp.cumsum(x),
        jnp.cumprod(x[:9]),
        lax.cummax(x),
        lax.cummin(x, reverse=True),
        jnp.cumsum(x.reshape(10, 10), 0),
        jnp.cumsum(x.reshape(10, 10), 1),
        jnp.diff(x),
    )


@program(M)
def sorting(x):
    return (
        jnp.sort(x, 0),
        jnp.sort(x, 1, descending=True),
        jnp.argsort(x, 0),
        jnp.median(x),
        jnp.sort(x.reshape(-1)),
    )


@program(I, V)
def sorting_pairs(i, x):
    return lax.sort((i, x[:30]), num_keys=1), lax.sort((i % 3, -x[:30], i), num_keys=2)


@program(M)
def extremes(x):
    return jnp.argmax(x), jnp.argmin(x, 0), jnp.argmax(x, 1), jnp.max(x, 1), jnp.ptp(x)


@program(M)
def wheres(x):
    return jnp.where(x > 0, x, -1), jnp.clip(x, -0.5, 0.5), jnp.select([x < -1, x > 1], [-x, x], 9)


@program(I)
def integers(i):
    return (
        i // 3,
        i % 7,
        i * i,
        abs(i),
        -i,
        i << 2,
        i >> 1,
        i & 5,
        i | 8,
        i ^ 3,
        ~i,
        jnp.sign(i),
        lax.population_count(i),
        lax.clz(i),
        lax.div(i, 4),
        lax.rem(i, 4),
    )


@program(I)
def unsigned(i):
    u = i.astype(jnp.uint8)
    return u * u, u // 3, u >> 2, u.astype(jnp.float32), (-u).astype(jnp.int32)


@program(M)
def rounding(x):
    return (
        jnp.round(x * 2),
        jnp.floor(x),
        jnp.ceil(x),
        jnp.trunc(x),
        jnp.sign(x),
        x // 0.3,
        x % 0.3,
        lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO),
    )


@program(M)
def conversions(x):
    return (
        x.astype(jnp.float32),
        (x * 100).astype(jnp.int8),
        x.astype(bool),
        (x > 0).astype(jnp.int16),
        x.view(jnp.int64),
        (x > 0).sum(),
    )


@program()
def from_nothing():
    return jnp.arange(10) ** 2, jnp.linspace(0, 1, 7), jnp.eye(4), jnp.ones((2, 3)), jnp.tri(4)


@program(M)
def triangles(x):
    return jnp.tril(x), jnp.triu(x, 1), jnp.trace(x), jnp.diagonal(x)


@program(M)
def inner_jit(x):
    inner = jax.jit(lambda y: jnp.exp(y) / (1 + jnp.exp(y)))
    return inner(x) + inner(2 * x)


@program(M)
def closed_over(x):
    return x + np.arange(120.0).reshape(12, 10), x * np.full((12, 10), 2.0), x @ M.T


@program({"a": V, "b": (M, 2.0)})
def trees(tree):
    return {"sum": tree["a"].sum() + tree["b"][1], "rest": [tree["b"][0] * 2, tree["a"]]}


@program(V)
def interpolated(x):
    return jnp.interp(x, jnp.linspace(-3, 3, 9), jnp.arange(9.0) ** 2), jnp.searchsorted(
        jnp.linspace(-3, 3, 9), x
    )


@program(V)
def polynomials(x):
    return jnp.polyval(jnp.array([1.0, -2, 3]), x)


# What compiles for long, and uses no primitive of JAX that the other programs do not use.
REHEARSED = [
    "activations",
    "along_axis",
    "conversions",
    "einsums",
    "functions_float32",
    "gathers_two",
    "hessian",
    "large_sums",
    "mapped_gradient",
    "padded",
    "scatters_rows",
    "sorting",
    "sorting_pairs",
]


@pytest.mark.parametrize("name", program.each(REHEARSED))
def test_program(name):
    assert_as_jax(*program[name])
