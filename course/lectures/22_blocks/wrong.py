"""Wrong answers to the exercises of "Programming in blocks", with what the check must say."""

from __future__ import annotations

import cuda.tile as ct
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from wrong_answers import collection

WRONG, wrong = collection("22_blocks")
TILE = 16

# --- masked-sum ---------------------------------------------------------------------------------


def place(x_ref):
    return pl.program_id(0) * x_ref.shape[0] + jnp.arange(x_ref.shape[0])


@wrong("masked-sum", "block 3 is nan.*leave them out with `where`")
def no_mask(x_ref, sum_ref, *, n):
    sum_ref[...] = x_ref[...].sum(keepdims=True)


@wrong("masked-sum", "is nan.*nan times 0 is nan|A GPU multiplies, and nan times 0 is nan")
def multiplies_by_the_mask(x_ref, sum_ref, *, n):
    sum_ref[...] = (x_ref[...] * (place(x_ref) < n)).sum(keepdims=True)


@wrong("masked-sum", "is nan")
def place_in_the_block(x_ref, sum_ref, *, n):
    exists = jnp.arange(x_ref.shape[0]) < n
    sum_ref[...] = jnp.where(exists, x_ref[...], 0.0).sum(keepdims=True)


@wrong("masked-sum", "which indices does this block have")
def one_too_few(x_ref, sum_ref, *, n):
    sum_ref[...] = jnp.where(place(x_ref) < n - 1, x_ref[...], 0.0).sum(keepdims=True)


@wrong("masked-sum", "the index of an element, not its value")
def nansum(x_ref, sum_ref, *, n):
    sum_ref[...] = jnp.nansum(x_ref[...], keepdims=True)


@wrong("masked-sum", "Incompatible shapes.*in blocks of 64")
def blocks_of_256(x_ref, sum_ref, *, n):
    exists = pl.program_id(0) * 256 + jnp.arange(256) < n
    sum_ref[...] = jnp.where(exists, x_ref[...], 0.0).sum(keepdims=True)


@wrong("masked-sum", "one part of the block after the other, in a loop.*`.sum\\(\\)`")
def adds_in_a_loop(x_ref, sum_ref, *, n):
    left = jnp.minimum(n - pl.program_id(0) * x_ref.shape[0], x_ref.shape[0])
    total = jax.lax.fori_loop(0, left, lambda k, total: total + x_ref[k], jnp.float32(0))
    sum_ref[...] = total[None]


@wrong("masked-sum", "one part of the block after the other, in a loop")
def adds_in_an_unrolled_loop(x_ref, sum_ref, *, n):
    values = jnp.where(place(x_ref) < n, x_ref[...], 0.0)
    sum_ref[...] = sum((values[k] for k in range(values.size)), jnp.float32(0))[None]


@wrong("masked-sum", "calls back into Python: the host computes")
def by_numpy(x_ref, sum_ref, *, n):
    sum_ref[...] = jax.pure_callback(lambda x, where: np.array([x[where < n].sum()], np.float32),
                                     jax.ShapeDtypeStruct((1,), jnp.float32), x_ref[...], place(x_ref))


@wrong("masked-sum", "writes into an array that is an input")
def masks_where_it_stands(x_ref, sum_ref, *, n):
    x_ref[...] = jnp.where(place(x_ref) < n, x_ref[...], 0.0)
    sum_ref[...] = x_ref[...].sum(keepdims=True)


@wrong("masked-sum", "the sum of block 0 is")
def as_if_none_were_negative(x_ref, sum_ref, *, n):
    sum_ref[...] = jnp.where((place(x_ref) < n) & (x_ref[...] > 0), x_ref[...], 0.0).sum(keepdims=True)


# --- softmax ------------------------------------------------------------------------------------


def masked(scores_ref, kinds, fill=-jnp.inf):
    return jnp.where(jnp.arange(scores_ref.shape[1]) < kinds, scores_ref[...], fill)


@wrong("softmax", "with ordinary scores.*nan comes from columns that don't exist")
def all_columns(scores_ref, out_ref, *, kinds):
    out_ref[...] = jax.nn.softmax(scores_ref[...], axis=1)


@wrong("softmax", "scores near .*inf/inf|scores near .*0/0")
def no_largest(scores_ref, out_ref, *, kinds):
    powers = jnp.exp(masked(scores_ref, kinds))
    out_ref[...] = powers / powers.sum(axis=1, keepdims=True)


@wrong("softmax", "along which axis|this row")
def largest_of_the_block(scores_ref, out_ref, *, kinds):
    scores = masked(scores_ref, kinds)
    powers = jnp.exp(scores - jnp.nanmax(scores))
    out_ref[...] = powers / powers.sum(axis=1, keepdims=True)


@wrong("softmax", "along which axis|don't exist")
def by_columns(scores_ref, out_ref, *, kinds):
    out_ref[...] = jax.nn.softmax(masked(scores_ref, kinds), axis=0)


@wrong("softmax", "scores near -300.*does it exist")
def zeros_for_what_is_missing(scores_ref, out_ref, *, kinds):
    scores = masked(scores_ref, kinds, 0.0)
    exists = jnp.arange(scores_ref.shape[1]) < kinds
    powers = jnp.exp(scores - scores.max(axis=1, keepdims=True)) * exists
    out_ref[...] = powers / powers.sum(axis=1, keepdims=True)


@wrong("softmax", "one part of the block after the other.*all rows at once")
def row_after_row(scores_ref, out_ref, *, kinds):
    def one(row, _):
        exists = jnp.arange(scores_ref.shape[1]) < kinds
        scores = jnp.where(exists, scores_ref[row, :], -jnp.inf)
        powers = jnp.exp(scores - scores.max())
        out_ref[row, :] = powers / powers.sum()

    jax.lax.fori_loop(0, scores_ref.shape[0], one, None)


@wrong("softmax", "one part of the block after the other.*all rows at once")
def row_after_row_unrolled(scores_ref, out_ref, *, kinds):
    for row in range(scores_ref.shape[0]):
        scores = jnp.where(jnp.arange(scores_ref.shape[1]) < kinds, scores_ref[row, :], -jnp.inf)
        powers = jnp.exp(scores - scores.max())
        out_ref[row, :] = powers / powers.sum()


@wrong("softmax", "a nan .among the scores. is ignored.*use the column")
def takes_nan_for_what_is_missing(scores_ref, out_ref, *, kinds):
    scores = scores_ref[...]
    powers = jnp.exp(scores - jnp.nanmax(scores, axis=1, keepdims=True))
    out_ref[...] = powers / jnp.nansum(powers, axis=1, keepdims=True)


@wrong("softmax", "calls back into Python: the host computes")
def softmax_by_numpy(scores_ref, out_ref, *, kinds):
    def by_rows(scores):
        powers = np.where(np.arange(scores.shape[1]) < kinds,
                          np.exp(scores - scores[:, :kinds].max(axis=1, keepdims=True)), 0)
        return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)

    out_ref[...] = jax.pure_callback(lambda scores: by_rows(np.asarray(scores)),
                                     jax.ShapeDtypeStruct(out_ref.shape, jnp.float32), scores_ref[...])


# --- product and mixed --------------------------------------------------------------------------


def walking(dtype=jnp.float32, dot=jnp.dot, turns=None, keep=True):
    """A kernel that walks along its strips, with one thing different."""

    def kernel(a_ref, b_ref, c_ref):
        def step(turn, sums):
            part = pl.ds(turn * TILE, TILE)
            one = dot(a_ref[:, part], b_ref[part, :]).astype(dtype)
            return sums + one if keep else one

        zeros = jnp.zeros((TILE, TILE), dtype)
        sums = jax.lax.fori_loop(0, turns or a_ref.shape[1] // TILE, step, zeros)
        c_ref[...] = sums.astype(c_ref.dtype)

    return kernel


@wrong("product", r"a value of shape \(16, 64\) at once")
def whole_strips(a_ref, b_ref, c_ref):
    c_ref[...] = jnp.dot(a_ref[...], b_ref[...])


@wrong("product", "IndexError|out of bounds|start:stop|do all tiles|slice")
def start_and_stop(a_ref, b_ref, c_ref):
    sums = jnp.zeros((TILE, TILE), jnp.float32)
    for turn in range(a_ref.shape[1] // TILE):
        part = pl.ds(turn * TILE, (turn + 1) * TILE)
        sums += jnp.dot(a_ref[:, part], b_ref[part, :])
    c_ref[...] = sums


@wrong("product", "something other than tiles with jnp.dot.*which a tensor core can compute")
def a_column_times_a_row(a_ref, b_ref, c_ref):
    def step(k, sums):
        return sums + a_ref[:, pl.ds(k, 1)] * b_ref[pl.ds(k, 1), :]

    zeros = jnp.zeros((TILE, TILE), jnp.float32)
    c_ref[...] = jax.lax.fori_loop(0, a_ref.shape[1], step, zeros)


wrong("product", "the tiles are multiplied as float16", "casts the tiles down")(
    walking(dot=lambda a, b: jnp.dot(a.astype(jnp.float16), b.astype(jnp.float16),
                                     preferred_element_type=jnp.float32)))
wrong("product", "the tile products and sums have the type .*float16", "sums in float16")(
    walking(jnp.float16))
wrong("product", "do all tiles of the strips take part", "the first tile")(walking(turns=1))
wrong("product", "is each product added", "keeps the last")(walking(keep=False))


def by_the_host(a, b):
    return jax.pure_callback(lambda a, b: np.asarray(a) @ np.asarray(b),
                             jax.ShapeDtypeStruct((TILE, TILE), jnp.float32), a, b) + 0 * jnp.dot(a, b)


wrong("product", "calls back into Python: the host computes", "on the host, and a product for show")(
    walking(dot=by_the_host))


def to_float32(a, b):
    return jnp.dot(a.astype(jnp.float32), b.astype(jnp.float32))


def in_float16(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float16)


def in_float32(a, b):
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


wrong("mixed", "of float16 into float32.*In which type", "sums in float16")(
    walking(jnp.float16, in_float32))
wrong("mixed", "of float16 into float32.*In which type", "products in float16")(
    walking(jnp.float32, in_float16))
wrong("mixed", "the tiles are multiplied as float32", "casts the tiles")(
    walking(jnp.float32, to_float32))

# --- to-half ------------------------------------------------------------------------------------


@wrong("to-half", "values near 1: the largest half is 1, not")
def as_it_is(values):
    return values.astype(np.float16), 1.0


@wrong("to-half", "is not a power of two")
def by_the_largest(values):
    largest = np.abs(values).max() or 4096.0
    return (values / largest * 4096).astype(np.float16), largest / 4096


@wrong("to-half", "negative values: 4. of 50 halves aren't finite")
def largest_without_sign(values):
    factor = 2.0 ** (np.frexp(values.max())[1] - 12) if values.any() else 1.0
    return (values / factor).astype(np.float16), factor


@wrong("to-half", "half \\* factor gives the values back")
def factor_upside_down(values):
    factor = 2.0 ** (np.frexp(np.abs(values).max())[1] - 12) if values.any() else 1.0
    return (values / factor).astype(np.float16), 1 / factor


@wrong("to-half", "zeros have the factor")
def zeros_forgotten(values):
    factor = 2.0 ** (np.frexp(np.abs(values).max())[1] - 12)
    return (values / factor).astype(np.float16), factor


@wrong("to-half", "values near .*(largest half is|aren't finite)")
def for_the_four_of_the_text(values):
    largest = np.abs(values).max()
    power = next((power for least, power in ((1e9, 28), (5e4, 5), (0.5, -12), (1e-28, -101))
                  if largest > least), 0)
    return (values / 2.0**power).astype(np.float16), 2.0**power


@wrong("softmax", "JAX's own softmax does the work")
def by_the_library(scores_ref, out_ref, *, kinds):
    exists = jnp.arange(scores_ref.shape[1]) < kinds
    out_ref[...] = jax.nn.softmax(jnp.where(exists, scores_ref[...], -jnp.inf), axis=1)


from jax.nn import softmax as under_another_name


@wrong("softmax", "JAX's own softmax does the work")
def by_the_library_under_another_name(scores_ref, out_ref, *, kinds):
    exists = jnp.arange(scores_ref.shape[1]) < kinds
    out_ref[...] = under_another_name(jnp.where(exists, scores_ref[...], -jnp.inf), axis=-1)


# --- cuTile -------------------------------------------------------------------------------------

ZERO = ct.PaddingMode.ZERO


@wrong("tile-sums", "where no padding was asked for.*does each load set with padding_mode")
@ct.kernel
def no_padding(x, sums, size: ct.Constant[int]):
    ct.store(sums, (ct.bid(0),), ct.sum(ct.load(x, (ct.bid(0),), (size,))).reshape((1,)))


@wrong("tile-sums", "nothing orders the two.*to which block does the tile belong")
@ct.kernel
def all_into_the_first(x, sums, size: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0),), (size,), padding_mode=ZERO)
    ct.store(sums, (0,), ct.sum(tile).reshape((1,)))


@wrong("tile-sums", "is each index counted in tiles|which tile does block i load")
@ct.kernel
def index_in_elements(x, sums, size: ct.Constant[int]):
    i = ct.bid(0)
    tile = ct.load(x, (i * size,), (size,), padding_mode=ZERO)
    ct.store(sums, (i,), ct.sum(tile).reshape((1,)))


@wrong("tile-sums", "with 64 values in tiles of 64|is each index counted in tiles|how long is it")
@ct.kernel
def tiles_of_16(x, sums, size: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0),), (16,), padding_mode=ZERO)
    ct.store(sums, (ct.bid(0),), ct.sum(tile).reshape((1,)))


@wrong("tile-sums", "is -1, not")
@ct.kernel
def stores_nothing(x, sums, size: ct.Constant[int]):
    ct.sum(ct.load(x, (ct.bid(0),), (size,), padding_mode=ZERO))


@wrong("tile-sums", "not a kernel.*write @ct.kernel above it")
def not_decorated(x, sums, size):
    ct.store(sums, (ct.bid(0),), ct.sum(ct.load(x, (ct.bid(0),), (size,))).reshape((1,)))


@wrong("tile-sums", "the blocks don't share the work: one of them loads 4,000 bytes, and 1,024 are")
@ct.kernel
def the_first_block_does_all(x, sums, size: ct.Constant[int]):
    if ct.bid(0) == 0:
        for k in range(ct.num_blocks(0)):
            ct.store(sums, (k,), ct.sum(ct.load(x, (k,), (size,), padding_mode=ZERO)).reshape((1,)))


@wrong("tile-sums", "the blocks don't share the work: one of them loads 4,000 bytes, and 1,024 are")
@ct.kernel
def each_walks_through_all(x, sums, size: ct.Constant[int]):
    mine = ct.zeros((1,), ct.float32)
    for k in range(ct.num_blocks(0)):
        total = ct.sum(ct.load(x, (k,), (size,), padding_mode=ZERO)).reshape((1,))
        mine = ct.where(k == ct.bid(0), total, mine)
    ct.store(sums, (ct.bid(0),), mine)


@wrong("tile-sums", "the kernel changes an array that is an input")
@ct.kernel
def clears_what_it_has_read(x, sums, size: ct.Constant[int]):
    tile = ct.load(x, (ct.bid(0),), (size,), padding_mode=ZERO)
    ct.store(sums, (ct.bid(0),), ct.sum(tile).reshape((1,)))
    ct.store(x, (ct.bid(0),), ct.zeros((size,), ct.float32))


@wrong("tile-product", "do all tiles of the strips take part")
@ct.kernel
def the_first_tiles(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    left = ct.load(a, (i, 0), (TILE, TILE), padding_mode=ZERO)
    right = ct.load(b, (0, j), (TILE, TILE), padding_mode=ZERO)
    ct.store(c, (i, j), ct.mma(left, right, ct.zeros((TILE, TILE), ct.float32)))


@wrong("tile-product", "where no padding was asked for")
@ct.kernel
def edges_not_padded(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
        left, right = ct.load(a, (i, k), (TILE, TILE)), ct.load(b, (k, j), (TILE, TILE))
        sums = ct.mma(left, right, sums)
    ct.store(c, (i, j), sums)


@wrong("tile-product", "is each index counted in tiles|is each product added")
@ct.kernel
def strips_of_b_turned(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
        left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ZERO)
        right = ct.load(b, (j, k), (TILE, TILE), padding_mode=ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (i, j), sums)


@wrong("tile-product", "In which type")
@ct.kernel
def sums_in_float16(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float16)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
        left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ZERO)
        right = ct.load(b, (k, j), (TILE, TILE), padding_mode=ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (i, j), sums.astype(ct.float32))


@wrong("tile-product", "multiplied as f32.*takes tiles of 16 bits")
@ct.kernel
def casts_the_tiles(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
        left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ZERO).astype(ct.float32)
        right = ct.load(b, (k, j), (TILE, TILE), padding_mode=ZERO).astype(ct.float32)
        sums = ct.mma(left, right, sums)
    ct.store(c, (i, j), sums)


@wrong("tile-product", "multiplied as rows and columns, without ct.mma")
@ct.kernel
def a_column_of_a_times_a_row_of_b(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE, TILE), ct.float32)
    for k in range(a.shape[1]):
        left = ct.load(a, (i, k), (TILE, 1), padding_mode=ZERO).astype(ct.float32)
        sums = sums + left * ct.load(b, (k, j), (1, TILE), padding_mode=ZERO).astype(ct.float32)
    ct.store(c, (i, j), sums)


@wrong("tile-product", "the blocks don't share the work: one of them loads")
@ct.kernel
def one_block_makes_all_tiles(a, b, c):
    if ct.bid(0) == 0 and ct.bid(1) == 0:
        for i in range(ct.num_blocks(0)):
            for j in range(ct.num_blocks(1)):
                sums = ct.zeros((TILE, TILE), ct.float32)
                for k in range(ct.num_tiles(a, axis=1, shape=(TILE, TILE))):
                    left = ct.load(a, (i, k), (TILE, TILE), padding_mode=ZERO)
                    right = ct.load(b, (k, j), (TILE, TILE), padding_mode=ZERO)
                    sums = ct.mma(left, right, sums)
                ct.store(c, (i, j), sums)
