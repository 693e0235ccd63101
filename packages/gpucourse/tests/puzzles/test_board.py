"""The board: two winners, a GPU's time only, and the last question where they part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucourse.course.puzzles import Answer, Puzzle
from gpucourse.puzzles import board
from gpucourse.puzzles.board import Entry

PUZZLE = Puzzle(
    name="add",
    title="Add",
    text="",
    spec="out = a + 1",
    hints=("a", "b"),
    question="?",
    kernel="@cuda.jit\ndef add(a, out):\n    out[0] = a[0] + 1",
    choices=("x", "y"),
    right="x",
    reasons={"y": "no"},
    why="",
    last="What else?",
    wrong=(Answer(says="x"),),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "puzzles.json"


def test_the_fewest_bytes_stay_and_more_do_not_take_their_place(path: Path):
    board.enter("l/add", Entry("first", 100), path)
    board.enter("l/add", Entry("second", 200), path)
    assert board.read(path)["l/add"].fewest.code == "first"
    board.enter("l/add", Entry("third", 50), path)
    assert board.read(path)["l/add"].fewest.code == "third"


def test_the_shortest_time_is_a_winner_of_its_own_and_then_the_board_asks_why(path: Path):
    board.enter("l/add", Entry("few bytes", 100, 2.0, "A GPU"), path)
    winners = board.enter("l/add", Entry("quick", 150, 1.0, "A GPU"), path)
    assert (winners.fewest.code, winners.shortest.code) == ("few bytes", "quick")
    assert "Why? What else?" in board.parting(PUZZLE, winners)
    one = board.enter("l/add", Entry("both", 50, 0.5, "A GPU"), path)
    assert one.fewest == one.shortest and board.parting(PUZZLE, one) == ""


@pytest.mark.parametrize(
    "entry", [Entry("x", 10, 0.001, None), Entry("x", 10, None, "A GPU"), Entry("x", 10, 0.001, "")]
)
def test_a_time_without_a_gpu_is_no_time(path: Path, entry: Entry):
    assert board.enter("l/add", entry, path).shortest is None
    assert board.enter("l/add", Entry("y", 20, 1.0, "A GPU"), path).shortest.code == "y"
    assert board.enter("l/add", entry, path).shortest.code == "y"


def test_another_gpu_begins_anew(path: Path):
    board.enter("l/add", Entry("x", 10, 1.0, "A GPU"), path)
    assert board.enter("l/add", Entry("y", 10, 3.0, "Another GPU"), path).shortest.code == "y"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"l/add": 3}',
        '{"l/add": {"fewest": {}}}',
        '{"l/add": {"fewest": {"code": 1, "bytes": 2}}}',
    ],
)
def test_a_file_that_cannot_be_read_counts_for_nothing(path: Path, text: str):
    path.write_text(text)
    assert board.read(path) == {}
    assert board.enter("l/add", Entry("x", 10), path).fewest.bytes == 10


def test_a_folder_that_cannot_be_written_stops_no_check(tmp_path: Path):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "puzzles.json"
    assert board.enter("l/add", Entry("x", 10), place).fewest.code == "x"


def test_the_board_has_a_column_of_times_only_where_one_was_measured(monkeypatch, path: Path):
    monkeypatch.setattr(board, "place", lambda: path)
    board.enter("l/add", Entry("x", 1234), path, ours=1000)
    without = board.view("l", [PUZZLE])
    assert "1 of 1 solved" in without.text and "1,234 (ours 1,000)" in without.text
    assert " ms" not in without.text and without.markup.count("<th>") == 2
    assert json.loads(path.read_text())["l/add"]["shortest"] is None
    board.enter("l/add", Entry("y", 20_000, 1.5, "A GPU"), path)
    timed = board.view("l", [PUZZLE])
    assert (
        "1.5 ms, A GPU  why are these two kernels?" in timed.text
        and timed.markup.count("<th>") == 4
    )


def test_the_solution_s_bytes_stay_where_a_check_does_not_count_them(monkeypatch, path: Path):
    monkeypatch.setattr(board, "place", lambda: path)
    board.enter("l/add", Entry("x", 1234), ours=1000)
    board.enter("l/add", Entry("y", 1200))
    assert "1,200 (ours 1,000)" in board.view("l", [PUZZLE]).text
    path.write_text(path.read_text().replace('"ours": 1000', '"ours": "many"'))
    assert "ours" not in board.view("l", [PUZZLE]).text
