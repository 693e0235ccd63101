"""Predictions: what is shown and recorded; no answer stands in sight before a guess."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpucourse.course.predictions import Prediction, read_predictions
from gpucourse.exercises import predictions as module
from gpucourse.exercises.predictions import Answered, Question, Told, UnknownPrediction
from gpucourse.learner import records, room
from small_course import LECTURE, write_course

ASKED = Prediction(
    "who-am-i",
    "8",
    {
        "2": "That's the number of blocks, each with threads.",
        "`4`": "That's the number of threads of one of the two blocks.",
    },
)
CHOICES = ("2", "`4`", "8")


def in_sight(html: str) -> str:
    """What a page shows before anything is opened: no tags, and of folds the summaries alone."""
    closed = re.sub(r"(<details.*?</summary>).*?</details>", r"\1", html, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", closed)


def test_without_a_kernel_each_choice_is_a_fold_over_its_reason():
    question = Question(ASKED, CHOICES)
    assert question.html().count("<details") == 3
    assert "number of blocks" in question.html()
    shown = in_sight(question.html())
    assert all(choice.strip("`") in shown for choice in CHOICES)
    assert "number of" not in shown and "Yes" not in shown and "it is" not in shown
    assert "8" in str(question) and "number of" not in str(question)
    assert "widget" not in str(question._repr_mimebundle_())


@pytest.mark.parametrize(("guess", "heard"), [("8", "right"), ("2", "number of blocks")])
def test_the_verdict_on_a_guess_is_folded(guess: str, heard: str):
    answered = Answered(ASKED, guess)
    assert heard in answered.html()
    assert heard not in in_sight(answered.html()).replace("Was it right?", "")
    assert f"Your guess: {guess}" in " ".join(in_sight(answered.html()).split()).replace("  ", " ")
    assert heard in str(answered).lower()


def test_a_reason_follows_the_choice_that_it_means():
    """114 of 336 begin with It, That or They: behind the right answer they would mean that."""
    said = "2? That's the number of blocks, each with threads. The answer: 8."
    for shown in (Answered(ASKED, "2"), Question(ASKED, CHOICES)):
        assert said in " ".join(re.sub(r"<[^>]+>", "", shown.html()).split())
    assert said in str(Answered(ASKED, "2"))


def test_show_me_shows_everything():
    told = in_sight(Told(Question(ASKED, CHOICES)).html())
    assert "number of blocks" in told and "of one of the two blocks" in told
    assert " ".join(told.split()).count("The answer: 8.") == 1 and "are right" not in told


def plain(html: str) -> str:
    """The words of a page, folds opened."""
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


@pytest.mark.parametrize(
    ("right", "told"),
    [
        ("no", "no."),
        ("yes", "yes."),
        ("no: an error", "no: an error."),
        ("right, wrong, right", "right, wrong, right."),
        ("5, 133, 261, …", "5, 133, 261, …"),
    ],
)
def test_one_frame_reads_well_for_every_answer(right: str, told: str):
    asked = Prediction("any", right, {"a guess": "A reason that says why it tempts."})
    shown = plain(Answered(asked, right).html())
    assert shown.startswith(f"Your guess: {told} Now run")
    assert shown.endswith(f"You are right: {told} The explanation is folded below the next cell.")
    assert plain(Answered(asked, "a guess").html()).endswith(f"it tempts. The answer: {told}")
    assert str(Answered(asked, right)) == f"Your guess: {told} It is right."
    assert str(Told(Question(asked, ("a guess", right)))) == f"The answer: {told}"


@pytest.fixture
def predict(tmp_path: Path, monkeypatch):
    """``predict`` of the small course, in a learner's notebook without widgets."""
    monkeypatch.chdir(write_course(tmp_path / "course"))
    monkeypatch.setattr(records, "place", lambda: tmp_path / "progress.jsonl")
    monkeypatch.setattr(records, "asked_by_a_learner", lambda: True)
    monkeypatch.setattr(module, "_buttons", lambda question: None)
    return module.predictions(LECTURE)


def test_the_first_guess_is_recorded(predict, capsys):
    predict("too-far", "1", "an error")
    assert records.read().guesses == {}
    predict("too-far", "1", "an error", guess=1)
    predict("too-far", "1", "an error", guess="an error")
    assert records.read().guesses == {LECTURE: {"too-far": "1"}}
    heard = capsys.readouterr().out
    assert "Your guess: 1 · an error" in heard
    assert (
        "1? Nought goes" in heard and "The answer: an error." in heard and "It is right." in heard
    )


def test_a_cell_that_is_run_again_shows_the_first_guess(predict, capsys, tmp_path):
    predict("too-far", "1", "an error", guess="1")
    capsys.readouterr()
    predict("too-far", "1", "an error")
    assert capsys.readouterr().out.startswith("Your guess: 1? Nought goes")
    records.note(lesson=LECTURE, asked="other", guess="1")
    (tmp_path / "progress.jsonl").write_text(
        f'{{"lesson": "{LECTURE}", "asked": "too-far", "guess": "a choice of an older text"}}'
    )
    predict("too-far", "1", "an error")
    assert capsys.readouterr().out.startswith("Your guess: 1 · an error")


def test_guesses_reach_the_room_once_and_only_after_joining(predict, tmp_path, monkeypatch):
    folder = tmp_path / "room"
    folder.mkdir()
    predict("too-far", "1", "an error", guess="1")
    assert list(folder.iterdir()) == []
    (tmp_path / "progress.jsonl").unlink()
    room.join(folder)
    predict("too-far", "1", "an error", guess="1")
    predict("too-far", "1", "an error", guess="an error")
    (file,) = folder.iterdir()
    assert records.collect(records.parse(file.read_bytes())).guesses == {LECTURE: {"too-far": "1"}}
    assert file.read_text().count("\n") == 1 and "at" not in file.read_text().split('"')


def test_a_cell_that_no_learner_ran_records_nothing(predict, monkeypatch):
    monkeypatch.setattr(records, "asked_by_a_learner", lambda: False)
    predict("too-far", "1", "an error", guess="1")
    assert records.read().guesses == {}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("too-fra", "1", "an error"), "did you mean 'too-far'?"),
        (("too-far", "1"), "the reasons are for '1', 'an error'"),
        (("too-far", "1", "an error", "1"), "the reasons are for"),
    ],
)
def test_what_the_lesson_does_not_have_is_told_with_what_it_has(predict, arguments, says):
    with pytest.raises(UnknownPrediction, match=re.escape(says)):
        predict(*arguments)
    with pytest.raises(
        UnknownPrediction, match="'2' is not one of the choices, which are '1', 'an error'"
    ):
        predict("too-far", "1", "an error", guess=2)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Prediction("a", "x", {}), "1 choice;"),
        (
            Prediction("a", "x", dict.fromkeys("stuv", "why it tempts, at some length.")),
            "5 choices",
        ),
        (
            Prediction("a", "x", {"x": "why it tempts, at some length.", "y": "z" * 40}),
            "right answer",
        ),
        (Prediction("a", "x", {"y": "No, it isn't."}), "why 'y' tempts"),
    ],
)
def test_a_prediction_that_cannot_be_weighed_is_a_mistake(asked: Prediction, says: str):
    assert any(says in mistake for mistake in asked.mistakes(sorted(asked.choices)))


@pytest.mark.parametrize(
    "text",
    [
        '[a]\nright = "x"\n',
        "[a]\nright = 1\n[a.wrong]\n",
        '[a]\nright = "x"\nwhy = "y"\n[a.wrong]\n',
    ],
)
def test_a_file_of_another_form_is_named(tmp_path: Path, text: str):
    path = tmp_path / "01_first.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"01_first\.toml: \[a\] needs"):
        read_predictions(path)
