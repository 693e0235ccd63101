"""Rows 77, 78, 81, 92 to 96 and 105 to 110 of the threats.

They are about single exercises, so known-wrong answers of the projects are the attempts. The
project's solution is graded beside each.
"""

from __future__ import annotations

import pytest

from gpucourse.grading.commands.demo import wrong_answers
from project_class import ProjectClass

pytestmark = pytest.mark.rehearsal

# Those that earned full marks once.
SERIAL = {
    "01_fill_a_histogram": [
        "one-thread-adds-every-row",
        "one-thread-of-the-grid",
        "one-thread-counts-for-all",
    ],
    "02_area_by_sampling": ["one-thread-adds-for-its-block"],
}


def graded(project: ProjectClass, names: list[str]) -> None:
    """Each loses its points for its reason, the solution none."""
    answers = {
        person.student: person for person in wrong_answers(project.assignment, project.wrong)
    }
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


@pytest.mark.parametrize(
    ("id", "names"),
    [
        (
            "01_fill_a_histogram",
            ["picks-numpys-counts-from-a-table", "reads-numpys-counts-from-a-table"],
        ),
        ("02_area_by_sampling", ["picks-numpys-hits-from-a-table"]),
    ],
)
def test_threat_92_picked_from_a_table(id, names, tmp_path):
    graded(ProjectClass(id, tmp_path), names)


def test_threat_93_numpy_at_trace_time(area):
    graded(area, ["numpys-hits-in-another-order"])


def test_threat_94_the_right_probability_without_the_experiment(area):
    graded(area, ["a-coin-of-pi-over-four", "kernels-that-spin-and-draw-no-points"])


def test_threat_95_one_thread_computes_all_in_a_compilers_kernels(tmp_path):
    graded(
        ProjectClass("04_a_compiler", tmp_path),
        ["one-thread-computes-beside-others-that-look", "one-lane-computes-for-its-warp"],
    )


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("01_fill_a_histogram", "blocks-of-one-thread"),
        ("02_area_by_sampling", "samples-in-blocks-of-one-thread"),
    ],
)
def test_threat_96_blocks_of_one_thread(id, name, tmp_path):
    graded(ProjectClass(id, tmp_path), [name])


def test_threat_105_functions_of_the_tests_replaced(tmp_path):
    graded(
        ProjectClass("04_a_compiler", tmp_path),
        [
            "compiles-in-every-call-and-replaces-the-counter",
            "no-derivatives-and-replaces-what-asks-for-them",
        ],
    )


@pytest.mark.parametrize(
    ("id", "names"),
    [
        (
            "01_fill_a_histogram",
            [
                "lane-0-bins-the-values-of-its-warp",
                "lane-0-counts-for-its-warp-in-local-memory",
                "lane-0-bins-beside-lanes-that-look-busy",
            ],
        ),
        ("02_area_by_sampling", ["lane-0-mixes-for-its-warp"]),
        ("03_z_mass", ["lane-0-bins-the-masses-of-its-warp"]),
    ],
)
def test_threat_106_one_lane_works_for_its_warp(id, names, tmp_path):
    graded(ProjectClass(id, tmp_path), names)


@pytest.mark.parametrize(
    ("id", "names"),
    [
        (
            "01_fill_a_histogram",
            ["counts-in-small-launches-behind-a-decoy", "golf-by-one-block-behind-a-decoy"],
        ),
        ("02_area_by_sampling", ["draws-in-small-blocks-behind-a-decoy"]),
    ],
)
def test_threat_107_a_launch_for_show(id, names, tmp_path):
    graded(ProjectClass(id, tmp_path), names)


def test_threats_108_and_109_public_constants_and_the_courses_own_result(tmp_path):
    graded(
        ProjectClass("03_z_mass", tmp_path), ["the-z-is-a-constant", "asks-the-courses-reference"]
    )


def test_threat_110_idle_threads_where_nothing_is_counted(tmp_path):
    graded(
        ProjectClass("03_z_mass", tmp_path),
        [
            "two-threads-in-three-are-idle-where-nothing-is-counted",
            "one-thread-in-two-is-idle-where-nothing-is-counted",
        ],
    )
