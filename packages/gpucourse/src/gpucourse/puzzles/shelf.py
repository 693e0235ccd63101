"""Functions for a notebook of puzzles, which ``puzzles("01_first_steps")`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gpucourse.course import renamed
from gpucourse.course.checkout import prediction_files
from gpucourse.course.puzzles import Puzzle, puzzle_folder, read_puzzles
from gpucourse.exercises.checks import load_lesson
from gpucourse.exercises.outcomes import show
from gpucourse.exercises.predictions import predictions
from gpucourse.learner import records
from gpucourse.puzzles import board, causes, clock, counts, judge
from gpucourse.puzzles.picture import draw_spec
from gpucourse.views.launch.race import race
from gpucourse.views.page import View


class Shelf(NamedTuple):
    """The functions of one notebook of puzzles."""

    check: Callable[..., None]
    hint: Callable[[str], None]
    predict: Callable[..., None]
    picture: Callable[[str], None]
    replay: Callable[[str, Any], View]
    board: Callable[[], View]


def find_puzzles(id: str) -> dict[str, Puzzle]:
    """Return the puzzles of a lesson by name, wherever the course's folder is."""
    for path in prediction_files(id):
        if found := read_puzzles(puzzle_folder(path)):
            return found
    raise LookupError(
        f"no puzzles were found for {id}. Keep the notebook inside the course's folder"
    )


def puzzles(id: str) -> Shelf:
    """Return ``check, hint, predict, picture, replay, board`` of a lesson."""
    id = renamed.today(id)
    known, lesson = find_puzzles(id), load_lesson(id)

    def check(name: str, *answers: object) -> None:
        """Check a kernel; if it is correct, show its cost and add it to the board."""
        judge.latest.pop(name, None)
        lesson.check(name, *answers)
        if (judged := judge.latest.get(name)) is not None:
            show(_cost(id, judged, answers[0]))

    def picture(name: str) -> None:
        """Draw the task on a small example."""
        show(draw_spec(_known(known, name)))

    def replay(name: str, kernel: Any) -> View:
        """Replay the race of a broken kernel on a small example, or raise its error."""
        return replayed(_known(known, name), kernel)

    def show_board() -> View:
        """Return the winners of this notebook's puzzles."""
        return board.view(id, known.values())

    return Shelf(check, lesson.hint, predictions(id), picture, replay, show_board)


def replayed(puzzle: Puzzle, kernel: Any) -> View:
    """Replay the race of a broken kernel, or raise the error in which it ends."""
    case = judge.pictured(puzzle)
    if puzzle.raises:
        import virtualgpu

        with virtualgpu.check():
            judge.launch(kernel, case)
    return race(kernel, case.grid, case.block, *case.arguments())


def _cost(id: str, judged: judge.Judged, kernel: Any) -> View:
    ms, gpu = judged.ms, clock.gpu()
    winners = None
    if records.asked_by_a_learner():
        mine = board.entry(kernel, judge.moved(judged.mine), ms, gpu)
        ours = None if judged.ours is None else judge.moved(judged.ours)
        winners = board.enter(f"{id}/{judged.puzzle.name}", mine, ours=ours)
    cause = causes.why(judged, kernel)
    return counts.view(judged, winners, ms, clock.library_ms(judged.puzzle), gpu, cause)


def _known(puzzles: dict[str, Puzzle], name: str) -> Puzzle:
    if name not in puzzles:
        raise LookupError(f"there is no puzzle {name!r} here. The puzzles are {', '.join(puzzles)}")
    return puzzles[name]
