"""Rows 77, 78 and 81 of the threats: about single exercises, so known-wrong answers of the projects
are the attempts. The project's solution is graded beside each.
"""

from __future__ import annotations

import pytest

from gpucourse.grading.commands.demo import wrong_answers
from project_class import ProjectClass

pytestmark = pytest.mark.rehearsal

# Those that earned full marks once.
SERIAL = {"01_fill_a_histogram": ["one-thread-adds-every-row", "one-thread-of-the-grid",
                                  "one-thread-counts-for-all"],
          "02_area_by_sampling": ["one-thread-adds-for-its-block"]}


def graded(project: ProjectClass, names: list[str]) -> None:
    """Each loses its points for its reason, the solution none."""
    answers = {person.student: person
               for person in wrong_answers(project.assignment, project.wrong)}
    people = [project.right("solution"), *(answers[name] for name in names)]
    assert project.outcomes(people) == []


@pytest.fixture
def area(tmp_path) -> ProjectClass:
    return ProjectClass("02_area_by_sampling", tmp_path)


def test_threat_77_kernels_known_by_name_only(area):
    graded(area, ["kernels-in-name-only"])


def test_threat_78_a_memorised_value(area):
    graded(area, ["an-area-remembered"])


@pytest.mark.parametrize("id", SERIAL)
def test_threat_81_serial_work(id, tmp_path):
    graded(ProjectClass(id, tmp_path), SERIAL[id])
