"""What holds for each project: its points, its stubs, and right and wrong answers in a class."""

from __future__ import annotations

import pytest

from gpucourse.course.regions import SOLUTION, replace_regions
from gpucourse.course.registry import load_course
from gpucourse.grading.commands.demo import right_answers
from project_class import ProjectClass

# The seed of its small class ("" draws one), how many wrong answers that has (one takes 10 s of a
# processor in the later projects), and how many other right answers the larger class has.
PROJECTS = {
    # With five, some wrong answer is refused by hidden tests alone.
    "01_fill_a_histogram": ("5e" * 16, 5, 2),
    "02_area_by_sampling": ("5e" * 16, 1, 1),
    "03_z_mass": ("", 0, 1),
    # With this seed one result of the energy's step is a small difference of larger numbers.
    "04_a_compiler": ("38d38778b7049de5641006af6323ced1", 0, 1),
}
# A class takes 20 to 40 s on two slow cores: that of one project is graded by `make test`.
FIRST, *OTHERS = PROJECTS


@pytest.fixture(scope="module", params=PROJECTS)
def project(request, tmp_path_factory) -> ProjectClass:
    return ProjectClass(request.param, tmp_path_factory.mktemp("source"))


def test_these_are_all_projects(repository):
    assert list(PROJECTS) == [project.id for project in load_course(repository).projects]


def test_points_add_up(project):
    project.check_points()


def test_released_answers_are_stubs_inside_functions(project):
    """A stub outside of a function would raise before any test can say what is missing."""
    for cell in project.assignment.solutions:
        if cell.cell_type == "code":
            released = replace_regions(cell.source, SOLUTION, ["raise NotImplementedError()"])
            assert all(line.startswith("    ") for line in released.split("\n") if "raise" in line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "project",
    [FIRST, *(pytest.param(name, marks=pytest.mark.rehearsal) for name in OTHERS)],
    indirect=True,
)
def test_a_small_class_comes_out_as_expected(project):
    seed, wrong, _ = PROJECTS[project.assignment.name]
    assert project.outcomes(project.small_class(wrong), seeds=[seed]) == []


@pytest.mark.rehearsal
def test_a_larger_class_comes_out_as_expected(project):
    """A fresh seed every time; `python -m lab.evidence.project_seeds` takes 200."""
    _, wrong, right = PROJECTS[project.assignment.name]
    assert project.outcomes(project.larger_class(wrong, right)) == []


@pytest.mark.rehearsal
def test_newtons_method_as_one_program_ends_whatever_xla_rounds(tmp_path):
    """With this seed it halved its step for ever, and was stopped."""
    project = ProjectClass("03_z_mass", tmp_path)
    people = {one.student: one for one in right_answers(project.assignment, project.other_right)}
    assert project.outcomes([people["while-loop"]], ["0bc9692d10393efd30865fbd2ac856be"]) == []
