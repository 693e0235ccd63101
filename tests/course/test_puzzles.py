"""The puzzles: right answers in other styles pass, all have pictures, and races replay."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import load_course
from gpucourse.puzzles import clock, judge, shelf
from gpucourse.puzzles.picture import draw_spec
from lecture_cells import outcome
from puzzle_answers import right_answers
from virtualgpu import errors

COURSE = load_course(REPOSITORY)
PUZZLES = {
    (lecture.id, name): puzzle
    for lecture in COURSE.lectures
    for name, puzzle in COURSE.puzzles(lecture).items()
}
LESSONS = list(dict.fromkeys(lesson for lesson, _ in PUZZLES))


def in_other_styles() -> list:
    """(lesson, puzzle, kernel): one to each third puzzle for `make test`, the others rehearsed."""
    untried = list(PUZZLES)[::3]
    found = []
    for lesson in LESSONS:
        for case in right_answers(str(REPOSITORY / f"course/lectures/{lesson}/wrong.py")):
            key = (lesson, case.values[0])
            marks = [pytest.mark.rehearsal]
            if key in untried:
                untried.remove(key)
                marks = []
            found.append(
                pytest.param(lesson, *case.values, id=f"{lesson[:2]}:{case.id}", marks=marks)
            )
    return found


BROKEN = [key for key, puzzle in PUZZLES.items() if puzzle.broken]
each = pytest.mark.parametrize("key", PUZZLES, ids="/".join)


@pytest.mark.slow
@pytest.mark.parametrize(("lesson", "name", "kernel"), in_other_styles())
def test_right_answers_in_other_styles_are_accepted(lesson, name, kernel):
    heard = outcome(lesson, name, (kernel,))
    assert heard.passed, f"{heard.message}\n{heard.look}"


@each
def test_a_puzzle_is_tried_in_more_sizes_than_multiples_of_the_block(key):
    puzzle = PUZZLES[key]
    assert len(set(puzzle.sizes)) >= 3
    assert len(puzzle.inputs) >= 1
    whole = "reshape(-1, " in puzzle.spec  # stretches of one length are asked for
    assert whole or any(size % 32 for sizes in puzzle.sizes for size in sizes)


@each
def test_the_timed_launch_has_a_shape_that_was_tried(key):
    """A tile whose size is built in would be left behind, on a GPU, where nothing says so."""
    puzzle = PUZZLES[key]
    if "shared.array" in puzzle.solution or max(puzzle.threads) > 128:
        assert puzzle.clock[-1] in puzzle.threads or puzzle.launch.startswith("1, ")
    assert len(puzzle.clock) == len(puzzle.measured)


@pytest.mark.parametrize("name", ["one-pass-scan", "histogram", "dot", "broken-in-place"])
def test_launches_that_are_timed_begin_alike_each_time(name):
    """Tickets, counters and what is changed in place are set back between launches."""
    (puzzle,) = (puzzle for (_, one), puzzle in PUZZLES.items() if one == name)
    case = judge.draw(puzzle, (257,), 64, np.random.default_rng())
    _, after = clock.launches(judge.compiled(puzzle.solution, name), case, 3)
    arrays = [one for one in puzzle.parameters if isinstance(case.values[one], np.ndarray)]
    got = dict(zip(arrays, after, strict=True))
    assert all(np.array_equal(got[one], case.expected[one]) for one in case.expected)


@each
def test_inputs_are_drawn_anew(key):
    puzzle = PUZZLES[key]
    sizes, threads = puzzle.measured[:-1], puzzle.measured[-1]
    one, other = (judge.draw(puzzle, sizes, threads, np.random.default_rng()) for _ in range(2))
    for name in puzzle.inputs:
        if isinstance(one.values[name], np.ndarray):
            assert not np.array_equal(one.values[name], other.values[name]), name


@each
def test_a_picture_says_where_results_come_from(key):
    puzzle = PUZZLES[key]
    view = draw_spec(puzzle)
    assert "comes from" in view.text
    assert view.markup.count("<rect") >= sum(
        one.size for one in judge.pictured(puzzle).expected.values()
    )


def test_the_picture_of_a_reversed_array_knows_the_other_end():
    text = draw_spec(PUZZLES["01_first_steps", "reverse"]).text
    assert "out[2] comes from a[5]" in text


@pytest.mark.parametrize("key", BROKEN, ids="/".join)
def test_a_broken_kernel_is_refused_and_its_race_replays(key):
    puzzle = PUZZLES[key]
    kernel = judge.compiled(puzzle.broken, puzzle.name)
    assert not outcome(key[0], key[1], (kernel,)).passed
    if puzzle.raises:
        with pytest.raises(getattr(errors, puzzle.raises)):
            shelf.replayed(puzzle, kernel)
        return
    text = repr(shelf.replayed(puzzle, kernel))
    assert re.search(r"Recorded under virtualgpu\.schedule|no race to replay, but .*barrier", text)


def test_most_broken_kernels_replay_a_race():
    replays = [
        repr(shelf.replayed(puzzle, judge.compiled(puzzle.broken, puzzle.name)))
        for key in BROKEN
        if not (puzzle := PUZZLES[key]).raises
    ]
    assert sum("Recorded under" in text for text in replays) >= 6


def test_the_library_moves_more_than_our_softmax():
    puzzle = PUZZLES["14_scans_tiles_atomics", "softmax"]
    case = judge.measured(puzzle)
    assert judge.library_bytes(case) > 8 * case.values["a"].nbytes


#: What the explanations say, by puzzle: a count, and its value in the launch that is counted.
TOLD = [
    ("add-ten", "global_loads", 1024),
    ("add-two", "bytes", 12_288),
    ("count-up", "global_loads", 0),
    ("tiled-transpose", "bank_conflicts", 896),
    ("reverse", "global_sectors", 1024),
    ("gaps", "global_loads", 8190),
    ("clamp", "global_loads", 4096),
    ("every-pair", "global_loads", 8192),
    ("neighbours", "global_loads", 4224),
    ("block-sums", "barriers", 7 * 64),
    ("dot", "global_atomics", 64),
    ("tiled-transpose", "global_sectors", 1024),
    ("no-conflicts", "bank_conflicts", 128),
    ("points", "global_sectors", 2048 + 512),
    ("block-histogram", "global_atomics", 1024),
    ("product", "global_loads", 221_184),
    ("tile-product", "global_loads", 221_184 // 16),
    ("softmax", "bytes", 16 * 64 * 256),
    ("histogram", "global_atomics", 4096),
    ("row-sums", "global_load_sectors", 64 * 8 * 32),
    ("column-sums", "global_load_sectors", 64 * 8 * 32 // 8),
]


@pytest.mark.parametrize(("name", "counter", "value"), TOLD)
def test_what_an_explanation_says_is_what_is_counted(name, counter, value):
    (puzzle,) = (puzzle for (_, one), puzzle in PUZZLES.items() if one == name)
    _, counters = judge.counted(judge.compiled(puzzle.solution, name), judge.measured(puzzle))
    assert judge.amount(counter, counters) == value


def other_style(name: str, number: int = 0):
    (puzzle,) = (puzzle for (_, one), puzzle in PUZZLES.items() if one == name)
    kernel = judge.compiled(puzzle.also[number].text(puzzle.solution), name)
    return judge.counted(kernel, judge.measured(puzzle))[1]


def test_three_ifs_read_once_and_shares_in_a_stretch_move_eight_times_as_much():
    """As “Between two walls” and “Fewer threads than elements” tell it."""
    assert other_style("clamp").global_loads == 4096
    assert judge.moved(other_style("grid-stride")) == 8 * 49_152


def test_a_row_of_seventeen_words_leaves_as_many_conflicts_as_the_text_says():
    assert other_style("no-conflicts").bank_conflicts == 256


def test_the_gather_moves_about_four_thousand_sectors():
    puzzle = PUZZLES["01_first_steps", "gather"]
    _, counters = judge.counted(judge.compiled(puzzle.solution, "g"), judge.measured(puzzle))
    assert 3900 < counters.global_load_sectors - 512 < 4096
