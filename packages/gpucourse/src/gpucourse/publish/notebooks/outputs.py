"""Writer of the files that the build generates, with a report of those that are out of date.

Each file is replaced in one step, so that an interrupted build leaves only complete files. A
generated notebook whose lesson no longer exists is removed. A learner's own copy is never touched,
even in the same folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpucourse.course.checkout import notebook_path
from gpucourse.course.projects import repository_url
from gpucourse.course.registry import Project
from gpucourse.publish.notebooks import abroad, three_hours, welcome
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.notebooks.colab_copies import colab_copies
from gpucourse.publish.source import faq
from gpucourse.publish.source.gallery import NOTEBOOK, read_gallery
from gpucourse.publish.source.reader import read_course
from gpucourse.system.atomic import write_atomically

#: Generated folders, with patterns of the generated files in them.
GENERATED = (
    "lectures/*.ipynb",
    "solutions/*.ipynb",
    "projects/*/*.ipynb",
    "grading/source/*/*.ipynb",
    "welcome.ipynb",
    "lectures/colab/*.ipynb",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Expected contents of the generated folders, and the differences on disk.

    Paths are relative to the course's root. ``texts`` contains every generated file. ``changed``
    lists those that are missing or differ, and ``superfluous`` those that the build no longer
    generates. ``used`` lists files of both kinds that have been run and may contain work worth
    keeping.
    """

    root: Path
    texts: dict[Path, str]
    changed: list[Path]
    superfluous: list[Path]
    used: list[Path]

    @property
    def current(self) -> bool:
        """Return True if there is nothing to do."""
        return not self.changed and not self.superfluous


def plan(root: Path, language: str = "") -> Plan:
    """Derive everything from ``course/`` and compare it; write nothing. Raises ``CourseError``.

    With a ``language``, use its translated notebooks, which are in a separate folder.
    """
    texts = abroad.derive(root, language) if language else derive(root)
    folder = abroad.FOLDER / language if language else Path()
    changed = [path for path, text in texts.items() if _read(root / path) != text]
    found = {path.relative_to(root) for glob in GENERATED for path in root.glob(f"{folder}/{glob}")}
    superfluous = [path for path in sorted(found - texts.keys()) if _is_ours(root / path)]
    used = [path for path in [*changed, *superfluous] if _has_been_run(root / path)]
    return Plan(root, texts, changed, superfluous, used)


def derive(root: Path) -> dict[Path, str]:
    """Return every generated notebook and page under ``root``: relative path to text."""
    course, sources = read_course(root)
    derived = {}
    for source in sources:
        path = notebook_path(source.lesson)
        derived[path] = notebooks.released(course, source)
        derived["solutions" / Path(path.name)] = notebooks.solution(course, source)
        if isinstance(source.lesson, Project):
            derived["grading/source" / path.relative_to("projects")] = notebooks.project_source(
                course, source
            )
    derived[welcome.NOTEBOOK] = welcome.welcome_notebook(course)
    if gallery := read_gallery(course):
        derived[NOTEBOOK] = notebooks.lecture_notebook(course, gallery)
    if tutorial := three_hours.read_tutorial(course, sources):
        derived[notebook_path(tutorial.lesson)] = notebooks.lecture_notebook(course, tutorial)
    if url := repository_url(root):
        derived |= colab_copies(derived, url)
    texts = {path: notebooks.notebook_text(notebook) for path, notebook in sorted(derived.items())}
    page = faq.page(sources)
    return texts | ({faq.PAGE: page} if page else {})


def write(plan: Plan) -> None:
    """Update the generated folders to the plan."""
    for path in plan.changed:
        write_atomically(plan.root / path, plan.texts[path])
    for path in plan.superfluous:
        target = plan.root / path
        target.unlink()
        if target.parent.name == target.stem and not any(target.parent.iterdir()):
            target.parent.rmdir()


def _read(path: Path) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _has_been_run(path: Path) -> bool:
    """Return True if the notebook has outputs or execution counts, which the build never writes."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return False


def _is_ours(path: Path) -> bool:
    """Return True if the build wrote this notebook: its lesson's id is its file name."""
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        # A project's copy for Colab is in the same folder as those of lectures.
        return metadata["gpucourse"]["id"] == path.stem.removeprefix("project_")
    except (ValueError, KeyError, TypeError, OSError):
        return False
