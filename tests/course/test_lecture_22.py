"""What the text of "Programming in blocks" says is what its cells show; other right ones pass."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from wrong_answers import answers_of

WRONG = answers_of("22_blocks")

pytestmark = pytest.mark.rehearsal


def test_threads_and_blocks_agree_and_the_text_runs_once(shown):
    assert shown["the-question"].text == "the same to the bit: True\n"
    assert shown["traced"].text == "the text ran 1 time(s)\n"


def test_beyond_the_end_stands_nan_and_a_mask_keeps_it_out(shown):
    first, last = (
        re.findall(r"nan|[\d.]+", shown[cell].text) for cell in ("edge", "edge-exercise")
    )
    assert [one == "nan" for one in first] == [False, False, False, True]
    assert len(last) == 4 and "nan" not in last


def test_an_index_map_with_too_few_numbers_is_refused_by_counts(shown):
    assert re.search(
        r"must return 2 values.*returning 1 values", str(shown["index-map"].error), re.DOTALL
    )


def test_four_times_the_side_reads_a_quarter(shown):
    rows = re.findall(
        r"tiles of +(\d+): +([\d,]+) programs read +([\d,]+) bytes each", shown["traffic"].text
    )
    (_, programs, each), *_ = rows
    read = {int(tile): int(p.replace(",", "")) * int(e.replace(",", "")) for tile, p, e in rows}
    assert read[16] == 4 * read[64] == read[1] / 16
    assert programs == "1,048,576" and each == "8,192"
    assert 4 * 64 * 1024 == 262_144 > 227 * 1024


def test_cutile_agrees_and_check_tells_of_the_missing_mask(shown):
    text = shown["cutile"].text
    assert text.startswith("the same to the bit: True\n")
    assert re.search(
        r"block 3 loads element 1000, outside of the array of shape \(1000,\), where "
        r"no padding was asked for",
        text,
    )


def test_the_card_tells_of_the_tiles_that_three_blocks_load(shown):
    import cupy as cp

    assert shown["tile-report"].picture
    names = shown["tile-report"].names
    card = str(
        names["report"](
            names["tile_product"],
            (3, 3),
            1,
            cp.ones((40, 32), np.float16),
            cp.ones((32, 48), np.float16),
            cp.zeros((40, 48), np.float32),
        )
    )
    text = " ".join(card.split())
    assert text.startswith("tile_product[(3, 3)] 9 blocks in a grid of 3 × 3")
    assert "(0, 0) by blocks (0, 0), (0, 1), (0, 2);" in text  # of a: a row of tiles of c
    assert "(0, 0) by blocks (0, 0), (1, 0), (2, 0);" in text  # of b: a column


def test_the_chain_is_that_of_xla(shown):
    assert "False" not in shown["chain"].text


def test_float32_and_tf32_stand_side_by_side(shown):
    rows = dict(re.findall(r"^(\S.*?) +element \(1, 28\) (\S+) +largest", shown["tf32"].text, re.M))
    assert (rows["float32"], rows["TF32"]) == ("8.82851", "8.81895")
    assert rows["your kernel"] == rows["float32"]  # where there is no tensor core


def test_what_half_the_bits_do(shown):
    *values, _, _, _ = kinds = shown["half"].text.splitlines()
    assert values == ["2048 + 1 = 2048", "300 * 300 = inf", "1e-8 = 0"]
    assert [int(n) for n in re.findall(r"(\d+) of them", "".join(kinds))] == [11, 8, 24]
    assert float(jnp.bfloat16(257)) == 256 and float(jnp.float16(2050)) == 2050
    assert float(jnp.float16(6e-8)) > 0 == float(jnp.float16(2.9e-8))


def test_the_sum_spoils_the_result_and_the_inputs_errors_cancel(shown):
    errors = shown["sums"].names["errors"]
    kept, mixed = errors["float16, sum in float16"], errors["float16, sum in float32"]
    assert kept[-1] > 0.5 and mixed[-1] < 1e-4 < kept[-1]
    assert mixed[-1] < mixed[0] / 5
    assert errors["bfloat16, sum in float32"][-1] > 2 * mixed[-1] > errors["float32"][-1]


def as_tf32(x):
    """float32 rounded to the 11 bits that a tensor core takes."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return jax.lax.bitcast_convert_type(rounded, jnp.float32)


def cut_off(x):
    """float32 without its last two bits, as coarse as sums of a tensor core may be."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    return jax.lax.bitcast_convert_type(bits & np.uint32(0xFFFFFFFC), jnp.float32)


def test_what_a_tensor_core_makes_is_right(lesson):
    """An H200 refused the lesson's own kernels: it gave 8.81895 for 8.82851."""
    by_tf32 = WRONG.walking(dot=lambda a, b: jnp.dot(as_tf32(a), as_tf32(b)))
    outcome = lesson.outcome("product", by_tf32)
    assert outcome.passed, outcome
    with_coarse_sums = WRONG.walking(dot=lambda a, b: cut_off(WRONG.in_float32(a, b)))
    assert lesson.outcome("mixed", with_coarse_sums).passed
    random = np.random.default_rng(163)
    a, b = (random.normal(0, 1, shape).astype(np.float32) for shape in ((32, 48), (48, 32)))
    right, measured = (a.astype(float) @ b)[1, 28], (as_tf32(a) @ as_tf32(b))[1, 28]
    assert (f"{right:.6g}", f"{measured:.6g}") == ("8.82851", "8.81895")


def test_other_right_answers_are_accepted(lesson):
    def unrolled(a_ref, b_ref, c_ref):
        c_ref[...] = jnp.zeros_like(c_ref)
        for k in range(0, a_ref.shape[1], WRONG.TILE):
            c_ref[...] += jnp.dot(a_ref[:, k : k + WRONG.TILE], b_ref[k : k + WRONG.TILE, :])

    def by_logarithms(scores_ref, out_ref, *, kinds):
        exists = jnp.arange(scores_ref.shape[1]) < kinds
        scores = jnp.where(exists, scores_ref[...], -jnp.inf)
        largest = scores.max(axis=1, keepdims=True)
        total = jnp.log(jnp.exp(scores - largest).sum(axis=1, keepdims=True))
        out_ref[...] = jnp.exp(scores - largest - total)

    def sum_where(x_ref, sum_ref, *, n):
        left = n - pl.program_id(0) * x_ref.shape[0]
        sum_ref[...] = jnp.sum(x_ref[...], where=jnp.arange(x_ref.shape[0]) < left)[None]

    def to_the_edge(values):
        largest = np.abs(values).max()
        factor = 2.0 ** np.ceil(np.log2(largest / 65504)) if largest else 1
        return np.float16(values / factor), factor

    for name, answer in (
        ("product", unrolled),
        ("softmax", by_logarithms),
        ("masked-sum", sum_where),
        ("mixed", WRONG.walking(jnp.float32, WRONG.in_float32)),
        ("to-half", to_the_edge),
    ):
        outcome = lesson.outcome(name, answer)
        assert outcome.passed, f"{name}: {outcome}"
