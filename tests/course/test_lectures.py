"""Every lecture: answers of the source pass, wrong ones hear what is wrong, figures have words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import REPOSITORY
from gpucourse.course.predictions import read_predictions
from gpucourse.course.registry import Lecture, load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.source import questions
from gpucourse.publish.source.reader import read_source
from lecture_cells import OWN_PROCESS, outcome, solved
from wrong_answers import Edited, EditError, answers_of, swap

pytestmark = pytest.mark.slow

COURSE = load_course(REPOSITORY)
LECTURES = [lesson.id for lesson in COURSE.lessons if isinstance(lesson, Lecture)]


# A lecture takes 5 to 20 s: `make rehearse` runs the others whole, and `make check` all of them.
SOLVED = [LECTURES[0], *(pytest.param(id, marks=pytest.mark.rehearsal) for id in LECTURES[1:])]


# Each lecture's answers are imported by the test that tries them: to make a parameter of each would
# import all of them in each worker.
SAMPLED = [
    pytest.param(id, marks=[pytest.mark.rehearsal] if id in OWN_PROCESS else []) for id in LECTURES
]
# Right answers to what goes deeper: `make rehearse` tries them.
SAMPLED_OF_CORE = [
    pytest.param(id, marks=[] if id in COURSE.core else [pytest.mark.rehearsal]) for id in LECTURES
]


def first_of_each(cases: list) -> list:
    """Return the first answer to each exercise."""
    return list({case.values[0]: case for case in reversed(cases)}.values())


def wrong_sample(lecture: str) -> list:
    """Return the wrong answers that `make test` tries.

    They are one to each exercise of the core, and one to one exercise of what goes deeper.
    """
    first = first_of_each(answers_of(lecture).WRONG)
    return first if lecture in COURSE.core else first[:1]


def right_sample(lecture: str) -> list:
    """Return the right answer that `make test` tries: it is to the lecture's last exercise."""
    return first_of_each(right_answers(lecture))[:1]


def right_answers(lecture: str) -> list:
    """Return a lecture's right answers in other styles than its own."""
    written = (REPOSITORY / "course" / "lectures" / lecture / "right.py").is_file()
    return answers_of(lecture, "right").RIGHT if written else []


def refuse(lecture: str, cases: list, subtests: pytest.Subtests) -> None:
    """Expect the check to reject each wrong answer for the reason that stands beside it."""
    for case in cases:
        with subtests.test(case.id):
            exercise, answers, says = case.values
            heard = outcome(lecture, exercise, answers)
            assert not heard.passed
            said = f"{heard.message}\n{heard.look or ''}"
            assert re.search(says, said, re.DOTALL), said


def accept(lecture: str, cases: list, subtests: pytest.Subtests) -> None:
    for case in cases:
        with subtests.test(case.id):
            heard = outcome(lecture, *case.values[:2])
            assert heard.passed, f"{heard.message}\n{heard.look or ''}"


@pytest.mark.parametrize("lecture", SAMPLED)
def test_wrong_answers_hear_what_is_wrong(lecture, subtests):
    refuse(lecture, wrong_sample(lecture), subtests)


@pytest.mark.rehearsal
@pytest.mark.parametrize("lecture", LECTURES)
def test_the_other_wrong_answers_hear_what_is_wrong(lecture, subtests):
    sample = wrong_sample(lecture)
    refuse(lecture, [case for case in answers_of(lecture).WRONG if case not in sample], subtests)


@pytest.mark.parametrize("lecture", SAMPLED_OF_CORE)
def test_a_right_answer_in_another_style_is_accepted(lecture, subtests):
    accept(lecture, right_sample(lecture), subtests)


@pytest.mark.rehearsal
@pytest.mark.parametrize("lecture", LECTURES)
def test_the_other_right_answers_are_accepted(lecture, subtests):
    sample = right_sample(lecture)
    accept(lecture, [case for case in right_answers(lecture) if case not in sample], subtests)


@pytest.mark.parametrize("lecture", LECTURES)
def test_every_exercise_has_two_wrong_answers_or_more(lecture):
    known = [case.values[0] for case in answers_of(lecture).WRONG]
    exercises = load_lesson(lecture).exercises
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
        edited = Edited("06_numba_cuda", "loop-to-kernel", "my mistake", (swap(old, "sinh"),))
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


@pytest.mark.parametrize("lesson", COURSE.lessons, ids=lambda lesson: lesson.id)
def test_events_are_called_simulated_before_their_first_use(lesson):
    before = ""
    for cell in read_source(COURSE, lesson).cells:
        if cell.kind == "code" and re.search(r"\bdimuons\b", cell.source):
            assert re.search(r"\bsimulated\b", before)
            break
        before += cell.source
