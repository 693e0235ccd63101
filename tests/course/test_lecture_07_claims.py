"""What the text of "Trees and barriers" says is what its cells show.

The cells of the solved lecture run once, in this process; each test holds one claim of the text
against what its cell printed or left behind.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from lecture_cells import sums

pytestmark = pytest.mark.rehearsal


@pytest.fixture(scope="module")
def shown(shown) -> dict[str, SimpleNamespace]:
    """The cells of the solved lecture: see :func:`lecture_cells.solved`."""
    assert not any("✗" in cell.text for cell in shown.values())
    return shown


@pytest.fixture(scope="module")
def exact(shown) -> float:
    return float(shown["the-question"].names["muon_pt"].sum(dtype=np.float64))


def test_the_queue_is_one_update_for_each_muon(shown, exact):
    assert sums(shown["the-question"].text) == [round(exact, 1)]
    assert "by 71,009 atomics at one address" in shown["the-question"].text


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
