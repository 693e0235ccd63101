"""No test gives points to an answer that computes nothing: see :mod:`constant_answers`."""

from __future__ import annotations

import secrets

import pytest

from conftest import REPOSITORY
from constant_answers import passed_by_constants
from gpucourse.course.registry import load_course
from gpucourse.grading.submission.assignment import Assignment
from project_class import ProjectClass
from threats import TEST_DOUBLE, host_notebook

# Project 3 fits and project 4 compiles, seven times: 30 s of a processor each.
PROJECTS = [
    pytest.param(project.id, marks=[pytest.mark.rehearsal] * (project.id[:2] in ("03", "04")))
    for project in load_course(REPOSITORY).projects
]


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("id", PROJECTS)
def test_a_constant_earns_nothing(id, tmp_path):
    assert (
        passed_by_constants(ProjectClass(id, tmp_path).assignment, secrets.token_bytes(16)) == set()
    )


def test_a_test_that_asks_only_what_is_published_is_seen():
    asked = {}
    for hidden in ('secret_rng(f"{n}").uniform(-1, 1, n)', "np.arange(3.0)"):
        notebook = host_notebook()
        for cell in notebook.cells:
            if cell.source == TEST_DOUBLE:
                cell.source = cell.source.replace('secret_rng(f"{n}").uniform(-1, 1, n)', hidden)
        asked[hidden] = passed_by_constants(Assignment("host", notebook), b"secret")
    secret, public = asked.values()
    # `total` is asked for one sum that everybody can see.
    assert (secret, public) == ({"test-total"}, {"test-total", "test-double"})
