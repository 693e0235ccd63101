"""Every lecture: answers of the source pass, wrong ones hear what is wrong, figures have words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.course.predictions import read_predictions
from gpucourse.course.registry import Lecture, load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.publish import notebooks, questions
from gpucourse.publish.source import read_source
from lecture_cells import OWN_PROCESS, outcome, solved
from wrong_answers import Edited, EditError, answers_of, swap

pytestmark = pytest.mark.slow

COURSE = load_course(REPOSITORY)
LECTURES = [lesson.id for lesson in COURSE.lessons if isinstance(lesson, Lecture)]


def wrong_answers() -> list:
    """(lecture, exercise, answers, what the check says) of all lectures' wrong answers.

    `make test` checks the first of each exercise, `make rehearse` the others, and all of a lecture
    that needs a process of its own.
    """
    found = []
    for id in LECTURES:
        tried: set[str] = set()
        for case in answers_of(id).WRONG:
            later = case.values[0] in tried or id in OWN_PROCESS
            tried.add(case.values[0])
            found.append(
                pytest.param(
                    id,
                    *case.values,
                    id=f"{id[:2]}:{case.id}",
                    marks=[pytest.mark.rehearsal] if later else [],
                )
            )
    return found


def right_answers() -> list:
    """(lecture, exercise, answers) of all lectures' right answers in other styles."""
    return [
        pytest.param(
            id,
            *case.values[:2],
            id=f"{id[:2]}:{case.id}",
            marks=[pytest.mark.rehearsal] if id in OWN_PROCESS else [],
        )
        for id in LECTURES
        if (REPOSITORY / "course" / "lectures" / id / "right.py").is_file()
        for case in answers_of(id, "right").RIGHT
    ]


WRONG = wrong_answers()
# Lectures but these take 5 to 20 s: `make rehearse` runs them whole, and `make check` as all.
SHORT = {"01", "03", "05", "09"}
SOLVED = [
    pytest.param(id, marks=[] if id[:2] in SHORT else [pytest.mark.rehearsal]) for id in LECTURES
]


@pytest.mark.parametrize(("lecture", "exercise", "answers", "says"), WRONG)
def test_wrong_answers_hear_what_is_wrong(lecture, exercise, answers, says):
    heard = outcome(lecture, exercise, answers)
    assert not heard.passed
    said = f"{heard.message}\n{heard.look or ''}"
    assert re.search(says, said, re.DOTALL), said


@pytest.mark.parametrize(("lecture", "exercise", "answers"), right_answers())
def test_right_answers_in_other_styles_are_accepted(lecture, exercise, answers):
    heard = outcome(lecture, exercise, answers)
    assert heard.passed, f"{heard.message}\n{heard.look or ''}"


@pytest.mark.parametrize("lecture", LECTURES)
def test_every_exercise_has_two_wrong_answers_or_more(lecture):
    known = [case.values[1] for case in WRONG if case.values[0] == lecture]
    exercises = load_lesson(lecture).exercises
    assert len(exercises) >= 2
    short = [name for name in exercises if known.count(name) < 2]
    assert short == [], f"write them into course/lectures/{lecture}/wrong.py"


@pytest.mark.parametrize("lecture", LECTURES)
def test_every_edit_still_fits_the_solution(lecture):
    for case in answers_of(lecture).WRONG:
        if isinstance(case.values[1], Edited):
            case.values[1].cells()


def test_an_edit_that_no_longer_fits_names_its_answer():
    for old, fault in (
        ("if j < pt.size", "stands in no cell down to"),
        ("pt", "times in the cell"),
        ("sinh", "swapped for itself"),
    ):
        edited = Edited("03_numba_cuda", "loop-to-kernel", "my mistake", (swap(old, "sinh"),))
        with pytest.raises(EditError, match=f"wrong answer loop-to-kernel:my mistake: .*{fault}"):
            edited.answers()


@pytest.mark.parametrize("lecture", SOLVED)
def test_the_answers_of_the_source_are_accepted(lecture, repository: Path):
    text = "".join(cell.text for cell in solved(repository, lecture).values())
    assert "✗" not in text, text
    assert re.findall(r"✓ ([a-z0-9-]+):", text) == list(load_lesson(lecture).exercises)


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.id)
def test_no_answer_to_a_prediction_stands_in_sight(lesson):
    """Every prediction is asked by predict(); what explains it is in a fold, and only there."""
    source = read_source(COURSE, lesson)
    assert [text for _, text in questions.mistakes(COURSE, source)] == []
    assert sum("predict" in cell.tags for cell in source.cells) == len(
        read_predictions(COURSE.predictions(lesson))
    )
    lecture = isinstance(lesson, Lecture)
    derive = notebooks.lecture_notebook if lecture else notebooks.project_release
    text = "\n".join(cell.source for cell in derive(COURSE, source).cells)
    in_sight = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    whys = [cell.source for cell in source.cells if "why" in cell.tags]
    assert whys or not any("predict" in cell.tags for cell in source.cells)
    assert [why for why in whys if why in in_sight or why not in text] == []
    reasons = [
        reason
        for asked in read_predictions(COURSE.predictions(lesson)).values()
        for reason in asked.wrong.values()
    ]
    assert [reason for reason in reasons if reason in text] == []


READS_EVENTS = [
    lesson.id
    for lesson in COURSE.lessons
    if re.search(r"\bdimuons\b", "".join(c.source for c in read_source(COURSE, lesson).cells))
]


@pytest.mark.parametrize("id", READS_EVENTS)
def test_events_are_called_simulated_before_their_first_use(id):
    before = ""
    for cell in read_source(COURSE, COURSE.lesson(id)).cells:
        if cell.kind == "code" and re.search(r"\bdimuons\b", cell.source):
            break
        before += cell.source
    assert re.search(r"\bsimulated\b", before)
