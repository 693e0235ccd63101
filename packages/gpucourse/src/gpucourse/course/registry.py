"""Registry of the course: lectures and projects in order, with their objectives."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path

from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.puzzles import Puzzle, puzzle_folder, read_puzzles
from gpucourse.system.language import catalogue, language

#: Files in a lesson's folder, ``course/lectures/ID`` or ``course/projects/ID``.
SOURCE, CHECKS, PREDICTIONS = "notebook.py", "checks.py", "predictions.toml"
_ID = re.compile(r"\d\d_[a-z0-9]+(_[a-z0-9]+)*")
# An objective must be something that can be checked.
_VAGUE = ("understand", "know", "learn", "appreciate", "be aware", "be familiar")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lecture:
    """Entry of one lecture.

    ``minutes`` is the time that the lecture takes in a class, including exercises, and
    ``optional`` the time of the part that may be left out. ``why`` is the reason to take it, which
    the previous lesson tells.
    """

    id: str
    title: str
    minutes: int
    objectives: list[str]
    prerequisites: list[str]
    why: str = ""
    optional: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One graded project; ``points`` is the sum over its test cells."""

    id: str
    title: str
    minutes: int
    objectives: list[str]
    prerequisites: list[str]
    points: float
    why: str = ""
    optional: int = 0


Lesson = Lecture | Project


@dataclass(frozen=True, slots=True)
class Course:
    """The registry, and the repository's root, from which its paths start.

    ``core`` lists the ids of the lessons that everybody takes, which come first.
    """

    root: Path
    title: str
    #: Lectures and projects in the order in which they are taken.
    lessons: list[Lesson]
    #: The ids of the core, in order.
    core: list[str] = field(default_factory=list)

    @property
    def lectures(self) -> list[Lecture]:
        """Return only the lectures, in order."""
        return [lesson for lesson in self.lessons if isinstance(lesson, Lecture)]

    @property
    def projects(self) -> list[Project]:
        """Return only the projects, in order."""
        return [lesson for lesson in self.lessons if isinstance(lesson, Project)]

    def lesson(self, id: str) -> Lesson:
        """Return the lecture or project of this id.

        Raises :class:`LookupError` that names the existing ids.
        """
        for lesson in self.lessons:
            if lesson.id == id:
                return lesson
        known = ", ".join(lesson.id for lesson in self.lessons) or "none yet"
        raise LookupError(f"course/course.toml lists no {id!r}; it lists: {known}")

    def folder(self, lesson: Lesson) -> Path:
        """Return the folder with all files of a lesson's source."""
        kind = "lectures" if isinstance(lesson, Lecture) else "projects"
        return self.root / "course" / kind / lesson.id

    def source(self, lesson: Lesson) -> Path:
        """Return the jupytext source of a lesson."""
        return self.folder(lesson) / SOURCE

    def checks(self, lesson: Lesson) -> Path:
        """Return the file with a lesson's checks and hints."""
        return self.folder(lesson) / CHECKS

    def predictions(self, lesson: Lesson) -> Path:
        """Return the file with the reasons of a lesson's predictions, which may not exist."""
        return self.folder(lesson) / PREDICTIONS

    def puzzles(self, lesson: Lesson) -> dict[str, Puzzle]:
        """Return a lesson's puzzles by name, in order; most lessons have none.

        Raises :class:`PuzzleError`.
        """
        return read_puzzles(puzzle_folder(self.checks(lesson)))


def load_course(root: Path, path: Path | None = None) -> Course:
    """Read the registry of the course in ``root``; a :class:`CourseError` lists every mistake.

    ``path`` is the registry if it is not ``course/course.toml``.
    """
    path = path or root / "course" / "course.toml"
    if not path.is_file():
        raise CourseError([Problem(path, None, "not found: run this in the course's repository")])
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CourseError([Problem(path, None, f"not valid TOML: {error}")]) from error

    problems: list[Problem] = []

    def report(message: str) -> None:
        problems.append(Problem(path, None, message))

    for key in tables.keys() - {"course", "lecture", "project"}:
        report(f"unknown table [{key}]: use [course], [[lecture]] and [[project]]")
    head = tables.get("course", {})
    if not {"title"} <= set(head) <= {"title", "core", "deeper"} or not isinstance(
        head.get("title"), str
    ):
        report(
            "[course] must hold a title, may hold the lists of ids core and deeper, and "
            "nothing else"
        )
    core = list(map(str, head.get("core", [])))
    lessons = [
        *_read_entries(tables, "lecture", Lecture, report),
        *_read_entries(tables, "project", Project, report),
    ]
    if order := [*core, *map(str, head.get("deeper", []))]:
        if not problems and sorted(order) != sorted(lesson.id for lesson in lessons):
            differing = set(order) ^ {lesson.id for lesson in lessons} or {"an id that comes twice"}
            report(
                "core and deeper must list each lesson once; look at "
                + ", ".join(sorted(differing))
            )
        lessons.sort(
            key=lambda lesson: order.index(lesson.id) if lesson.id in order else len(order)
        )
    course = Course(root, str(head.get("title", "")), lessons, core)
    for message in _inconsistencies(course.lessons):
        report(message)
    if problems:
        raise CourseError(problems)
    if language():
        lessons[:] = [_worded(course, lesson, path.parent) for lesson in lessons]
    return course


def _worded(course: Course, lesson: Lesson, registry: Path) -> Lesson:
    """Translate the lesson's entry with the catalogue beside the lesson, if there is one."""
    folder = course.folder(lesson)
    words = catalogue(folder if folder.is_dir() else registry / lesson.id)

    def say(text: str) -> str:
        return words.pgettext("course.toml", text) if text else text

    return replace(
        lesson,
        title=say(lesson.title),
        why=say(lesson.why),
        objectives=[*map(say, lesson.objectives)],
        prerequisites=[need if _ID.fullmatch(need) else say(need) for need in lesson.prerequisites],
    )


def find_root(start: Path | None = None) -> Path:
    """Return the nearest folder at or above ``start`` with a ``course/course.toml``.

    ``start`` is the current folder by default.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "course" / "course.toml").is_file():
            return folder
    missing = Path("course") / "course.toml"
    raise CourseError(
        [Problem(missing, None, f"not in {here} nor above it: run this in the course's repository")]
    )


def _read_entries(tables, kind, cls, report) -> list:
    entries = tables.get(kind, [])
    if not isinstance(entries, list):
        report(f"write [[{kind}]] (a list of tables), not [{kind}]")
        return []
    read = []
    for number, entry in enumerate(entries, start=1):
        name = f"[[{kind}]] number {number} ({entry.get('id', 'without id')})"
        if mistakes := list(_entry_mistakes(entry, cls)):
            for mistake in mistakes:
                report(f"{name}: {mistake}")
        else:
            read.append(cls(**entry))
    return read


def _entry_mistakes(entry: dict, cls: type) -> Iterator[str]:
    wanted: dict[str, type | tuple[type, ...]] = {
        "id": str,
        "title": str,
        "minutes": int,
        "optional": int,
        "objectives": list,
        "prerequisites": list,
        "points": (int, float),
        "why": str,
    }
    known = {field.name for field in fields(cls)}
    names = {field.name for field in fields(cls) if field.default is MISSING}
    for key in sorted(entry.keys() - known):
        yield f"unknown key {key!r}: known are {', '.join(sorted(known))}"
    for key in sorted(names - entry.keys()):
        yield f"key {key!r} is missing"
    for key in sorted(known & entry.keys()):
        value = entry[key]
        if not isinstance(value, wanted[key]) or isinstance(value, bool):
            yield f"{key} = {value!r} has the wrong type"
        elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
            yield f"{key} must be a list of strings"
        elif isinstance(value, int | float) and value <= 0:
            yield f"{key} = {value} must be positive"
    if isinstance(id := entry.get("id"), str) and not _ID.fullmatch(id):
        yield f"id {id!r} must look like 04_pycuda: two digits, then lower-case words"
    objectives = entry.get("objectives")
    if isinstance(objectives, list) and not objectives:
        yield "objectives is empty: say what the learner can do afterwards"
    for objective in objectives if isinstance(objectives, list) else ():
        if str(objective).lower().startswith(_VAGUE):
            yield f"objective {objective!r} cannot be checked: begin with write, predict, measure…"


def _inconsistencies(lessons: list[Lesson]) -> Iterator[str]:
    listed: set[str] = set()
    every = {lesson.id for lesson in lessons}
    for lesson in lessons:
        if lesson.id in listed:
            yield f"id {lesson.id!r} is listed twice: ids of lectures and projects share one space"
        for need in lesson.prerequisites:
            if not _ID.fullmatch(need):
                continue
            if need not in every:
                yield f"{lesson.id} needs {need!r}, which is not listed"
            elif need not in listed:
                yield f"{lesson.id} needs {need!r}, which comes after it: change the order"
        listed.add(lesson.id)
    for kind in (Lecture, Project):
        ids = [lesson.id for lesson in lessons if isinstance(lesson, kind)]
        for before, after in pairwise(ids):
            if before[:2] >= after[:2]:
                yield f"{after} is taken after {before}: numbers follow the order"
