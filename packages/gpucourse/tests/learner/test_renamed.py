"""What a learner has under the earlier name of a lesson counts for the lesson of today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpucourse.course import renamed
from gpucourse.course.registry import load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.exercises.predictions import UnknownPrediction, predictions
from gpucourse.learner import records
from gpucourse.puzzles import board
from gpucourse.puzzles.board import Entry

OLD, FIRST, SECOND = "06_thinking_in_threads", "06_numba_cuda", "07_trees_and_barriers"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the records of this test lie."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = records.place()
    path.parent.mkdir(parents=True)
    return path


def test_every_earlier_name_leads_to_a_lesson_that_there_is(repository: Path):
    known = {lecture.id for lecture in load_course(repository).lectures}
    assert set(renamed.LESSONS.values()) <= known
    assert not set(renamed.LESSONS) & known, "a name of today is no earlier one"
    for id, (second, parts) in renamed.SPLIT.items():
        has = {*load_lesson(second).exercises}
        predicted = (repository / f"course/lectures/{second}/predictions.toml").read_text()
        assert all(part in has or f"[{part}]" in predicted for part in parts), id


def test_progress_under_an_earlier_name_counts_and_is_written_once(file: Path):
    file.write_text(
        "".join(
            json.dumps(record) + "\n"
            for record in (
                {"lesson": OLD, "done": "check-then-act"},
                {"lesson": OLD, "done": "fold"},
                {"lesson": OLD, "asked": "tree", "guess": "4"},
                {"lesson": "13_scan", "done": "scan"},
            )
        )
    )
    known = records.read()
    assert known.exercises == {FIRST: {"check-then-act"}, SECOND: {"fold"}, "13_scan": {"scan"}}
    assert known.guesses == {SECOND: {"tree": "4"}}
    before = file.read_bytes()
    records.note(lesson=OLD, done="fold")  # by a notebook that has the old name
    records.note(lesson=SECOND, done="fold")
    assert file.read_bytes() == before


def test_a_notebook_with_an_earlier_name_still_has_its_checks_and_predictions():
    exercises = load_lesson(OLD).exercises
    assert exercises.keys() == {*load_lesson(FIRST).exercises, *load_lesson(SECOND).exercises}
    predict = predictions(OLD)
    for name in ("order", "tree"):
        with pytest.raises(UnknownPrediction, match="offers '1'"):
            predict(name, "1")
    with pytest.raises(FileNotFoundError, match="no checks for '06_thinking_in_treads'"):
        load_lesson("06_thinking_in_treads")


def test_the_board_keeps_what_was_entered_under_an_earlier_name(tmp_path: Path):
    path = tmp_path / "puzzles.json"
    board.enter("20_first_steps/add-ten", Entry("mine", 100), path)
    assert board.read(path)["01_first_steps/add-ten"].fewest.code == "mine"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("lectures/06_thinking_in_threads.ipynb", "lectures/06_numba_cuda.ipynb"),
        ("solutions/08_jax.ipynb", "solutions/09_jax.ipynb"),
        ("solutions/12_jax.ipynb", "solutions/09_jax.ipynb"),
        ("lectures/13_scan.ipynb", "lectures/13_scan.ipynb"),
        ("notes/08_jax.ipynb", "notes/08_jax.ipynb"),
        ("projects/03_z_mass/03_z_mass.ipynb", "projects/03_z_mass/03_z_mass.ipynb"),
    ],
)
def test_saved_work_comes_back_beside_the_lesson_of_today(name: str, place: str):
    assert renamed.path(name) == place
