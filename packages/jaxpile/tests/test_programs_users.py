"""Programs as users write them, against jax.jit: library functions, modes, mixed dtypes."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from alike import Programs, assert_as_jax

RANDOM = np.random.default_rng(99)
program = Programs()


@program(RANDOM.normal(size=(6, 9)), RANDOM.random((6, 9)) > 0.4)
def masked_reductions(x, m):
    return (
        jnp.sum(x, where=m),
        jnp.mean(x, axis=0, where=m),
        jnp.max(x, axis=1, where=m, initial=-9.0),
        jnp.where(m, x, jnp.nan),
        jnp.nanmean(jnp.where(m, x, jnp.nan), axis=1),
        jnp.nanmax(jnp.where(m, x, jnp.nan)),
        jnp.nanstd(jnp.where(m, x, jnp.nan)),
        jnp.count_nonzero(m, axis=1),
        jnp.any(m, 0),
        jnp.std(x, ddof=1),
    )


@program(RANDOM.normal(size=(5, 6)), np.array([-7, -1, 0, 3, 5, 9]))
def gather_modes(x, i):
    return (
        jnp.take(x, i, axis=0, mode="wrap"),
        jnp.take(x, i, axis=1, mode="clip"),
        jnp.take(x, i, axis=0),
        x.at[i].get(mode="fill", fill_value=-1.0),
        x.at[:, i].get(mode="clip"),
        x.at[i[:, None] % 5, jnp.arange(3)[None]].get(mode="promise_in_bounds"),
        jnp.take_along_axis(x, i[None, :6] % 5, 0),
    )


@program(RANDOM.normal(size=6))
def nested_transforms(x):
    f = jax.jit(lambda x, y: jnp.sin(x * y) * jnp.exp(-(y**2)))
    g = jax.vmap(jax.vmap(jax.grad(f, (0, 1)), (None, 0)), (0, None))
    return (
        g(x, x[::-1]),
        jax.vmap(jax.jacfwd(jax.grad(lambda v: f(v, v * 2))))(x),
        jax.hessian(lambda v: f(v, v[::-1]).sum())(x),
    )


@program(RANDOM.normal(size=9))
def custom_jvps(x):
    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log1p(jnp.exp(x))

    @log1pexp.defjvp
    def _(p, t):
        (x,) = p
        (dx,) = t
        return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * dx

    @partial(jax.custom_jvp, nondiff_argnums=(0,))
    def app(f, x):
        return f(x)

    @app.defjvp
    def _(f, p, t):
        return f(p[0]), 2.0 * t[0]

    return (
        log1pexp(x),
        jax.vmap(jax.grad(log1pexp))(x),
        jax.vmap(jax.grad(lambda y: app(jnp.sin, y)))(x),
        jax.nn.softplus(x),
        jax.grad(lambda x: jax.nn.relu(x).sum())(x),
    )


@program(RANDOM.normal(size=(4, 7)))
def cumulative(x):
    return (
        jnp.cumsum(x),
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        lax.cumsum(x, 1, reverse=True),
        lax.cummax(x, 0),
        lax.cummin(x, 1, reverse=True),
        jnp.cumsum(x > 0, 1),
        jnp.cumsum(x.astype(jnp.float32), 0),
        lax.associative_scan(jnp.add, x, axis=1),
        lax.associative_scan(jnp.maximum, x, axis=0),
        jax.grad(lambda y: (jnp.cumsum(y, 1) ** 2).sum())(x),
        jax.grad(lambda y: lax.cummax(y, 1).sum())(x),
        jax.grad(lambda y: jnp.cumprod(y, 1).sum())(x),
    )


@program(RANDOM.integers(0, 5, (4, 9)), RANDOM.normal(size=(4, 9)))
def sorts(i, x):
    return (
        jnp.argsort(i, axis=1),
        jnp.argsort(x, axis=0),
        jnp.argsort(x, axis=1, descending=True),
        jnp.sort(i, 0),
        jnp.lexsort((x[0], i[0])),
        jnp.unique(i, size=6, fill_value=-1),
        jnp.partition(x, 3, axis=1)[:, 3],
        jnp.percentile(x, 30.0, axis=0),
        jnp.quantile(x, jnp.array([0.1, 0.9])),
        jnp.median(x, axis=1),
        jax.grad(lambda y: (jnp.sort(y, 1) * jnp.arange(9.0)).sum())(x),
    )


@program(RANDOM.normal(size=50), RANDOM.integers(-1, 8, 50))
def segments(x, s):
    return (
        jax.ops.segment_sum(x, s, 7),
        jax.ops.segment_max(x, s, 7),
        jax.ops.segment_min(x, s, 7),
        jax.ops.segment_prod(x, s, 7),
        jax.ops.segment_sum(jnp.stack([x, -x], 1), s, num_segments=7),
        jax.ops.segment_sum(jnp.ones_like(s), s, 7),
        jnp.zeros(7).at[s].add(x, mode="drop"),
        jax.grad(lambda y: (jax.ops.segment_sum(y, s, 7) ** 2).sum())(x),
        jnp.histogram(x, bins=5, range=(-2, 2))[0],
        jnp.bincount(jnp.abs(s), weights=x, length=9),
        jnp.digitize(x, jnp.linspace(-1, 1, 5)),
    )


@program(RANDOM.normal(size=(3, 4, 5)), RANDOM.normal(size=(5, 6)), RANDOM.normal(size=(3, 6)))
def einsums(a, b, c):
    return (
        jnp.einsum("bij,jk->bik", a, b),
        jnp.einsum("bij,jk,bk->bi", a, b, c),
        jnp.einsum("bij,bij->b", a, a),
        jnp.einsum("bij->bji", a),
        jnp.einsum("ii->i", b[:, :5]),
        jnp.einsum("...j,jk->...k", a, b),
        jnp.tensordot(a, b, 1),
        jnp.matmul(a, b),
        jnp.vdot(b, b),
        jnp.kron(b[:2, :2], c[:2, :2]),
        jnp.inner(c, b),
        jnp.einsum("ij,kl->ijkl", b, c),
        lax.dot_general(
            a.astype(jnp.float32),
            b.astype(jnp.float32),
            (((2,), (0,)), ((), ())),
            preferred_element_type=jnp.float64,
        ),
    )


@program(12)
def prng(seed):
    k = jax.random.PRNGKey(seed)
    a, b, c, d = jax.random.split(k, 4)
    return (
        jax.random.normal(a, (3, 5)),
        jax.random.uniform(b, (7,), minval=-2.0, maxval=3.0),
        jax.random.randint(c, (9,), -4, 100),
        jax.random.bernoulli(d, 0.3, (11,)),
        jax.random.exponential(a, (5,)),
        jax.random.categorical(b, jnp.arange(4.0), shape=(6,)),
        jax.random.permutation(c, jnp.arange(9)),
        jax.random.choice(d, jnp.arange(20.0), (5,), replace=False),
        jax.random.truncated_normal(a, -1.0, 1.0, (4,)),
        jax.random.laplace(b, (3,)),
        jax.random.gumbel(c, (3,)),
        jax.random.cauchy(d, (3,)),
        jax.random.bits(a, (4,), jnp.uint8),
        jax.random.randint(c, (5,), 0, 7, jnp.int8),
    )


@program(3)
def prng_more(seed):
    k = jax.random.key(seed)
    ks = jax.random.split(k, (2, 3))
    return (
        jax.vmap(jax.vmap(lambda q: jax.random.normal(q, (2,), jnp.float32)))(ks),
        jax.random.key_data(jax.random.fold_in(k, 7)),
        jax.random.clone(k),
        jax.random.logistic(k, (4,)),
        jax.random.rademacher(k, (6,)),
        jax.random.weibull_min(k, 1.0, 2.0, (3,)),
        jax.random.triangular(k, 0.0, 0.3, 1.0, (4,)),
    )


@program(
    RANDOM.normal(size=6).astype(np.float32),
    RANDOM.normal(size=6),
    np.float32(2.5),
    RANDOM.integers(-9, 9, 6).astype(np.int16),
)
def mixtures(f, d, s, i):
    return (
        f + d,
        f * 2,
        f * 2.0,
        f * s,
        d * s,
        i + 1,
        i * 1.5,
        i / 2,
        i + f,
        i.astype(jnp.uint8) + i,
        f**2,
        f**i,
        2**i,
        (f > 0) + i,
        jnp.where(f > 0, f, d),
        jnp.where(i > 0, i, 0.5),
        jnp.float32(1) / 3 + d,
        jnp.mean(i),
        jnp.sum(f, dtype=jnp.float64),
        jnp.power(f, 2),
        jnp.hypot(f, d),
        jnp.mean(f),
        jnp.var(i.astype(jnp.float32)),
        f @ d,
        jnp.add(f, 1e-3),
    )


_i = np.array([-9, -7, -1, 0, 1, 5, 8], np.int32)


@program(_i, np.array([2, -3, 5, 7, -2, 3, -8], np.int32))
def integer_division(a, b):
    return (
        a // b,
        a % b,
        jnp.fmod(a, b),
        jnp.divmod(a, b),
        lax.div(a, b),
        lax.rem(a, b),
        a // 0,
        a % 0,
        jnp.floor_divide(a, 4),
        jnp.remainder(a, -4),
        a / b,
        jnp.true_divide(a, 2),
        a.astype(jnp.uint32) // 3,
        a.astype(jnp.int8) % 5,
        jnp.right_shift(a, 1),
        jnp.gcd(a, b),
        jnp.lcm(a, b),
        a**3,
        jnp.float_power(a, 2),
        jnp.bitwise_xor(a, b),
        jnp.invert(a),
        a.astype(float) // b,
        a.astype(float) % b,
        jnp.minimum(a, b),
        jnp.sign(a),
        jnp.abs(a),
        jnp.square(a),
        jnp.clip(a, -2, 4),
        jnp.bitwise_count(a),
    )


@program(RANDOM.normal(size=(2, 2, 2)))
def small_linalg(x):
    return (
        jnp.linalg.det(x),
        jnp.linalg.norm(x),
        jnp.cross(jnp.array([1.0, 2, 3]), jnp.array([3.0, 1, 2])),
        jnp.trace(x[0]),
        jnp.linalg.matrix_power(x[0], 3),
    )


@program(RANDOM.integers(0, 4, 12))
def one_hot(i):
    return (
        jax.nn.one_hot(i, 4),
        jnp.eye(4)[i],
        jax.nn.one_hot(i, 4).sum(0),
        jnp.argmax(jax.nn.one_hot(i, 4), -1),
        jnp.nonzero(i > 1, size=12, fill_value=-1),
        jnp.argwhere(i > 1, size=5),
        jnp.flatnonzero(i, size=4),
        jnp.searchsorted(jnp.sort(i), jnp.array([1, 2, 3]), side="right"),
        jnp.isin(i, jnp.array([1, 3])),
        jnp.cumsum(i)[::2],
    )


@program(RANDOM.normal(size=(4, 4)), 2)
def dynamic(x, k):
    return (
        lax.dynamic_slice_in_dim(x, k, 2, 1),
        lax.dynamic_update_index_in_dim(x, x[0] * 0, k, 0),
        lax.dynamic_update_slice(x, x[:2, :2], (k, k + 3)),
        x[k],
        x[:, -k],
        x.at[k, k].multiply(3.0),
        x.at[k].divide(2.0),
        x.at[:, k].min(0.0),
        x.at[k].power(2.0),
        lax.dynamic_index_in_dim(x, -1, 0, False),
    )


@program(RANDOM.normal(size=(3, 5)), RANDOM.integers(0, 3, 4))
def vmapped_updates(x, i):
    return (
        jax.vmap(lambda r, k: r.at[k].set(9.0))(x, i[:3]),
        jax.vmap(lambda r, k: lax.dynamic_slice(r, (k,), (2,)))(x, i[:3]),
        jax.vmap(lambda k: x[k])(i),
        jax.vmap(lambda r, k: lax.dynamic_update_slice(r, r[:2] * 0, (k,)))(x, i[:3]),
        jax.vmap(lambda r: jnp.sort(r))(x),
        jax.vmap(lambda r, k: r[jnp.array([0, 1]) + k])(x, i[:3]),
        jax.vmap(lambda k, r: lax.cond(k > 1, lambda v: v * 2, lambda v: v - 1, r))(i[:3], x),
        jax.vmap(lambda r: lax.scan(lambda c, v: (c + v, c * v), 0.0, r))(x),
        jax.vmap(lambda n: lax.fori_loop(0, n, lambda j, a: a * 2 + j, 1))(i),
    )


@program(np.linspace(-4, 4, 17))
def special(x):
    p = jnp.abs(x) + 0.1
    return (
        jax.scipy.special.erf(x),
        jax.scipy.special.gammaln(p),
        jax.scipy.special.expit(x),
        jax.scipy.special.logit(p / 5),
        jax.scipy.special.xlogy(x, p),
        jax.scipy.special.entr(p),
        jax.scipy.special.ndtr(x),
        jax.scipy.special.log_ndtr(x),
        jax.scipy.special.ndtri(p / 5),
        jax.scipy.stats.norm.logpdf(x),
        jax.scipy.stats.norm.cdf(x),
        jnp.sinc(x),
        jnp.logaddexp(x, p),
        jnp.logaddexp2(x, p),
        jnp.exp2(x),
        jnp.log2(p),
        jnp.log10(p),
        jnp.deg2rad(x),
        jnp.heaviside(x, 0.5),
        jnp.cbrt(x),
        jnp.tan(x),
        jnp.arcsinh(x),
        jnp.arccosh(p + 1),
        jnp.arctanh(x / 5),
        jnp.sinh(x),
        jnp.copysign(x, -x),
        jnp.ldexp(x, 3),
        jnp.frexp(x),
        jnp.modf(x),
        jnp.unwrap(x * 3),
    )


@program(np.linspace(0.2, 4, 9))
def digammas(x):
    return jax.scipy.special.digamma(x)


@program(np.linspace(0.2, 4, 9))
def gradient_of_gammaln(x):
    return jax.grad(lambda y: jax.scipy.special.gammaln(y).sum())(x)


@program(RANDOM.normal(size=9))
def next_number(x):
    return jnp.nextafter(x, 2.0)


@program(RANDOM.normal(size=9))
def logcumsumexp(x):
    return lax.cumlogsumexp(x)


@program(RANDOM.normal(size=9))
def best_three(x):
    return lax.top_k(x, 3)


@program(RANDOM.normal(size=(7, 5, 4)))
def interpolation(x):
    i = jnp.linspace(0, 6, 11)
    lo = jnp.floor(i).astype(int)
    w = i - lo
    return (
        x[lo] * (1 - w)[:, None, None] + x[jnp.minimum(lo + 1, 6)] * w[:, None, None],
        jnp.interp(i, jnp.arange(7.0), x[:, 0, 0]),
        jax.scipy.ndimage.map_coordinates(x[:, :, 0], [i, i / 2], order=1),
        jax.image.resize(x[:, :, 0], (14, 10), "nearest"),
        jnp.trapezoid(x, axis=0),
    )


@program(RANDOM.normal(size=(7, 5)))
def image_linear(x):
    return jax.image.resize(x, (14, 10), "linear")


@program(np.array([[3, 1], [0, 2], [5, 5]], np.int32), RANDOM.normal(size=(6, 6)))
def edges(e, x):
    m = jnp.zeros((6, 6)).at[e[:, 0], e[:, 1]].set(1.0, unique_indices=True)
    deg = m.sum(0)
    msg = jnp.zeros((6, 6)).at[e[:, 1]].add(x[e[:, 0]])
    return (
        m,
        deg,
        msg,
        x[tuple(e.T)],
        x[e],
        x.at[tuple(e.T)].mul(2.0),
        jnp.diag(x),
        jnp.diag(x[0]),
        jnp.fill_diagonal(x, 0.0, inplace=False),
        x[jnp.triu_indices(6)],
        jnp.vander(x[0], 4),
    )


@program(RANDOM.normal(size=16))
def bits(x):
    u = lax.bitcast_convert_type(x, jnp.uint64)
    return (
        u >> 52,
        (u & 0xFF).astype(jnp.uint8),
        lax.bitcast_convert_type(u ^ 1, jnp.float64),
        x.astype(jnp.float32).view(jnp.int32),
        jnp.packbits(x > 0),
        jnp.unpackbits((u & 0xFF).astype(jnp.uint8)),
    )


# What compiles for long, and uses no primitive of JAX that the other programs do not use.
REHEARSED = [
    "cumulative",
    "custom_jvps",
    "dynamic",
    "einsums",
    "gather_modes",
    "image_linear",
    "integer_division",
    "interpolation",
    "masked_reductions",
    "mixtures",
    "nested_transforms",
    "one_hot",
    "prng",
    "segments",
    "sorts",
    "vmapped_updates",
]


@pytest.mark.parametrize("name", program.each(REHEARSED))
def test_program(name):
    assert_as_jax(*program[name])
