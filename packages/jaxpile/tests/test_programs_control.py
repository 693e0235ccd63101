"""Ordinary JAX programs against jax.jit: loops, branches, random numbers, derivatives of own."""

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
I = RANDOM.integers(-20, 20, size=30)  # noqa: E741
T = RANDOM.normal(size=(4, 5, 6))
KEY = np.array([7, 11], np.uint32)
program = Programs()


@program(M)
def heat(x):
    def step(_, y):
        return y.at[1:-1, 1:-1].add(0.2 * (y[:-2, 1:-1] + y[2:, 1:-1] - 2 * y[1:-1, 1:-1]))

    return lax.fori_loop(0, 7, step, x)


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
    return lax.while_loop(
        lambda s: jnp.abs(s[0] ** 2 - 2) > 1e-12,
        lambda s: (0.5 * (s[0] + 2 / s[0]), s[1] + 1),
        (jnp.abs(x) + 1, 0),
    )


@program(V)
def mapped_while(x):
    return jax.vmap(lambda y: lax.while_loop(lambda z: z < 3, lambda z: z * 1.5 + 1, y))(jnp.abs(x))


@program(M)
def mapped_while_of_rows(x):
    def run(row):
        return lax.while_loop(
            lambda s: s[0].sum() + s[1] < 9, lambda s: (jnp.abs(s[0]) * 1.1, s[1] + 1), (row, 0)
        )

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
        i % 3, x[:30]
    )


@program(KEY)
def uniform(key):
    return jax.random.uniform(key, (5, 3)), jax.random.uniform(key, (4,), jnp.float32)


@program(KEY)
def normal(key):
    return jax.random.normal(key, (50,)), jax.random.normal(key, (50,), jnp.float32)


@program(KEY)
def random_keys(key):
    first, second = jax.random.split(key)
    return (
        jax.random.bits(first, (6,)),
        jax.random.fold_in(second, 9),
        jax.random.split(key, 5),
        jax.random.randint(second, (11,), 0, 77),
        jax.random.bernoulli(first, 0.3, (20,)),
    )


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
        return (
            jnp.where(inside, u * u - v * v + a, u),
            jnp.where(inside, 2 * u * v + b, v),
            count + inside,
        )

    return lax.fori_loop(0, 20, step, (a * 0, b * 0, jnp.zeros(a.shape, int)))[2]


# What compiles for long, and uses no primitive of JAX that the other programs do not use.
REHEARSED = [
    "least_squares",
    "mandelbrot",
    "network",
    "new_keys",
    "normal",
    "random_keys",
    "shuffled",
    "uniform",
]


@pytest.mark.parametrize("name", program.each(REHEARSED))
def test_program(name):
    assert_as_jax(*program[name])
