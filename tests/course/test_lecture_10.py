"""What the text of "Jagged data" says is what its cells show."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import awkward as ak
import numpy as np
import pytest

from gpucourse.course.registry import load_course
from gpucourse.data import Z_MASS, dimuons, opendata
from gpucourse.publish.source.reader import read_source
from lecture_cells import solved, without_gpu

pytestmark = pytest.mark.rehearsal

ID = "10_awkward_and_the_z"


@pytest.fixture(scope="module")
def shown(repository):
    without_gpu()
    return solved(repository, ID)


def numbers(text: str) -> list[int]:
    """The whole numbers with thousands' commas that stand in a text."""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


def test_a_rectangle_would_be_four_fifths_empty(shown):
    names = shown["the-question"].names
    assert (names["places"], int(names["events_with"] @ range(8))) == (350_000, 71_009)
    assert names["events_with"][0] == 11_133  # of them section 3 speaks
    assert 1 - 71_009 / 350_000 == pytest.approx(0.8, abs=0.005)


def test_a_branch_costs_its_own_bytes_and_a_basket_is_read_whole(shown):
    everything, pt, hundred = (
        numbers(line.split(":")[1])[0] for line in shown["what-is-read"].text.splitlines()
    )
    assert pt == hundred == 345_918
    (of_the_branch,) = (
        numbers(line) for line in shown["branches"].text.splitlines() if "Muon_pt" in line
    )
    assert of_the_branch[0] == pt and of_the_branch[-1] == 1  # compressed bytes, one basket
    assert everything > 3 * pt


def test_sixteen_bytes_for_each_muon_and_eight_for_each_event(shown):
    muons = shown["layout"].names["muons"]
    assert muons.nbytes == 16 * 71_009 + 8 * 50_001


def test_a_slice_keeps_the_content_and_a_cut_grows(shown):
    names = shown["views"].names
    muons, hard, packed = (names[name] for name in ("muons", "hard", "packed"))
    part = muons[1000:2000]
    assert part.nbytes == 16 * 71_009 + 8 * 1_001
    assert np.shares_memory(part.layout.offsets.data, muons.layout.offsets.data)
    assert part.layout.offsets.data[0] == 1460
    assert ak.count(hard.pt) == 22_843
    assert packed.nbytes < muons.nbytes < hard.nbytes
    assert "IndexedArray" in shown["views"].text


def test_masks_of_muons_keep_events_and_masks_of_events_do_not(shown):
    names = shown["masks"].names
    assert len(names["hard"]) == len(names["muons"]) == 50_000
    assert len(names["pairs_at_least"]) == 23_319
    assert "None" in shown["masks"].text.splitlines()[-1]


def test_the_errors_are_the_ones_explained(shown):
    assert "index out of range while attempting to get index 0" in str(shown["first-of-none"].error)
    assert "incompatible backends" in str(shown["mixing"].error)
    assert str(shown["no-extension"].error).startswith("(ak.ArrayView(")


def test_seven_muons_make_21_pairs(shown):
    assert numbers(shown["combinations"].text.splitlines()[-1]) == [71_009, 42_848, 21, 0]


def test_float32_costs_tens_of_mev(shown):
    (error,) = re.findall(r"off by (\d+) MeV", shown["vector"].text)
    assert 20 < int(error) < 500


def test_the_peaks_are_where_the_text_says(shown):
    counts = shown["spectrum"].names["all_pairs"].values()
    peaks = [low + int(counts[low:high].argmax()) for low, high in ((2, 6), (6, 20), (60, 120))]
    assert peaks == [3, 9, 91]


def test_the_device_gives_the_same_masses_in_a_hundred_kernels(shown):
    assert shown["device"].text.endswith("the same as before: True\n")
    names = shown["launches"].names
    assert 90 < names["kernels"] < 150
    held = names["d_muons"].nbytes + names["d_masses"].nbytes
    assert 15 < names["moved"] / held < 25


def test_kernel_and_arrays_agree_but_for_the_lightest_pairs(shown):
    names = shown["by-arrays"].names
    assert len(names["by_arrays"]) == names["by_kernel"].size == 19_168
    assert names["difference"].max() < 0.3
    assert names["by_kernel"][names["difference"] > 0.02].max() < 10


def test_the_kernel_moves_a_sixth_of_what_the_arrays_move(shown):
    names = shown["traffic"].names
    least = (names["d_muons"].nbytes + names["d_hardest"].nbytes) / 1e6
    assert least == pytest.approx(1.9, abs=0.05)
    assert names["kernel_moved"] / least == pytest.approx(2.7, abs=0.1)
    assert 5.5 < names["moved"] / 1e6 / names["kernel_moved"] < 6.5
    assert 90 < names["kernels"] < 150


def test_a_warp_waits_for_its_longest_event(shown):
    names = shown["turns"].names
    assert names["turns"].mean() == pytest.approx(3.7, abs=0.05)
    assert names["kernel_lost"] == pytest.approx(0.54, abs=0.05)
    with_three = (names["per_warp"] >= 3).any(axis=1).mean()
    assert with_three > 0.95  # 32 events seldom lack one


def test_alike_events_lose_fewer_lanes_and_packing_keeps_neighbours(shown):
    names = shown["alike"].names
    assert names["same"]
    assert names["alike_lost"] < 0.2 < names["kernel_lost"]
    unpacked = ak.to_backend(names["muons"][names["order"]], "cuda")
    moved, _ = names["counted"](unpacked)
    assert moved > 1.4 * names["alike_moved"]


def test_two_passes_make_what_awkward_makes(shown):
    assert shown["fill-exercise"].text.endswith("as Awkward makes it: True\n")
    assert shown["offsets"].names["room"] == 22_843


def test_the_two_hardest_keep_the_z(shown):
    near = shown["the-peak"].names["near_z"]
    assert 0.97 < near["two hardest"] / near["all pairs"] < 1
    everywhere = shown["the-peak"].names
    assert everywhere["by_two_hardest"].sum() < 0.7 * everywhere["all_pairs"].sum()


def test_the_real_events_are_drawn_where_there_is_a_network(shown, repository, monkeypatch, capsys):
    """With toy events in their place, and then without: these tests have no network."""
    course = load_course(repository)
    cells = {cell.name: cell for cell in read_source(course, course.lesson(ID)).cells}
    names = dict(shown["the-peak"].names)
    monkeypatch.setattr(opendata, "first", lambda count: dimuons(20_000, seed=2))
    exec(cells["real"].source, names)
    simulated, real = capsys.readouterr().out.splitlines()
    for line in (simulated, real):
        top, error, _, _ = (float(number) for number in re.findall(r"\d+\.\d+", line))
        assert abs(top - Z_MASS) < 4 * error < 0.5
    monkeypatch.undo()
    nowhere = replace(opendata.FILE, url="http://127.0.0.1:9/none")
    monkeypatch.setattr(opendata, "first", partial(opendata.first, file=nowhere))
    exec(cells["real"].source, names)
    assert re.match("No real Z today. Cannot reach.*\n.*\n.*\nsimulated Z", capsys.readouterr().out)
