"""Each exercise of each lecture refuses every kind of answer that defeats its purpose, and takes
honest ones in unusual styles; the puzzles' are in ``test_puzzles.py``."""

from __future__ import annotations

import pytest

from answers_of_a_kind import KINDS, declared, made_of, needless
from conftest import REPOSITORY
from gpucourse.course.registry import Lecture, load_course
from gpucourse.exercises.checks import load_lesson
from lecture_cells import OWN_PROCESS, without_gpu
from wrong_answers import answers_of

pytestmark = pytest.mark.slow

COURSE = load_course(REPOSITORY)
LECTURES = [
    lesson.id
    for lesson in COURSE.lessons
    if isinstance(lesson, Lecture) and not COURSE.puzzles(lesson)
]


@pytest.mark.parametrize("lecture", LECTURES)
def test_every_exercise_has_two_right_answers_or_more(lecture):
    known = [case.values[0] for case in answers_of(lecture, "right").RIGHT]
    short = [name for name in load_lesson(lecture).exercises if known.count(name) < 2]
    assert short == [], f"write them into course/lectures/{lecture}/right.py"


@pytest.mark.parametrize("lecture", LECTURES)
def test_what_is_named_as_of_a_kind_is_among_the_wrong_answers(lecture):
    known = {case.id for case in answers_of(lecture).WRONG}
    named = declared(lecture)
    assert list(named) == list(load_lesson(lecture).exercises)
    unknown = [
        f"{exercise}:{name}"
        for exercise, kinds in named.items()
        for kind, name in kinds.items()
        if kind not in KINDS or not (name.startswith("(") or f"{exercise}:{name}" in known)
    ]
    assert unknown == []


@pytest.mark.rehearsal
@pytest.mark.parametrize("lecture", LECTURES)
def test_every_kind_of_answer_is_there_and_what_is_made_of_the_solution_is_refused(lecture):
    """An argument that is ignored, work on the host, one thread alone, built for the example."""
    without_gpu()
    missing, accepted = [], []
    for exercise in load_lesson(lecture).exercises:
        kinds = set(declared(lecture)[exercise])
        if lecture not in OWN_PROCESS:  # whose solutions need what only a new process can be told
            kinds |= needless(lecture, exercise)
            for kind, name, answers in made_of(lecture, exercise):
                kinds.add(kind)
                if load_lesson(lecture).outcome(exercise, *answers).passed:
                    accepted.append(f"{exercise}: {name}")
        missing += [f"{exercise}: {kind}" for kind in KINDS if kind not in kinds]
    assert (missing, accepted) == ([], [])
