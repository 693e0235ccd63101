"""Ordinary JAX programs against jax.jit: equal trees, shapes and dtypes, and equal numbers.

Integers and booleans are equal; floats within 1e-12 of float64 and 2e-5 of float32, relative to the
largest element: sums are added in another order, and functions differ in their last place.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpile

RANDOM = np.random.default_rng(20)
M = RANDOM.normal(size=(12, 10))
V = RANDOM.normal(size=100)
P = RANDOM.uniform(0.1, 2, size=(7, 9))
I = RANDOM.integers(-20, 20, size=30)  # noqa: E741
F = RANDOM.normal(size=(6, 8)).astype(np.float32)
T = RANDOM.normal(size=(4, 5, 6))
KEY = np.array([7, 11], np.uint32)
PROGRAMS: dict[str, tuple] = {}


def program(*args):
    def keep(function):
        PROGRAMS[function.__name__] = (function, args)
        return function
    return keep


def assert_alike(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(ours, jax.Array)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if jnp.issubdtype(theirs.dtype, jax.dtypes.prng_key):
            ours, theirs = jax.random.key_data(ours), jax.random.key_data(theirs)
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs)
            continue
        close = 1e-12 if theirs.dtype == np.float64 else 2e-5
        scale = np.max(np.abs(theirs[np.isfinite(theirs)]), initial=1e-300)
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close * scale)


@program(M)
def polynomial(x):
    return 3 * x**3 - 2 * x**2 + x - 1


@program(P)
def functions(x):
    return (jnp.exp(x), jnp.log(x), jnp.log1p(x), jnp.expm1(x), jnp.tanh(x), jnp.sin(x),
            jnp.cos(x), jnp.sqrt(x), lax.rsqrt(x), x**1.7, jnp.sinh(x), jnp.arctan2(x, 1 - x))


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
    return (jnp.einsum("ijk,ilk->ijl", x, x), jnp.einsum("ijk->kj", x),
            jnp.einsum("ijk,ijk->", x, x), jnp.einsum("ijk,lk->jil", x, x[0]))


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
    return (jnp.pad(x, ((1, 2), (0, 3))), jnp.pad(x, 2, mode="edge"), jnp.pad(x, 1, mode="wrap"),
            lax.pad(x, 9.0, ((-1, 2, 0), (1, -2, 1))))


@program(M)
def rolled(x):
    return jnp.roll(x, 3, 0), jnp.roll(x, (1, -2), (0, 1)), x[::-1, ::2], jnp.flip(x)


@program(T)
def shapes(x):
    return (x.reshape(20, 6), x.transpose(2, 0, 1).reshape(-1), x.T.reshape(5, 24),
            jnp.squeeze(x[:1]), jnp.expand_dims(x, 1), x.swapaxes(0, 2), jnp.tile(x[0], (2, 3)),
            jnp.repeat(x, 2, axis=1))


@program(M)
def stencil(x):
    inner = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    return x.at[1:-1, 1:-1].add(0.1 * inner)


@program(M)
def heat(x):
    def step(_, y):
        return y.at[1:-1, 1:-1].add(0.2 * (y[:-2, 1:-1] + y[2:, 1:-1] - 2 * y[1:-1, 1:-1]))
    return lax.fori_loop(0, 7, step, x)


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
    return (x.at[j].add(1.5), x.at[j].max(0.5), x.at[j].min(0.5), x.at[j].mul(2.0),
            x.at[3].set(7.0), x.at[10:20].set(0.0))


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
    return (lax.dynamic_slice(x, (k,), (5,)), lax.dynamic_update_slice(x, x[:3] * 2, (k,)),
            lax.dynamic_index_in_dim(x, k))


@program(V)
def running(x):
    return (jnp.cumsum(x), jnp.cumprod(x[:9]), lax.cummax(x), lax.cummin(x, reverse=True),
            jnp.cumsum(x.reshape(10, 10), 0), jnp.cumsum(x.reshape(10, 10), 1), jnp.diff(x))


@program(M)
def sorting(x):
    return (jnp.sort(x, 0), jnp.sort(x, 1, descending=True), jnp.argsort(x, 0), jnp.median(x),
            jnp.sort(x.reshape(-1)))


@program(I, V)
def sorting_pairs(i, x):
    return lax.sort((i, x[:30]), num_keys=1), lax.sort((i % 3, -x[:30], i), num_keys=2)


@program(M)
def extremes(x):
    return jnp.argmax(x), jnp.argmin(x, 0), jnp.argmax(x, 1), jnp.max(x, 1), jnp.ptp(x)


@program(V)
def scan_states(x):
    def step(carry, value):
        carry = 0.9 * carry + value
        return carry, (carry, jnp.sin(carry))
    return lax.scan(step, 0.0, x)


@program(M)
def scan_reversed(x):
    return lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(10), x, reverse=True)


@program(T)
def nested_scans(x):
    def outer(c, matrix):
        def inner(d, row):
            return d * 0.5 + row, d.sum()
        d, sums = lax.scan(inner, c, matrix)
        return d, sums
    return lax.scan(outer, jnp.ones(6), x)


@program(V)
def scan_swaps(x):
    return lax.scan(lambda c, v: ((c[1], c[0] + v, c[2][::-1]), c[0]), (0.0, 1.0, x), x[:7])


@program(V)
def scan_gradient(x):
    def loss(y):
        c, _ = lax.scan(lambda c, v: (jnp.tanh(c + v), None), 0.1, y)
        return c
    return jax.grad(loss)(x)


@program(V[:20])
def recurrences(x):
    return lax.fori_loop(1, 20, lambda k, y: y.at[k].set(0.5 * y[k - 1] + y[k]), x)


@program(V[0])
def newton(x):
    return lax.while_loop(lambda s: jnp.abs(s[0] ** 2 - 2) > 1e-12,
                          lambda s: (0.5 * (s[0] + 2 / s[0]), s[1] + 1), (jnp.abs(x) + 1, 0))


@program(V)
def mapped_while(x):
    return jax.vmap(lambda y: lax.while_loop(lambda z: z < 3, lambda z: z * 1.5 + 1, y))(jnp.abs(x))


@program(M)
def mapped_while_of_rows(x):
    def run(row):
        return lax.while_loop(lambda s: s[0].sum() + s[1] < 9,
                              lambda s: (jnp.abs(s[0]) * 1.1, s[1] + 1), (row, 0))
    return jax.vmap(run)(x)


@program(V)
def branches(x):
    return lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: -y, x)


@program(V, 2)
def switches(x, k):
    cases = [lambda y: y, lambda y: y + 1, lambda y: y[::-1], jnp.sin]
    return lax.switch(k, cases, x), lax.switch(k + 7, cases, x), lax.switch(-3, cases, x)


@program(V, I)
def mapped_switch(x, i):
    return jax.vmap(lambda k, y: lax.switch(k, [jnp.sin, jnp.cos, lambda z: z * 2], y))(
        i % 3, x[:30])


@program(M)
def wheres(x):
    return jnp.where(x > 0, x, -1), jnp.clip(x, -0.5, 0.5), jnp.select([x < -1, x > 1], [-x, x], 9)


@program(I)
def integers(i):
    return (i // 3, i % 7, i * i, abs(i), -i, i << 2, i >> 1, i & 5, i | 8, i ^ 3, ~i,
            jnp.sign(i), lax.population_count(i), lax.clz(i), lax.div(i, 4), lax.rem(i, 4))


@program(I)
def unsigned(i):
    u = i.astype(jnp.uint8)
    return u * u, u // 3, u >> 2, u.astype(jnp.float32), (-u).astype(jnp.int32)


@program(M)
def rounding(x):
    return (jnp.round(x * 2), jnp.floor(x), jnp.ceil(x), jnp.trunc(x), jnp.sign(x), x // 0.3,
            x % 0.3, lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO))


@program(M)
def conversions(x):
    return (x.astype(jnp.float32), (x * 100).astype(jnp.int8), x.astype(bool),
            (x > 0).astype(jnp.int16), x.view(jnp.int64), (x > 0).sum())


@program()
def from_nothing():
    return jnp.arange(10) ** 2, jnp.linspace(0, 1, 7), jnp.eye(4), jnp.ones((2, 3)), jnp.tri(4)


@program(M)
def triangles(x):
    return jnp.tril(x), jnp.triu(x, 1), jnp.trace(x), jnp.diagonal(x)


@program(KEY)
def uniform(key):
    return jax.random.uniform(key, (5, 3)), jax.random.uniform(key, (4,), jnp.float32)


@program(KEY)
def normal(key):
    return jax.random.normal(key, (50,)), jax.random.normal(key, (50,), jnp.float32)


@program(KEY)
def random_keys(key):
    first, second = jax.random.split(key)
    return (jax.random.bits(first, (6,)), jax.random.fold_in(second, 9), jax.random.split(key, 5),
            jax.random.randint(second, (11,), 0, 77), jax.random.bernoulli(first, 0.3, (20,)))


@program(KEY)
def shuffled(key):
    return jax.random.permutation(key, 20), jax.random.choice(key, 10, (4,))


@program(KEY)
def random_walk(key):
    def step(carry, _):
        key, x = carry
        key, own = jax.random.split(key)
        return (key, x + jax.random.normal(own)), x
    return lax.scan(step, (key, 0.0), length=12)


@program(3)
def new_keys(seed):
    keys = jax.random.split(jax.random.key(seed), 4)
    return jax.vmap(lambda k: jax.random.uniform(k, (3,)))(keys), keys[1]


@program(M)
def network(x):
    weights = [jnp.full((10, 8), 0.1), jnp.full((8, 3), -0.2)]

    def loss(ws):
        y = x
        for w in ws:
            y = jnp.tanh(y @ w)
        return (y**2).mean()
    return jax.value_and_grad(loss)(weights)


@program(M)
def checkpointed(x):
    return jax.grad(lambda y: jax.checkpoint(lambda z: jnp.sin(jnp.sin(z)))(y).sum())(x)


@program(V)
def custom_derivative(x):
    @jax.custom_vjp
    def f(y):
        return jnp.sin(y)
    f.defvjp(lambda y: (f(y), y), lambda y, g: (g * 2 * y,))

    @jax.custom_jvp
    def h(y):
        return y**2
    h.defjvp(lambda p, t: (h(*p), 5 * t[0]))
    return f(x), jax.grad(lambda y: f(y).sum())(x), jax.grad(lambda y: h(y).sum())(x)


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


@program(RANDOM.normal(size=(4, 6)), RANDOM.normal(size=(6,)))
def least_squares(a, b):
    def step(x, _):
        x = x - 0.05 * (a.T @ (a @ x - b[:4]))
        return x, jnp.linalg.norm(a @ x - b[:4])
    return lax.scan(step, jnp.zeros(6), length=25)


@program(V)
def fourth_order_steps(x):
    def field(y):
        return jnp.stack([y[1], -jnp.sin(y[0])])

    def step(y, _):
        h = 0.05
        a = field(y)
        b = field(y + h / 2 * a)
        c = field(y + h / 2 * b)
        d = field(y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d), y
    return lax.scan(step, x[:2], length=30)


@program(jnp.linspace(-2, 1, 24), jnp.linspace(-1, 1, 16))
def mandelbrot(x, y):
    a, b = jnp.meshgrid(x, y)

    def step(_, s):
        u, v, count = s
        inside = u * u + v * v < 4
        return (jnp.where(inside, u * u - v * v + a, u), jnp.where(inside, 2 * u * v + b, v),
                count + inside)
    return lax.fori_loop(0, 20, step, (a * 0, b * 0, jnp.zeros(a.shape, int)))[2]


@program(V)
def interpolated(x):
    return jnp.interp(x, jnp.linspace(-3, 3, 9), jnp.arange(9.0) ** 2), jnp.searchsorted(
        jnp.linspace(-3, 3, 9), x)


@program(V)
def polynomials(x):
    return jnp.polyval(jnp.array([1.0, -2, 3]), x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    function, args = PROGRAMS[name]
    assert_alike(jaxpile.jit(function)(*args), jax.jit(function)(*args))


def test_there_are_fifty():
    assert len(PROGRAMS) >= 50
