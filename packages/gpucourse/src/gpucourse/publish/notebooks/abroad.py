"""Notebooks in another language: ``languages/de/lectures/…`` and ``languages/de/projects/…``.

A lesson is included as soon as its folder has a catalogue. Solutions are not generated, because
the code of the English ones is the same.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from nbformat import NotebookNode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.registry import load_course
from gpucourse.course.released import digest
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.source.links import relinked
from gpucourse.publish.source.reader import read_source
from gpucourse.system.language import speaking

FOLDER = Path("languages")


def derive(root: Path, language: str) -> dict[Path, str]:
    """Return the translated notebooks of all lessons with a catalogue: relative path to text.

    Raises :class:`CourseError`, also if no lesson has a catalogue.
    """
    with speaking(language):
        course = load_course(root)
        lessons = [
            lesson
            for lesson in course.lessons
            if (course.folder(lesson) / f"{language}.po").is_file()
        ]
        if not lessons:
            advice = f"no lesson has a {language}.po: gpucourse translate {language} ID creates one"
            raise CourseError([Problem(Path("course"), None, advice)])
        there = {notebook_path(lesson) for lesson in lessons}
        made = {}
        for lesson in lessons:
            notebook = notebooks.released(course, read_source(course, lesson))
            path = notebook_path(lesson)
            made[FOLDER / language / path] = notebooks.notebook_text(
                _moved(notebook, path, FOLDER / language, there)
            )
    return made


def _moved(notebook: NotebookNode, path: Path, folder: Path, there: set[Path]) -> NotebookNode:
    """Move a notebook to ``folder``.

    Its links lead to translated notebooks, or to the English ones where there is no translation.
    """

    def moved(target: str) -> str:
        if re.match(r"[a-z][a-z+.-]*:|#", target):
            return target
        name, mark, place = target.partition("#")
        meant = Path(os.path.normpath(path.parent / name))
        meant = folder / meant if meant in there else meant
        return Path(os.path.relpath(meant, (folder / path).parent)).as_posix() + mark + place

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = relinked(cell.source, moved)
    return notebooks.mark(notebook, digest(notebook))
