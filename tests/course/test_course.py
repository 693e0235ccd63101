"""What is generated from course/ is current. `make check` runs every lesson from top to bottom."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest

from conftest import REPOSITORY
from gpucourse.course.registry import Project, load_course
from gpucourse.publish.notebooks.derive import notebook_text
from gpucourse.publish.notebooks.outputs import Plan, plan
from gpucourse.publish.source.reader import read_source
from released_by_nbgrader import nbgrader_release

COURSE = load_course(REPOSITORY)
each = pytest.mark.parametrize("project", COURSE.projects, ids=lambda project: project.id)


@pytest.fixture(scope="module")
def built() -> Plan:
    """What a build would write: 3 s."""
    return plan(REPOSITORY)


def test_the_generated_notebooks_are_current(built):
    assert (built.changed, built.superfluous) == ([], []), "run `make build` and commit the result"


@pytest.mark.rehearsal
def test_a_fresh_build_gives_the_same_text(built):
    assert plan(REPOSITORY).texts == built.texts


def test_no_other_notebook_hides_in_the_generated_folders(built):
    texts = built.texts
    for folder in ("lectures", "solutions", "projects", "grading/source"):
        found = {path.relative_to(REPOSITORY) for path in (REPOSITORY / folder).rglob("*.ipynb")}
        assert {path for path in found if ".ipynb_checkpoints" not in path.parts} <= texts.keys()


@pytest.mark.rehearsal
@each
def test_a_released_project_is_what_nbgrader_releases(project: Project, tmp_path: Path):
    id = project.id
    released = nbgrader_release(REPOSITORY / "grading" / "source", id, tmp_path / "class")
    ours = (REPOSITORY / "projects" / id / f"{id}.ipynb").read_text(encoding="utf-8")
    assert notebook_text(nbformat.read(released, as_version=4)) == ours


SAYS = re.compile(
    r"\b(are|is) counted|[Cc]ounted (is|are)|counts? the\s+(work|busiest|instructions)"
)


@each
def test_the_text_of_each_parallel_step_says_what_is_counted(project: Project):
    step, silent, tests = "", [], 0
    for cell in read_source(COURSE, project).cells:
        if cell.kind == "markdown":
            step = cell.source if cell.source.startswith("## ") else step + cell.source
        elif cell.role == "test" and "expect_parallel(" in cell.source:
            tests += 1
            silent += [] if SAYS.search(step) else [cell.name]
    assert tests and not silent, silent


LIST = re.compile(r"(1[.)]|[-+*]) ")


def test_no_line_of_a_paragraph_begins_a_list():
    """Where a line breaks before `- e)` or after `block`, Markdown reads a list item."""
    wrong = []
    for lesson in (*COURSE.lectures, *COURSE.projects):
        for cell in read_source(COURSE, lesson).cells:
            if cell.kind == "markdown":
                for before, line in pairwise(cell.source.splitlines()):
                    prose = before[:1].strip() and not LIST.match(before)
                    if LIST.match(line) and prose:
                        wrong.append((lesson.id, cell.name, line))
    assert not wrong
