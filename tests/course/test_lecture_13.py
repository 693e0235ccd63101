"""What the text of "Scan" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytestmark = pytest.mark.rehearsal


def test_tickets_give_the_right_ones_in_another_order(shown):
    lines = shown["the-question"].text.splitlines()
    assert all("right ones: True, in their order: False" in line for line in lines)
    assert len({re.search(r"\[.*\]", line)[0] for line in lines}) == len(lines)
    assert shown["the-question"].names["gusts"].size == 71_009


def test_with_one_barrier_sums_differ_and_the_checker_says_why(shown):
    text = shown["one-barrier"].text
    assert set(re.findall(r"128 ones is (\d+)", text)) != {"128"}
    assert "race" in text and "into a local variable" in text


def test_steps_and_additions(shown):
    steps = [2**k for k in range(7)]
    assert steps[-1] * 2 == 128 and sum(128 - step for step in steps) == 769
    levels = shown["block"].names["levels"]
    np.testing.assert_array_equal(levels[-1], np.cumsum(levels[0]))


def test_three_levels_for_a_million_and_five_for_two_thousand_million(shown):
    assert len(shown["grid"].text.splitlines()) == 3
    assert 128**4 < 2_000_000_000 < 128**5


def test_about_four_times_the_array_moves(shown):
    times = float(re.search(r"([\d.]+) times the size", shown["traffic"].text)[1])
    assert times == pytest.approx(4.2, abs=0.2)


def test_libraries_and_every_order_agree(shown):
    assert "False" not in shown["libraries"].text + shown["compact-orders"].text
    so_far = shown["libraries"].text.splitlines()[-1]
    assert len(set(re.findall(r"\d+\.\d", so_far))) > 1


def test_lanes_without_a_neighbour_are_pale_in_the_first_warp_alone(shown):
    names = shown["block-picture"].names
    arrays = np.arange(128), np.zeros(128, np.int64), np.zeros(1, np.int64)
    told = str(names["gpucourse"].timeline(names["scan_blocks"], 1, 128, *arrays))
    masked = [int(steps) for steps in re.findall(r"in (\d+) of them some of its lanes", told)]
    assert masked[:3] == [5, 0, 0]  # distances 1 to 16; then whole warps have none
    assert masked[3] > 0
