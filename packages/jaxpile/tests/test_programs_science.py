"""Programs of scientists, against jax.jit: solvers, limiters, training, sampling."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from alike import Programs, assert_as_jax

pytestmark = pytest.mark.rehearsal

RANDOM = np.random.default_rng(98)
N, D = 7, 12
A_ = RANDOM.uniform(0, 1, (D, N))
B_ = RANDOM.uniform(3, 4, (D, N))
C_ = RANDOM.uniform(0, 1, (D, N))
D_ = RANDOM.normal(size=(D, N))

program = Programs()


@program(A_, B_, C_, D_)
def tridiagonal(a, b, c, d):
    def f(s, x):
        cp, dp = s
        a, b, c, d = x
        m = 1 / (b - a * cp)
        new = jnp.stack([c * m, (d - a * dp) * m])
        return (new[0], new[1]), new

    _, pr = lax.scan(f, (jnp.zeros(N), jnp.zeros(N)), (a, b, c, d))

    def g(x, p):
        x = p[1] - p[0] * x
        return x, x

    _, s = lax.scan(g, jnp.zeros(N), pr[::-1])
    return s[::-1]


@program(A_.T.copy(), B_.T.copy(), C_.T.copy(), D_.T.copy())
def tridiagonal_vmapped(a, b, c, d):
    def one(a, b, c, d):
        def f(s, x):
            m = 1 / (x[1] - x[0] * s[0])
            n = (x[2] * m, (x[3] - x[0] * s[1]) * m)
            return n, n

        _, (cp, dp) = lax.scan(f, (0.0, 0.0), (a, b, c, d))
        return lax.scan(lambda x, p: (p[1] - p[0] * x,) * 2, 0.0, (cp, dp), reverse=True)[1]

    return jax.vmap(one)(a, b, c, d)


@program(A_, B_, C_, D_)
def tridiagonal_gradient(a, b, c, d):
    def loss(d):
        def f(s, x):
            m = 1 / (x[1] - x[0] * s[0])
            n = (x[2] * m, (x[3] - x[0] * s[1]) * m)
            return n, n

        _, (cp, dp) = lax.scan(f, (jnp.zeros(N), jnp.zeros(N)), (a, b, c, d))
        return (
            lax.scan(lambda x, p: (p[1] - p[0] * x,) * 2, jnp.zeros(N), (cp, dp), reverse=True)[1]
            ** 2
        ).sum()

    return jax.value_and_grad(loss)(d)


@program(RANDOM.normal(size=(20, 16)), RANDOM.normal(size=(20, 16)))
def superbee(q, u):
    def lim(cr):
        return jnp.maximum(0.0, jnp.maximum(jnp.minimum(1.0, 2 * cr), jnp.minimum(2.0, cr)))

    rjp = q[3:] - q[2:-1]
    rj = q[2:-1] - q[1:-2]
    rjm = q[1:-2] - q[:-3]
    v = u[1:-2]
    cr = lim(jnp.where(v > 0, rjm, rjp) / jnp.where(jnp.abs(rj) < 1e-20, 1e-20, rj))
    fl = v * (q[2:-1] + q[1:-2]) * 0.5 - jnp.abs(v) * ((1 - cr) + jnp.abs(v) * 0.1 * cr) * rj * 0.5
    out = jnp.zeros_like(q).at[1:-2].set(fl)
    return q.at[2:-2].add(-(out[2:-2] - out[1:-3]))


@program(RANDOM.uniform(1, 9, 8))
def while_arrays(x):
    def cond(s):
        return jnp.any(jnp.abs(s[0] ** 2 - x) > 1e-12 * x) & (s[1] < 60)

    def body(s):
        return (0.5 * (s[0] + x / s[0]), s[1] + 1, s[2].at[s[1] % 8].add(s[0].sum()))

    return lax.while_loop(cond, body, (x, 0, jnp.zeros(8)))


@program(RANDOM.uniform(0.2, 0.9, (9, 4)))
def bisect(x):
    def f(y):
        return jnp.cos(y) - y * x

    def body(_, s):
        lo, hi = s
        m = 0.5 * (lo + hi)
        up = f(m) > 0
        return jnp.where(up, m, lo), jnp.where(up, hi, m)

    return lax.fori_loop(0, 50, body, (jnp.zeros_like(x), jnp.full_like(x, 2.0)))


@program(RANDOM.normal(size=(16, 16)))
def convolution_by_shifts(x):
    k = jnp.array([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    p = jnp.pad(x, 1, mode="reflect")
    return (
        sum(k[i, j] * p[i : i + 16, j : j + 16] for i in range(3) for j in range(3)),
        jnp.pad(x, 2, mode="symmetric"),
        jnp.pad(x, ((0, 1), (1, 0)), mode="linear_ramp"),
        jnp.pad(x, 1, mode="mean"),
        jnp.gradient(x),
        jnp.diff(x, 2, axis=0),
    )


@program(RANDOM.normal(size=20))
def convolve_1d(x):
    return jnp.convolve(x, jnp.array([1.0, 2, 3]), mode="same")


@program(RANDOM.normal(size=(10, 3)), np.float64(0.01))
def nbody(p, dt):
    def acc(p):
        d = p[:, None] - p[None]
        r = (d**2).sum(-1) + 1e-2
        return -(d / r[..., None] ** 1.5).sum(1)

    def step(s, _):
        p, v = s
        v = v + dt / 2 * acc(p)
        p = p + dt * v
        v = v + dt / 2 * acc(p)
        return (p, v), (0.5 * (v**2).sum(), p.mean(0))

    return lax.scan(step, (p, jnp.zeros_like(p)), None, length=20)


@program(RANDOM.normal(size=(8, 8)) > 0)
def life(b):
    def step(b, _):
        n = sum(
            jnp.roll(b, (i, j), (0, 1)).astype(jnp.int32)
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
            if (i, j) != (0, 0)
        )
        b = (n == 3) | (b & (n == 2))
        return b, b.sum()

    return lax.scan(step, b, None, length=9)


@program(RANDOM.normal(size=(32, 4)), RANDOM.normal(size=32))
def adam(x, y):
    def loss(p):
        return jnp.mean((jax.nn.gelu(x @ p["w"] + p["b"]) @ p["o"] - y) ** 2)

    p = {"w": jnp.ones((4, 5)) * 0.1, "b": jnp.zeros(5), "o": jnp.linspace(-1, 1, 5)}
    z = jax.tree.map(jnp.zeros_like, p)

    def step(s, t):
        p, m, v = s
        value, g = jax.value_and_grad(loss)(p)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        p = jax.tree.map(
            lambda p, m, v: (
                p
                - 0.01 * (m / (1 - 0.9 ** (t + 1))) / (jnp.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
            ),
            p,
            m,
            v,
        )
        return (p, m, v), value

    return lax.scan(step, (p, z, z), jnp.arange(10.0))


@program(RANDOM.normal(size=(6, 4)), RANDOM.normal(size=(4, 4)) * 0.3)
def rnn(x, w):
    def loss(w):
        def cell(h, v):
            h = jnp.tanh(h @ w + v)
            return h, h

        h, hs = lax.scan(cell, jnp.zeros(4), x)
        return (hs**2).sum() + h.sum()

    return jax.value_and_grad(loss)(w)


@program(RANDOM.normal(size=(5, 8)), RANDOM.normal(size=(5, 8)), RANDOM.normal(size=(5, 8)))
def attention(q, k, v):
    s = q @ k.T / jnp.sqrt(8.0)
    s = jnp.where(jnp.tril(jnp.ones((5, 5), bool)), s, -jnp.inf)
    return jax.nn.softmax(s, -1) @ v, jax.grad(lambda q: (jax.nn.softmax(q @ k.T, -1) @ v).sum())(q)


@program(RANDOM.normal(size=30))
def scan_with_history(x):
    def step(c, v):
        buf, k = c
        buf = lax.dynamic_update_slice(buf, v[None], (k % 5,))
        return (buf, k + 1), (buf.mean(), buf[(k - 1) % 5])

    return lax.scan(step, (jnp.zeros(5), 0), x)


@program(RANDOM.normal(size=(30, 2)))
def scan_unrolled(x):
    return (
        lax.scan(lambda c, v: (c * 0.9 + v[0], c - v[1]), 0.0, x, unroll=4),
        lax.map(lambda v: (v[0] * v[1], v.sum()), x),
        lax.map(lambda v: v.sum(), x, batch_size=7),
    )


@program(RANDOM.normal(size=12))
def remat_and_closures(x):
    c = np.arange(12.0)
    f = jax.checkpoint(
        lambda y: jnp.sin(y * c) * jnp.cos(y), policy=jax.checkpoint_policies.dots_saveable
    )
    return jax.grad(lambda y: f(f(y)).sum())(x), jax.linearize(f, x)[1](x), jax.vjp(f, x)[1](x)


@program(RANDOM.normal(size=(4, 4)))
def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID")


@program(RANDOM.normal(size=100))
def monte_carlo_pi(x):
    def step(k, s):
        key, n = s
        key, sub = jax.random.split(key)
        u = jax.random.uniform(sub, (20, 2))
        return key, n + ((u**2).sum(1) < 1).sum()

    return lax.fori_loop(0, 10, step, (jax.random.PRNGKey(0), 0))[1] * 4 / 200.0


@program(RANDOM.normal(size=100))
def metropolis(x):
    def step(s, k):
        y, acc = s
        k1, k2 = jax.random.split(k)
        n = y + jax.random.normal(k1)
        a = jnp.log(jax.random.uniform(k2)) < 0.5 * (y**2 - n**2)
        return (jnp.where(a, n, y), acc + a), jnp.where(a, n, y)

    return lax.scan(step, (0.3, 0), jax.random.split(jax.random.key(1), 50))


@program(RANDOM.normal(size=(8, 8)))
def cg(x):
    a = x @ x.T + 8 * jnp.eye(8)
    b = jnp.ones(8)

    def cond(s):
        return (s[3] > 1e-20) & (s[4] < 50)

    def body(s):
        y, r, p, rr, k = s
        ap = a @ p
        al = rr / (p @ ap)
        y = y + al * p
        r = r - al * ap
        n = r @ r
        return y, r, r + n / rr * p, n, k + 1

    s = lax.while_loop(cond, body, (jnp.zeros(8), b, b, b @ b, 0))
    return s[0]


@program(RANDOM.normal(size=(8, 8)))
def scipy_cg(x):
    a = x @ x.T + 8 * jnp.eye(8)
    return jax.scipy.sparse.linalg.cg(lambda v: a @ v, jnp.ones(8))[0]


@program(RANDOM.normal(size=6))
def odeint(x):
    from jax.experimental.ode import odeint

    return odeint(lambda y, t: -y * jnp.sin(t), x, jnp.linspace(0, 1.0, 4))


@pytest.mark.parametrize("name", program)
def test_program(name):
    assert_as_jax(*program[name])
