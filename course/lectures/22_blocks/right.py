"""Right answers to the exercises of "Programming in blocks" in other styles than the lecture's."""

from __future__ import annotations

import cuda.tile as ct
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from wrong_answers import other_styles

TILE = 16

RIGHT, right = other_styles("22_blocks")


@right("masked-sum")
def by_sum_where(x_ref, sum_ref, *, n):
    size = x_ref.shape[0]
    left = n - pl.program_id(0) * size
    sum_ref[0] = jnp.sum(x_ref[:], where=jax.lax.iota(jnp.int32, size) < left)


@right("masked-sum")
def by_select(x_ref, sum_ref, *, n):
    x = x_ref[...]
    place = pl.program_id(0) * x.shape[0] + jnp.arange(x.shape[0])
    sum_ref[...] = jnp.add.reduce(jax.lax.select(place < n, x, jnp.zeros_like(x)), keepdims=True)


@right("masked-sum")
def a_tree_that_prints(x_ref, sum_ref, *, n):
    place = pl.program_id(0) * x_ref.shape[0] + jnp.arange(x_ref.shape[0])
    x = jnp.where(place < n, x_ref[...], 0.0)
    while x.shape[0] > 1:
        half = x.shape[0] // 2
        x = x[:half] + x[half:]
    jax.debug.print("a sum of {}", n)
    sum_ref[...] = x


@right("softmax")
def of_the_columns_that_exist(scores_ref, out_ref, *, kinds):
    scores = scores_ref[:, :kinds]
    powers = jnp.exp(scores - jnp.max(scores, 1)[:, None])
    out_ref[...] = jnp.zeros(out_ref.shape)
    out_ref[:, :kinds] = powers / jnp.sum(powers, 1)[:, None]


@right("softmax")
def by_vmap(scores_ref, out_ref, *, kinds):
    def of_a_row(scores):
        scores = jnp.where(jnp.arange(scores.size) < kinds, scores, -jnp.inf)
        powers = jnp.exp(scores - scores.max())
        return powers / powers.sum()

    out_ref[...] = jax.vmap(of_a_row)(scores_ref[...])


@right("softmax")
def by_logarithms(scores_ref, out_ref, *, kinds):
    exists = jnp.arange(scores_ref.shape[1])[None, :] < kinds
    scores = jnp.where(exists, scores_ref[...], -jnp.inf)
    largest = jnp.max(scores, axis=-1)[:, None]
    total = largest + jnp.log(jnp.sum(jnp.exp(scores - largest), axis=-1))[:, None]
    out_ref[...] = jnp.exp(scores - total)


@right("softmax")
def zeros_where_nothing_exists(scores_ref, out_ref, *, kinds):
    exists = jnp.arange(scores_ref.shape[1]) < kinds
    largest = jnp.max(scores_ref[...], axis=1, keepdims=True, where=exists, initial=-jnp.inf)
    powers = jnp.where(exists, jnp.exp(scores_ref[...] - largest), 0.0)
    out_ref[...] = powers * (1 / powers.sum(axis=1)).reshape(-1, 1)


@right("product")
def sums_in_the_output(a_ref, b_ref, c_ref):
    c_ref[...] = jnp.zeros((TILE, TILE), jnp.float32)
    for k in range(0, a_ref.shape[1], TILE):
        c_ref[...] += jnp.dot(a_ref[:, k:k + TILE], b_ref[k:k + TILE, :])


@right("product")
def by_dot_general(a_ref, b_ref, c_ref):
    sums = None
    for start in range(0, a_ref.shape[1], TILE):
        left, right = a_ref[:, start:start + TILE], b_ref[start:start + TILE, :]
        tile = jax.lax.dot_general(left, right, (((1,), (0,)), ((), ())))
        sums = tile if sums is None else sums + tile
    c_ref[...] = sums


@right("mixed")
def by_while(a_ref, b_ref, c_ref):
    def step(state):
        k, sums = state
        left = a_ref[:, pl.ds(k * TILE, TILE)]
        right = b_ref[pl.ds(k * TILE, TILE), :]
        return k + 1, sums + jnp.matmul(left, right, preferred_element_type=jnp.float32)

    tiles = a_ref.shape[1] // TILE
    _, sums = jax.lax.while_loop(lambda state: state[0] < tiles, step,
                                 (0, jnp.zeros(c_ref.shape, jnp.float32)))
    c_ref[:, :] = sums.astype(c_ref.dtype)


@right("mixed")
def by_scan(a_ref, b_ref, c_ref):
    def step(sums, k):
        part = pl.ds(k * TILE, TILE)
        tile = jax.lax.dot_general(a_ref[:, part], b_ref[part, :], (((1,), (0,)), ((), ())),
                                   preferred_element_type=jnp.float32)
        return sums + tile, None

    sums, _ = jax.lax.scan(step, jnp.zeros((TILE, TILE)), jnp.arange(a_ref.shape[1] // TILE))
    c_ref[...] = jnp.asarray(sums, c_ref.dtype)


@right("to-half")
def by_logarithm(values):
    largest = np.abs(values).max(initial=0)
    factor = 2.0 ** (np.floor(np.log2(largest)) - 11) if largest else 1.0
    return np.float16(values / factor), factor


@right("to-half")
def by_ldexp(values):
    largest = float(np.max(np.abs(values)))
    power = np.frexp(largest)[1] - 13 if largest > 0 else 0
    return np.ldexp(values, -power).astype(np.float16), float(np.ldexp(1.0, power))


@right("tile-sums")
@ct.kernel
def by_where(x, sums, size: ct.Constant[int]):
    i = ct.bid(0)
    exists = i * size + ct.arange(size, dtype=ct.int32) < x.shape[0]
    total = ct.sum(ct.where(exists, ct.load(x, i, size), 0.0))
    ct.scatter(sums, i, total)


@right("tile-sums")
@ct.kernel
def by_gather(x, sums, size: ct.Constant[int]):
    i = ct.bid(0)
    place = i * size + ct.arange(size, dtype=ct.int32)
    ct.store(sums, i, ct.sum(ct.gather(x, place), keepdims=True))


@right("tile-product")
@ct.kernel
def with_an_operator(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.cdiv(a.shape[1], TILE)):
        left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (j, k), (TILE, TILE), order="F", padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(left, ct.transpose(right), sums)
    ct.store(c, (i, j), sums)


@right("tile-product")
@ct.kernel
def from_the_last_to_the_first(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    zero = ct.PaddingMode.ZERO
    sums = ct.full((TILE, TILE), 0.0, ct.float32)
    count = ct.num_tiles(b, axis=0, shape=(TILE, TILE))
    for k in range(count):
        at = count - 1 - k
        sums = ct.mma(ct.load(a, index=(i, at), shape=(TILE, TILE), padding_mode=zero),
                      ct.load(b, index=(at, j), shape=(TILE, TILE), padding_mode=zero), sums)
    ct.store(c, index=(i, j), tile=sums)


@right("tile-product")
@ct.kernel
def in_longer_steps(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    zero = ct.PaddingMode.ZERO
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, 32))):
        left = ct.load(a, (i, k), (TILE, 32), padding_mode=zero)
        sums = ct.mma(left, ct.load(b, (k, j), (32, TILE), padding_mode=zero), sums)
    ct.store(c, (i, j), sums.astype(c.dtype))
