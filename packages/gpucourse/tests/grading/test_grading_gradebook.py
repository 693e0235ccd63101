"""What a teacher meets who changes a due date, or has a student with brackets in the name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rich.console import Console

from gpucourse.grading.commands import grade_class
from gpucourse.grading.submission.assignment import Assignment
from grading_toy import submission, toy_course, write_submission
from nbgrader_commands import nbgrader_command

pytestmark = pytest.mark.rehearsal


@pytest.fixture(scope="module")
def course(tmp_path_factory, repository) -> Path:
    """Two submissions, graded once."""
    root = tmp_path_factory.mktemp("class") / "course"
    assignment = Assignment.load(toy_course(root, repository))
    nbgrader_command(root, "generate_assignment", "ps1")
    for student in ("ann", "bob"):
        write_submission(root / "submitted" / student / "ps1" / "toy.ipynb", submission(assignment))
    grade_class.grade_class(root, [], Console(quiet=True))
    return root


def penalties_of(root: Path) -> dict[str, float | None]:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as gradebook:
        return {
            submission.student.id: submission.notebooks[0].late_submission_penalty
            for submission in gradebook.assignment_submissions("ps1")
        }


def due(root: Path, day: str) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{root / 'gradebook.db'}", "gpucourse") as gradebook:
        gradebook.update_or_create_assignment("ps1", duedate=f"2026-11-{day} 00:00:00 UTC")


def test_a_late_penalty_goes_when_the_due_date_is_moved(course, tmp_path):
    root = tmp_path / "course"
    shutil.copytree(course, root)
    with (root / "nbgrader_config.py").open("a") as file:
        file.write('\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    for student, day in {"ann": "25", "bob": "23"}.items():
        (root / "submitted" / student / "ps1" / "timestamp.txt").write_text(
            f"2026-11-{day} 10:00:00.000000 UTC"
        )
    penalties = []
    for day in ("24", "30", "24"):
        due(root, day)
        assert grade_class.grade_class(root, [], Console(quiet=True)) == grade_class.GRADED
        penalties.append(list(penalties_of(root).values()))
    assert penalties == [[5.0, None], [None, None], [5.0, None]]


@pytest.mark.parametrize("name", ["a [x]", "*", "what?"])
def test_a_name_that_nbgrader_takes_for_a_pattern_is_refused_in_words(course, tmp_path, name):
    """Others are graded; a folder for which there would be no feedback is not, and is told."""
    root = tmp_path / "course"
    shutil.copytree(course, root)
    shutil.copytree(root / "submitted" / "ann", root / "submitted" / name)
    console = Console(record=True, width=300)
    grade_class.grade_class(root, [], console)
    said = console.export_text()
    assert f"submitted/{name!a}: not graded" in said and "Rename the folder" in said
    assert not (root / "verdicts" / name).exists()
    assert set(penalties_of(root)) == {"ann", "bob"}
