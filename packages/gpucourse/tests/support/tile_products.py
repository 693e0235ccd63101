"""Kernels of cuTile to see: a product by tiles, and a copy column by column."""

from __future__ import annotations

import cuda.tile as ct

SIDE = 16


@ct.kernel
def product(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    sums = ct.zeros((SIDE, SIDE), ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(SIDE, SIDE))):
        left = ct.load(a, (i, k), (SIDE, SIDE), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (SIDE, SIDE), padding_mode=ct.PaddingMode.ZERO)
        sums = ct.mma(left, right, sums)
    ct.store(c, (i, j), sums.astype(c.dtype))


@ct.kernel
def columns(x, out):
    j = ct.bid(1)
    ct.store(out, (0, j), ct.load(x, (0, j), (64, 1)))
