"""The table of lessons counts what is there."""

from __future__ import annotations

from gpucourse.course.predictions import read_predictions
from gpucourse.exercises.checks import read_exercises
from gpucourse.publish.source import read_course
from lab.pages.lessons_table import REPOSITORY, row

COURSE, SOURCES = read_course(REPOSITORY)


def test_exercises_and_predictions_are_those_that_the_lectures_have():
    for lecture in COURSE.lectures:
        source = next(source for source in SOURCES if source.lesson is lecture)
        counted = row(source)
        assert counted.predictions == len(read_predictions(COURSE.predictions(lecture)))
        if not COURSE.puzzles(lecture):  # their exercises are the puzzles' files
            assert counted.exercises == len(read_exercises(COURSE.checks(lecture)))
        assert 0 < counted.before < counted.words
