"""Execution of every lesson for the site and the slides."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.registry import Course
from gpucourse.publish.notebooks.derive import solution
from gpucourse.publish.notebooks.execution import solved
from gpucourse.publish.notebooks.rehearsal import judge_solved
from gpucourse.publish.notebooks.three_hours import read_tutorial
from gpucourse.publish.source.gallery import read_gallery
from gpucourse.publish.source.links import without_anchors
from gpucourse.publish.source.reader import Source, read_course

#: Number of lessons that run at a time; each takes a core and up to 1 GB.
JOBS = max(1, min(4, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Shown:
    """One lesson's source and its executed solution."""

    source: Source
    notebook: NotebookNode


def _as_a_page(notebook: NotebookNode) -> NotebookNode:
    """Remove the anchors in place, because the site and the slides have their own."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = without_anchors(cell.source)
    return notebook


def show_course(
    root: Path, *, run: bool = True, notice: Callable[[str], object] = str, jobs: int = JOBS
) -> tuple[Course, list[Shown]]:
    """Execute every lecture and project, the gallery and the tutorial.

    Without ``run``, they are only read. Raises CourseError, with the mistakes of all lessons, if a
    cell does something wrong.
    """
    course, read = read_course(root)
    sources = [*read]
    if gallery := read_gallery(course):
        sources = [*sources, gallery]
    if tutorial := read_tutorial(course, read):
        sources = [*sources, tutorial]

    def show(source: Source) -> Shown | CourseError:
        try:
            done = solved(course, source, lambda done: judge_solved(course, source, done), notice)
            return Shown(source, _as_a_page(done))
        except CourseError as error:
            return error
        except Exception as error:  # the kernel ended, or a cell took too long
            path = source.path.relative_to(root)
            return CourseError([Problem(path, None, f"{type(error).__name__}: {error}")])

    if not run:
        return course, [Shown(source, _as_a_page(solution(course, source))) for source in sources]
    with ThreadPoolExecutor(jobs) as pool:
        shown = list(pool.map(show, sources))
    failed = [error for error in shown if isinstance(error, CourseError)]
    if failed:
        raise CourseError([problem for error in failed for problem in error.problems])
    return course, [one for one in shown if isinstance(one, Shown)]
