"""A right notebook of project 1 in forty styles: every answer is found, whatever saved it.

And the notebooks of all four projects, written with other habits.
"""

from __future__ import annotations

import json

import pytest

from conftest import REPOSITORY
from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.course.registry import load_course
from gpucourse.grading.classes.batch import Grader, Job
from gpucourse.grading.commands.demo import solved
from gpucourse.grading.limits import Limits
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import Ingested, ingest_cells
from gpucourse.grading.submission.reading import parse_cells
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.source.reader import read_source
from gpucourse.system.language import speaking
from honest_habits import HABITS, accustomed
from honest_styles import STYLES, WRITTEN, place

PROJECT = "01_fill_a_histogram"
# What `make test` grades of them.
FEW = ("split-helper-above", "stripped-and-split", "all-code-in-one-cell")
# They hand in no text, which is a person's to judge.
NOTHING_WRITTEN = {"a-cell-for-each-function", "all-code-in-one-cell"}
ASKED = "differently"


def source_of(project):
    return REPOSITORY / "grading" / "source" / project / f"{project}.ipynb"


@pytest.fixture(scope="module")
def source():
    return source_of(PROJECT)


@pytest.fixture(scope="module")
def assignment(source) -> Assignment:
    return Assignment.load(source)


def translated(assignment: Assignment) -> dict:
    """The German notebook, solved."""
    answers = {cell.grade_id: cell.source for cell in assignment.solutions}
    with speaking("de"):
        course = load_course(REPOSITORY)
        lesson = read_source(course, course.lesson(PROJECT))
        notebook = json.loads(json.dumps(notebooks.released(course, lesson)))
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell["source"] = unwrap_regions(answers[name], SOLUTION)
    return notebook


def handed_in(name: str, assignment: Assignment) -> Ingested:
    notebook = translated(assignment) if name == "in-german" else solved(assignment)
    at = place(notebook, "reflection")
    notebook["cells"][at]["source"] = "\n\n".join(WRITTEN)
    content = STYLES[name](notebook) if name in STYLES else None
    data = json.dumps(notebook).encode() if content is None else content
    limits = Limits()
    return ingest_cells(parse_cells(data, limits.notebook_bytes), assignment, limits)


EVERY = [*STYLES, "in-german"]


@pytest.mark.parametrize("name", EVERY)
def test_every_answer_of_every_style_is_found(name, assignment):
    taken = handed_in(name, assignment)
    assert taken.fault is None
    assert taken.unchanged(assignment) == []
    written = taken.sources["reflection"]
    assert name in NOTHING_WRITTEN or [one for one in WRITTEN if one not in written] == []
    # Nothing of the course's own text is taken for the student's.
    assert "person reads" not in written and "In five sentences" not in written
    told = " ".join(taken.notices)
    assert "Delete" not in told and "not graded" not in told
    assert (ASKED in told) == (name == "an-older-version-above")


def graded(taken: dict[str, Ingested], source) -> dict[str, list[str]]:
    """Return the failed tests of each notebook, with their reasons."""
    lost = {}

    def judge(job, verdict):
        failed = [f"{one.test}: {one.reason}" for one in verdict.tests if not one.passed]
        lost[job.student] = failed or ([] if verdict.tests else [verdict.reason])

    with Grader(own_work=True, sources=[source]) as grader:
        grader.grade([Job(name, source, ingested) for name, ingested in taken.items()], judge)
    return lost


@pytest.mark.slow
def test_a_few_of_the_styles_have_full_marks(assignment, source):
    taken = {name: handed_in(name, assignment) for name in FEW}
    assert graded(taken, source) == {name: [] for name in FEW}


@pytest.mark.rehearsal
def test_the_class_of_forty_styles_has_full_marks(assignment, source):
    """40 of 40; what is right in a notebook is right in the grader."""
    assert len(EVERY) >= 40
    taken = {name: handed_in(name, assignment) for name in EVERY}
    assert graded(taken, source) == {name: [] for name in EVERY}


@pytest.mark.rehearsal
@pytest.mark.parametrize("project", [lesson.id for lesson in load_course(REPOSITORY).projects])
def test_habits_of_writing_cost_no_points(project):
    source, taken = source_of(project), {}
    assignment = Assignment.load(source)
    for name, habits in HABITS.items():
        notebook = accustomed(solved(assignment), assignment, habits)
        taken[name] = ingest_cells(notebook["cells"], assignment, Limits())
    assert graded(taken, source) == {name: [] for name in HABITS}
