"""No hidden test asks what a visible one asked: a memorised answer is worth nothing."""

from __future__ import annotations

import secrets

import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import Project, load_course
from gpucourse.grading.submission.assignment import Assignment
from project_class import ProjectClass
from recorded_inputs import recorded, repeated
from threats import TEST_DOUBLE, host_notebook

PROJECTS = [lesson.id for lesson in load_course(REPOSITORY).lessons if isinstance(lesson, Project)]


@pytest.mark.rehearsal
@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("id", PROJECTS)
def test_no_hidden_test_repeats_a_public_input(id, tmp_path):
    assert repeated(ProjectClass(id, tmp_path).assignment, secrets.token_bytes(16)) == []


def small_course(hidden: str, visible: str = "np.arange(3.0)") -> Assignment:
    """The course of the threats with other inputs of `double`."""
    notebook = host_notebook()
    for cell in notebook.cells:
        if cell.source == TEST_DOUBLE:
            cell.source = (
                cell.source.replace("np.arange(3.0)", visible)
                .replace("[0.0, 2.0, 4.0]", f"2 * {visible}")
                .replace(HIDDEN, hidden)
            )
    return Assignment("host", notebook)


HIDDEN = 'secret_rng(f"{n}").uniform(-1, 1, n)'
THREE = "secret_rng().uniform(-1, 1, 3)"
NOTEBOOKS_NUMBERS = (
    "__import__('gpucourse.grading.testing.notebook_judge').grading.testing"
    ".notebook_judge.NotebookJudge(dict).seed('')"
)


@pytest.mark.parametrize(
    ("hidden", "visible", "found"),
    [
        (HIDDEN, "np.arange(3.0)", 0),
        ("np.arange(3.0)", "np.arange(3.0)", 3),
        # Fresh for each seed, and yet what the worker was asked a moment ago.
        (THREE, THREE, 3),
        # Fresh in the grader, but written down from the notebook, where everybody has the same.
        (f"np.random.default_rng(list({NOTEBOOKS_NUMBERS})).uniform(-1, 1, 3)", THREE, 3),
        # An output filled with another number is no other input; a single number is.
        ("np.full(5, 1.0 + n)", "np.zeros(5)", 3),
        ("np.full(1, 1.0 + n)", "np.zeros(1)", 0),
    ],
)
def test_a_repeated_input_is_seen(hidden, visible, found):
    pairs = repeated(small_course(hidden, visible), b"secret")
    assert [asked.name for asked, _ in pairs] == ["double"] * found


def test_all_questions_are_recorded():
    course = small_course(HIDDEN)
    public, graded = recorded(course, None), recorded(course, b"secret")
    assert len(public.visible_inputs) == len(graded.visible_inputs) == 2  # double and total
    assert (len(public.hidden_inputs), len(graded.hidden_inputs)) == (0, 3)
