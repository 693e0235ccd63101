"""What the text of "Thinking in warps" says is what its cells show."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytestmark = pytest.mark.rehearsal


def test_the_first_kernel_is_right_and_half_of_it_in_vain(shown):
    text = shown["the-question"].text
    assert "right: True" in text
    worked, used = (int(share) for share in re.findall(r"(\d+)%", text))
    assert 50 < worked < 60
    assert 30 < used < 45


def test_the_same_kernel_on_other_places_is_of_more_use(shown):
    text = shown["mended"].text
    assert "the same sums: True" in text
    before, after = (
        np.array([int(share) for share in re.findall(r"(\d+)%", line)])
        for line in text.splitlines()[1:]
    )
    assert (after > 1.5 * before).all()


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
    assert shown["the-question"].names["muons_per_event"].max() == 7


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
    told = str(
        names["gpucourse"].memory(
            names["fold_neighbours"],
            1,
            128,
            names["some"],
            np.zeros(1, np.float32),
            array="shared",
            steps=10,
        )
    )
    assert told.count("2 wavefronts") == 6  # both warps: two loads and a store of the first level
    assert "4 wavefronts" in told


def test_33_columns_spread_a_column_over_all_banks(shown):
    narrow, wide = (re.findall(r"\d+", line)[2:] for line in shown["padding"].text.splitlines())
    assert set(narrow) == {"3"}
    assert len(narrow) == len(wide) == len(set(wide)) == 32


def test_the_plain_turn_scatters_its_writes(shown):
    names = shown["turn-plain"].names
    told = str(
        names["gpucourse"].memory(
            names["turn_plainly"],
            (2, 2),
            (32, 32),
            names["where"],
            np.zeros((64, 40), np.float32),
            array="turned",
        )
    )
    assert "32 sectors touched" in told


def test_without_a_guard_row_40_is_read(shown):
    error = shown["turn-unguarded"].error
    assert (error.location.block, error.location.thread) == ((0, 1, 0), (0, 8, 0))


def test_a_warp_folds_in_five_shuffles_into_lane_0(shown):
    levels = shown["shuffle"].names["levels"]
    assert [len(level) for level in levels] == [32, 16, 8, 4, 2, 1]
    assert levels[-1][0] == levels[0].sum()
    seen = shown["shuffle"].names["d_seen"].copy_to_host()
    assert (seen[1, 16:] == 2 * seen[0, 16:]).all()  # beyond the end: one's own value


def test_shuffles_need_no_barriers_and_no_shared_memory(shown):
    rows = [line.split() for line in shown["shuffle-counts"].text.splitlines()[1:]]
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
    assert taken["sum_by_warps"][1] == taken["sums_by_event"][1] == 0
    assert all(4 <= registers <= 64 for registers, _ in taken.values())


def test_occupancy_is_what_the_text_says(shown):
    fit = shown["occupancy-exercise"].names["resident_warps"]
    evenly = (64, 128, 256, 512, 1024)
    assert all(fit(n, registers, 0) == 64 for n in evenly for registers in (16, 24, 32))
    assert fit(32, 32, 0) == 32
    assert max(fit(int(n), 128, 0) for n in range(32, 1025, 32)) == 16
    assert [fit(n, 128, 0) for n in (512, 544)] == [16, 0]


def test_tiles_load_a_sixteenth_and_sectors_fall_by_eight(shown):
    naive, tiled = (shown["matmul-tiled"].names[name].counters for name in ("naive", "tiled"))
    assert naive.global_loads == 2 * 96**3 == 16 * tiled.global_loads
    assert naive.global_load_sectors == 8 * tiled.global_load_sectors
    assert naive.flops == tiled.flops
    assert "NumPy agrees: True" in shown["matmul-tiled"].text


def test_without_the_second_barrier_the_answer_depends_on_the_order(shown):
    as_it_comes, in_another_order = shown["barrier-missing"].text.splitlines()[:2]
    assert as_it_comes.endswith("True")
    assert in_another_order.endswith("False")
    assert {finding.kind for finding in shown["barrier-missing"].names["report"].findings} == {
        "race"
    }
