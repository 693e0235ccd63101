"""What the text of "Thinking in threads" says is what its cells show.

The cells of the solved lecture run once, in this process; each test holds one claim of the text
against what its cell printed or left behind.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import virtualgpu

pytestmark = pytest.mark.rehearsal

TWO_MUONS = np.array([30.0, 12.0])


@pytest.fixture(scope="module")
def shown(shown) -> dict[str, SimpleNamespace]:
    """The cells of the solved lecture: see :func:`lecture_cells.solved`."""
    assert not any("✗" in cell.text for cell in shown.values())
    return shown


@pytest.fixture(scope="module")
def exact(shown) -> float:
    return float(shown["the-question"].names["muon_pt"].sum(dtype=np.float64))


def sums(text: str) -> list[float]:
    """The numbers before GeV."""
    found = re.findall(r"(-?[\d.,]+(?:e[+-]\d+)?) GeV", text)
    return [float(number.replace(",", "")) for number in found]


def test_nearly_all_of_the_momentum_is_missing(shown, exact):
    by_numpy, by_threads = sums(shown["the-question"].text)
    assert by_numpy == round(exact, 1)
    assert by_threads < 0.01 * by_numpy
    assert shown["the-question"].names["muon_pt"].size == 71_009


def test_the_first_loose_thread_reaches_too_far(shown):
    error = shown["guard-missing"].error
    assert isinstance(error, virtualgpu.errors.MemoryAccessError)
    assert error.location.block == (554, 0, 0)
    assert error.location.thread == (97, 0, 0)
    assert "reads pt[71009] of 71009" in str(error)
    assert "30 more threads" in str(error)


def test_every_element_is_visited_once_and_with_the_wrong_stride_twice(shown):
    turn = shown["stride"].names["d_turn"].copy_to_host()
    assert np.flatnonzero(turn[5]).tolist() == [5, 13]
    assert (np.count_nonzero(turn, axis=0) == 1).all()
    times = np.count_nonzero(shown["stride-broken"].names["d_turn"].copy_to_host(), axis=0)
    assert times.tolist() == [1] * 4 + [2] * 16


def test_partial_sums_are_right(shown):
    by_numpy, by_threads = sums(shown["partial-sums"].text)
    assert by_numpy == by_threads


def test_often_thread_0_is_first_but_not_always(shown):
    first = shown["order"].names["first_threads"]
    assert first.count(0) >= 3
    assert len(set(first)) >= 3


def test_the_machine_loses_updates_in_some_orders(shown):
    ended_at = set(shown["machine-replays"].names["ended_at"])
    assert ended_at == {11, 12, 13}


def test_the_race_is_found_in_the_line_that_adds(shown):
    report = shown["race-found"].names["report"]
    assert [finding.kind for finding in report.findings] == ["race"]
    assert report.findings[0].line == report.findings[0].other.line


def test_atomics_are_right_in_every_order_and_float32_differs(shown, exact):
    assert sums(shown["atomic"].text) == [round(exact, 3)] * 3
    rounded = sums(shown["atomic-float32"].text)
    assert len(set(rounded)) == 3
    assert all(0.1 < abs(total - exact) < 100 for total in rounded)
    assert any(abs(total - exact) > 2 for total in rounded)


def test_the_tree_rounds_less_than_the_queue(shown, exact):
    tree, queue, _ = sums(shown["tree-real"].text)
    assert shown["tree-real"].names["launches"] == 17
    assert abs(tree - exact) < abs(queue - exact)


def test_the_tree_of_13_takes_four_launches_and_rounding_down_loses(shown):
    assert [len(level) for level in shown["tree"].names["levels"]] == [13, 7, 4, 2, 1]
    right, wrong = (shown[name].names["levels"][-1][0] for name in ("tree", "tree-broken"))
    assert right == shown["tree"].names["levels"][0].sum()
    assert wrong < right


def test_one_launch_for_all_levels_is_wrong_in_each_order(shown, exact):
    totals = sums(shown["tree-one-launch"].text)
    assert len({*totals, round(exact, 1)}) == 4
    assert "race: " in shown["tree-one-launch"].text


def test_block_sums_take_three_launches(shown, exact):
    assert shown["block-sums"].text.count("→") == 3
    assert sums(shown["block-sums"].text) == [round(exact, 1)]


def test_a_missing_barrier_hides_in_lockstep_and_shows_in_other_orders(shown, exact):
    as_it_comes, *in_orders = sums(shown["barrier-missing"].text)
    assert as_it_comes == float(f"{exact:.7g}")
    assert len(in_orders) == 3
    assert not np.isclose(in_orders, exact, rtol=0.5).any()
    (finding,) = shown["barrier-missing"].names["report"].findings
    assert finding.kind == "race"
    assert finding.line != finding.other.line


def test_threads_that_leave_are_missed_at_both_barriers(shown):
    names = shown["early-return"].names
    kinds = [finding.kind for finding in names["report"].findings]
    assert kinds == ["barrier", "barrier", "uninitialised"]
    assert "127 threads" in shown["early-return"].text
    full, absurd = names["d_sums"].copy_to_host()
    assert np.isclose(full, names["muon_pt"][:128].sum())
    assert abs(absurd) > 1e6


def test_a_divergent_barrier_is_reported_though_the_sum_is_right(shown, exact):
    assert sums(shown["barrier-in-if"].text) == [round(exact, 1)]
    (finding,) = shown["barrier-in-if"].names["report"].findings
    assert finding.kind == "barrier"
    assert "64 threads" in finding.message


def test_all_in_one_is_right_and_clean(shown):
    assert "no findings: True" in shown["together"].text
    assert len(set(sums(shown["together"].text))) == 1


def test_the_counts_are_those_that_the_text_names(shown):
    rows = [line.split()[-3:] for line in shown["count"].text.splitlines()[1:]]
    launches, atomics, traffic = (
        [int(row[column].replace(",", "")) for row in rows] for column in range(3)
    )
    assert launches == [1, 17, 1]
    assert atomics == [71_009, 0, 32]
    assert traffic[2] == min(traffic)
    assert traffic[2] - 71.009 * 4 < 2  # kB: hardly more than each muon read once


def test_two_threads_lose_an_update_in_the_picture(shown):
    cell = shown["race-replayed"]
    told = str(cell.names["gpucourse"].race(cell.names["add_all"], 2, 1, TWO_MUONS, np.zeros(1)))
    assert "a race" in told
    assert "that update is lost" in told
