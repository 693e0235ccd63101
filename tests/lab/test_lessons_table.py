"""The table of lessons counts what is there."""

from __future__ import annotations

from gpucourse.course.predictions import read_predictions
from gpucourse.exercises.checks import read_exercises
from gpucourse.publish.source.reader import read_course
from lab.pages.lessons_table import REPOSITORY, row


def test_exercises_and_predictions_are_those_that_the_lectures_have():
    course, sources = read_course(REPOSITORY)
    for lecture in course.lectures:
        source = next(source for source in sources if source.lesson is lecture)
        counted = row(source)
        assert counted.predictions == len(read_predictions(course.predictions(lecture)))
        if not course.puzzles(lecture):  # their exercises are the puzzles' files
            assert counted.exercises == len(read_exercises(course.checks(lecture)))
        assert 0 < counted.before < counted.words
