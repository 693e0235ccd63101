"""The card of a launch over tiles: its counts in words, and which block reached which tile."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import virtualgpu
from gpucourse import report
from gpucourse.views.launch import card, tiles

if sys.platform != "linux":
    pytest.skip("cuTile comes for Linux alone", allow_module_level=True)


@pytest.fixture(scope="module")
def products():
    """Two launches of one product: 24 × 32 by 32 × 16, in tiles of 16 × 16."""
    virtualgpu.activate()
    import cuda.tile as ct
    import cupy as cp

    import tile_products

    with virtualgpu.profile() as profile:
        for _ in range(2):
            ct.launch(
                cp.cuda.get_current_stream(),
                (2, 1),
                tile_products.product,
                (
                    cp.ones((24, 32), np.float16),
                    cp.ones((32, 16), np.float16),
                    cp.zeros((24, 16), np.float32),
                ),
            )
    return profile.launches


def shown(*launches):
    return card.cards([card.from_profile(one, []) for one in launches], card.MOST_CARDS)


def test_a_card_tells_tiles_bytes_sectors_and_redundancy(products):
    text = " ".join(shown(products[0]).text.split())
    assert text.startswith("product[2] 2 blocks ")
    assert "loads 4 tiles of 16 × 16 of an array of 24 × 32" in text
    # 24 × 32 halves once, 32 × 16 twice: 3.6 kB by two blocks; 1,536 + 1,024 different ones
    assert "✓ loads 3.6 kB loaded, at most 2 kB by one block, in 112 sectors of 32 bytes" in text
    assert "✓ stores 1.5 kB stored, at most 1 kB by one block, in 48 sectors" in text
    assert "· redundancy each byte that was loaded was loaded 1.4 times on average" in text
    assert "thread" not in text and "warp" not in text


def test_it_draws_which_block_reaches_which_tile(products):
    markup, text = tiles.picture(products[0])
    left, right, store = text.splitlines()
    assert left.endswith(
        "(0, 0) by block 0; (0, 16) by block 0; (16, 0) by block 1; (16, 16) by block 1."
    )
    assert right.endswith("(0, 0) by blocks 0, 1; (16, 0) by blocks 0, 1.")
    assert store.endswith("(0, 0) by block 0; (16, 0) by block 1.")
    assert markup in shown(products[0]).markup
    assert markup.startswith("<svg") and 'role="img"' in markup and "(0, 16) by block 0" in markup


def test_report_launches_on_copies(products, monkeypatch):
    import cupy as cp

    import tile_products

    out = cp.zeros((24, 16), np.float32)
    given = (cp.ones((24, 32), np.float16), np.ones((32, 16), np.float16), out)
    assert str(report(tile_products.product, 2, 1, *given)) == shown(products[0]).text
    assert not out.get().any()
    with pytest.raises(TypeError, match="the block of a kernel over tiles must be 1"):
        report(tile_products.product, 2, 32, *given)
    monkeypatch.setattr(virtualgpu, "answers", lambda: False)  # a real GPU
    assert "only on the virtual GPU" in str(report(tile_products.product, 2, 1, *given))


def test_launches_that_are_alike_share_a_card(products):
    assert "2 launches in this cell" in shown(*products).text


def test_narrow_tiles_are_costly():
    import cuda.tile as ct
    import cupy as cp

    import tile_products

    with virtualgpu.profile() as profile:
        ct.launch(
            cp.cuda.get_current_stream(),
            (1, 8),
            tile_products.columns,
            (cp.ones((64, 8), np.float32), cp.zeros((64, 8), np.float32)),
        )
    told = {one.topic: one for one in tiles.remarks(profile.launches[0])}
    assert told["loads"].sign == "!" and told["loads"].text.endswith(
        "in 512 sectors of 32 bytes; 64 would do"
    )
    assert told["redundancy"].sign == "✓"
