"""What the text of "Thinking in threads" says is what its cells show.

The cells of the solved lecture run once, in this process; each test holds one claim of the text
against what its cell printed or left behind.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import virtualgpu
from lecture_cells import solved

pytestmark = pytest.mark.slow

ID = "06_thinking_in_threads"
TWO_MUONS = np.array([30.0, 12.0])


@pytest.fixture(scope="module")
def shown(repository: Path) -> dict[str, SimpleNamespace]:
    """The cells of the solved lecture: see :func:`lecture_cells.solved`."""
    cells = solved(repository, ID)
    assert not any("✗" in cell.text for cell in cells.values())
    return cells


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


def test_warps_of_one_mind_take_fewer_instructions(shown):
    rows = [line.split() for line in shown["branches"].text.splitlines()[1:]]
    run, divergent, instructions = (
        np.array([int(row[column].replace(",", "")) for row in rows]) for column in range(3)
    )
    assert (divergent[run < 32] == 128).all()
    assert (divergent[run >= 32] == 0).all()
    assert instructions[run < 32].min() > instructions[run >= 32].max()
    assert [row[3] for row in rows[3:]] == ["0%", "0%"]


def test_sorting_saves_what_divergence_costs(shown):
    text = shown["sorted"].text
    assert text.count("same sums: True") == 2
    pairs = re.findall(r"\((\d+), (\d+)\)", text)
    (useful, recorded), (_, by_length) = (map(int, pair) for pair in pairs)
    assert recorded > 2 * useful
    assert by_length < 1.01 * useful
    turns = shown["sorted"].names["turns"][26_656:26_720]
    assert set(turns) == {1, 2}
    assert shown["divergence"].names["muons_per_event"].max() == 7


def test_two_threads_lose_an_update_in_the_picture(shown):
    cell = shown["race-replayed"]
    told = str(cell.names["gpucourse"].race(cell.names["add_all"], 2, 1, TWO_MUONS, np.zeros(1)))
    assert "a race" in told
    assert "that update is lost" in told


def test_a_short_if_parts_no_lanes(shown):
    text = shown["short-if"].text
    assert "divergent branches: 0\n" in text
    assert "selp.f64" in text


def test_shares_move_eight_times_the_sectors(shown):
    rows = [line.split() for line in shown["shares"].text.splitlines()[1:]]
    side_by_side, shares = (int(row[2].replace(",", "")) for row in rows)
    assert shares == 71_009  # one for each muon
    assert 7.9 < shares / side_by_side < 8
    for row in rows:
        assert abs(int(row[3].replace(",", "")) - 8_877) < 20


def test_rows_move_four_times_the_sectors_of_a_column(shown):
    by_rows, by_columns = re.findall(r"([\d,]+) sectors, ([\d,.]+) GeV", shown["records"].text)
    assert by_rows[1] == by_columns[1]
    assert round(int(by_rows[0].replace(",", "")) / int(by_columns[0].replace(",", "")), 2) == 3.99


def test_only_neighbours_have_bank_conflicts(shown):
    rows = [line.split() for line in shown["banks-counts"].text.splitlines()[1:]]
    assert [row[0] for row in rows] == ["fold_halves", "fold_neighbours"]
    assert rows[0][1] == rows[0][2] == rows[1][1]
    assert rows[0][3] == "0"
    assert int(rows[1][2].replace(",", "")) > 2 * int(rows[1][1].replace(",", ""))
    names = shown["banks-counts"].names
    told = str(names["gpucourse"].memory(
        names["fold_neighbours"], 1, 128, names["some"], np.zeros(1, np.float32), array="shared",
        steps=10,
    ))
    assert told.count("2 turns") == 6  # both warps: two loads and a store of the first level
    assert "4 turns" in told


def test_33_columns_spread_a_column_over_all_banks(shown):
    narrow, wide = (re.findall(r"\d+", line)[2:] for line in shown["padding"].text.splitlines())
    assert set(narrow) == {"3"}
    assert len(narrow) == len(wide) == len(set(wide)) == 32


def test_the_plain_turn_scatters_its_writes(shown):
    names = shown["turn-plain"].names
    told = str(names["gpucourse"].memory(
        names["turn_plainly"], (2, 2), (32, 32), names["where"], np.zeros((64, 40), np.float32),
        array="turned",
    ))
    assert "32 sectors touched" in told


def test_a_warp_folds_in_five_shuffles_into_lane_0(shown):
    levels = shown["shuffle"].names["levels"]
    assert [len(level) for level in levels] == [32, 16, 8, 4, 2, 1]
    assert levels[-1][0] == levels[0].sum()
    seen = shown["shuffle"].names["d_seen"].copy_to_host()
    assert (seen[1, 16:] == 2 * seen[0, 16:]).all()  # beyond the end: one's own value


def test_shuffles_need_no_barriers_and_no_shared_memory(shown):
    rows = [line.split() for line in shown["shuffle-real"].text.splitlines()[1:]]
    numbers = np.array([[int(word.replace(",", "")) for word in row[1:]] for row in rows])
    barriers, shared, instructions, atomics = numbers.T
    assert (barriers[1], shared[1]) == (0, 0)
    assert min(barriers[0], shared[0]) > 0
    assert 1 < instructions[1] / instructions[0] < 1.2
    assert atomics[1] == 4 * atomics[0] == 128


def test_a_shuffle_inside_the_guard_is_wrong_only_where_a_warp_is_not_full(shown):
    whole, part = re.findall(r"muons: (\S+) GeV, should be (\S+)", shown["shuffle-broken"].text)
    assert whole[0] == whole[1]
    assert not np.isfinite(float(part[0]))


def test_the_assembler_tells_the_registers_and_the_shared_memory(shown):
    names = shown["registers"].names
    taken = {kernel.py_func.__name__: names["assembled"](kernel) for kernel in names["kernels"]}
    assert taken["sum_all"][1] == 128 * 8
    assert taken["sum_by_warps"][1] == taken["add_all_atomic"][1] == 0
    assert all(4 <= registers <= 64 for registers, _ in taken.values())


def test_occupancy_is_what_the_text_says(shown):
    fit = shown["occupancy-exercise"].names["resident_warps"]
    evenly = (64, 128, 256, 512, 1024)
    assert all(fit(n, registers, 0) == 64 for n in evenly for registers in (16, 24, 32))
    assert fit(32, 32, 0) == 32
    assert max(fit(int(n), 128, 0) for n in range(32, 1025, 32)) == 16
    assert [fit(n, 128, 0) for n in (512, 544)] == [16, 0]
