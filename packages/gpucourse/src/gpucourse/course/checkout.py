"""Location of the course's folder and of its files.

It is the checkout that contains a path, the checkout that this package is imported from, or the
copy of the lessons in an installation.

A checkout is a folder that contains ``course/course.toml``. A learner may have a handout instead,
which contains ``welcome.ipynb`` and ``lectures/`` but no sources.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpucourse.course.registry import (
    CHECKS,
    PREDICTIONS,
    Course,
    Lecture,
    Lesson,
    load_course,
)
from gpucourse.system.errors import CourseError

#: This package. A wheel includes copies in its folders ``lessons`` and ``recorded``.
PACKAGE = Path(__file__).resolve().parents[1]
REGISTRY = Path("course/course.toml")


class NotInTheCourse(CourseError, LookupError):
    """The course's folder was not found."""


def own_checkout() -> Path | None:
    """Return the checkout of this package, or None if it was installed from a wheel."""
    # The package may be so near the root of the file system that this parent does not exist.
    above = PACKAGE.parents[3:4]
    return next((root for root in above if (root / REGISTRY).is_file()), None)


def checkouts(*starts: Path) -> list[Path]:
    """Yield the checkouts around each of ``starts``, the nearest first, then our own."""
    own = own_checkout()
    around = [
        folder
        for start in starts
        for folder in (start.resolve(), *start.resolve().parents)
        if (folder / REGISTRY).is_file()
    ]
    return list(dict.fromkeys([*around, *([own] if own else [])]))


def course_folder(start: Path | None = None) -> Path:
    """Return the folder with ``welcome.ipynb`` and ``lectures/``.

    It is ``start`` (by default the working directory) or a folder above it. Raises
    :class:`NotInTheCourse`.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "lectures").is_dir() and (
            (folder / "welcome.ipynb").is_file() or (folder / REGISTRY).is_file()
        ):
            return folder
    raise NotInTheCourse(
        f"{here} is not inside the course's folder, where lectures/ and "
        "welcome.ipynb are: go there and try again"
    )


def registry(root: Path) -> Course:
    """Return the lessons, from the course's folder, the checkout, or the package's copy."""
    known = [folder / REGISTRY for folder in (root, own_checkout()) if folder]
    path = next((path for path in known if path.is_file()), None)
    return load_course(root, path or PACKAGE / "lessons" / "course.toml")


def check_files(id: str) -> Iterator[Path]:
    """Yield the paths where a lesson's checks may be, the likeliest first."""
    for folder in checkouts(Path.cwd()):
        for kind in ("lectures", "projects"):
            yield folder / "course" / kind / id / CHECKS
    yield PACKAGE / "lessons" / id / CHECKS


def prediction_files(id: str) -> Iterator[Path]:
    """Yield the paths where a lesson's predictions may be, beside its checks."""
    for path in check_files(id):
        yield path.with_name(PREDICTIONS)


def result_files(name: str) -> Iterator[Path]:
    """Yield the paths where a recorded result may be, the likeliest first."""
    for folder in checkouts(Path.cwd()):
        yield folder / "lab" / "results" / name
    yield PACKAGE / "recorded" / name


def solution_path(id: str) -> Path | None:
    """Return the path of a lesson's solution, relative to the course's folder.

    It is None if there is none, as in a handout.
    """
    path = Path("solutions") / f"{id}.ipynb"
    with suppress(NotInTheCourse):
        return path if (course_folder() / path).is_file() else None
    return None


def work_meant(given: Path) -> Path:
    """Return the project notebook, or nbgrader's course directory, meant by ``given``.

    ``given`` may be a name without ``.ipynb``, a project's folder or a project's id. Raises
    :class:`NotInTheCourse` with the path that was looked for and the nearest project.
    """
    if given.is_file() or (given / "source").is_dir():
        return given
    here = given.resolve()
    found = [
        path
        for path in (here.with_name(f"{here.name}.ipynb"), here / f"{here.name}.ipynb")
        if path.is_file()
    ]
    if found:
        return found[0]
    projects: list[Path] = []
    with suppress(NotInTheCourse):
        projects = sorted((course_folder() / "projects").glob("*/*.ipynb"))
    by_name = {path.stem: path for path in projects if path.stem == path.parent.name}
    if given.name in by_name:
        return by_name[given.name]
    if given.is_dir():
        return given
    close = difflib.get_close_matches(given.stem, by_name, n=1, cutoff=0.3)
    advice = f": did you mean {by_name[close[0]]}?" if close else ""
    raise NotInTheCourse(f"there is no notebook {given}{advice}")


def notebook_path(lesson: Lesson) -> Path:
    """Return the path of a lesson's notebook, relative to the course's folder."""
    if isinstance(lesson, Lecture):
        return Path("lectures") / f"{lesson.id}.ipynb"
    return Path("projects") / lesson.id / f"{lesson.id}.ipynb"
