"""Fixtures of a lecture's or project's tests, chosen by the number in the file name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpucourse.course.registry import load_course
from gpucourse.exercises.checks import load_lesson
from gpucourse.publish.source.reader import Source, read_course
from lecture_cells import solved
from project_class import ProjectClass


@pytest.fixture(scope="session")
def sources(repository) -> list[Source]:
    """Return the sources of all lessons, read once in 2 s by each worker that needs them."""
    return read_course(repository)[1]


@pytest.fixture(scope="module")
def lecture(request, repository) -> str:
    """Return the lecture's id, such as ``08_random_numbers`` in ``test_lecture_08.py``."""
    return _with_number(request, load_course(repository).lectures)


@pytest.fixture(scope="module")
def project(request, repository, tmp_path_factory) -> ProjectClass:
    id = _with_number(request, load_course(repository).projects)
    return ProjectClass(id, tmp_path_factory.mktemp("source"))


def _with_number(request, lessons) -> str:
    number = request.module.__name__.split("_")[2]
    return next(lesson.id for lesson in lessons if lesson.id.startswith(number))


@pytest.fixture(scope="module")
def shown(lecture, repository) -> dict[str, SimpleNamespace]:
    """Return the cells of the solved lecture: see :func:`lecture_cells.solved`."""
    return solved(repository, lecture)


@pytest.fixture(scope="module")
def lesson(lecture):
    """Return the lecture's checks."""
    return load_lesson(lecture)
