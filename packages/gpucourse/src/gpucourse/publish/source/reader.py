"""Strict reader of the course's sources, which are jupytext ``py:percent`` files.

A broken rule is an error that names file and line. The reader never guesses, because a forgotten
marker would publish a solution, and a misspelt tag would hide a deliberate failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

import jupytext
from jupytext.magics import is_magic
from nbformat import NotebookNode

from gpucourse.course.predictions import read_predictions
from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.puzzles import PuzzleError, expanded, is_marker
from gpucourse.course.regions import (
    HIDDEN_TESTS,
    SOLUTION,
    MarkerError,
    find_regions,
    remove_regions,
)
from gpucourse.course.registry import (
    PREDICTIONS,
    SOURCE,
    Course,
    Lecture,
    Lesson,
    Project,
    load_course,
)
from gpucourse.publish.source import wording
from gpucourse.system.language import catalogue, language

#: Tags that a cell may have, with their meanings.
TAGS = {
    "exercise": "a lecture's exercise: its solution regions are released as a starter",
    "room": "a note for the instructor in the room: in solutions/ only",
    "predict": "asks for a prediction before the next cell runs",
    "why": "what came out of a predicted cell, and why: folded until the learner opens it",
    "whole": "true of the whole lesson only: left out where a tutorial takes a part of it",
    "further": "begins a part that may be left out and takes no minutes; it ends at the keypoints",
    "keypoints": "the sentences to take away",
}
#: Roles that a project's cell may have; each becomes nbgrader metadata.
ROLES = ("setup", "solution", "test", "written")
#: Tag that no source file contains: a folded cell that a part of a lesson needs (``three_hours``).
SET_UP = "set-up"
#: Roles whose text the learner writes: code that is tested, prose that a person marks.
ANSWERS = ("solution", "written")
#: Greatest number of lines of a released code cell, so that it fits on a screen.
SCREEN_LINES = 45

_KEYS = {"id", "tags", "raises", "role", "points", "starter"}
# Metadata that jupytext itself writes to restore a notebook.
_JUPYTEXT_KEYS = {"lines_to_next_cell", "lines_to_end_of_cell_marker"}
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_LENGTH = 40
_ERROR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a source.

    ``name`` is the id that the author gave, ``line`` the source line of its marker, ``raises`` the
    error types of a deliberate failure, and ``starter`` the error type that an unsolved project
    raises here.
    """

    name: str
    kind: str
    source: str
    line: int
    tags: tuple[str, ...] = ()
    raises: tuple[str, ...] = ()
    role: str | None = None
    points: float | None = None
    starter: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Source of one lesson: its registry entry, its file and its cells in order.

    A lesson that is composed of others lists them.
    """

    lesson: Lesson
    path: Path
    cells: tuple[Cell, ...] = field(default=())
    made_of: tuple[Lesson, ...] = ()


def read_course(root: Path) -> tuple[Course, list[Source]]:
    """Read the registry and every source it lists.

    Raises :class:`CourseError` with every mistake of all files together.
    """
    course = load_course(root)
    problems = list(_files_out_of_step(course))
    sources = []
    for lesson in course.lessons:
        if course.source(lesson).is_file():
            try:
                sources.append(read_source(course, lesson))
            except CourseError as error:
                problems.extend(error.problems)
    if problems:
        raise CourseError(problems)
    return course, sources


def read_source(course: Course, lesson: Lesson, path: Path | None = None) -> Source:
    """Read one lesson's source, in the learner's language.

    Raises :class:`CourseError` with every mistake in it.
    """
    path = path or course.source(lesson)
    shown = path.relative_to(course.root)
    if not path.is_file():
        raise CourseError([Problem(shown, None, "missing: write it")])
    written = path.read_text(encoding="utf-8")
    try:
        lines, origins = expanded(written, course.puzzles(lesson))
    except PuzzleError as error:
        raise CourseError([Problem(shown, None, str(error))]) from error
    text = "\n".join(lines)
    starts = [number for number, line in enumerate(lines) if re.match(r"# %%(\s|$)", line)]
    if not starts or any(line.strip() for line in lines[: starts[0]]):
        raise CourseError([Problem(shown, 1, "the file must begin with a cell marker '# %%'")])

    notebook = _parsed(text)
    if len(notebook.cells) != len(starts):
        message = f"{len(starts)} markers but jupytext reads {len(notebook.cells)} cells"
        raise CourseError([Problem(shown, None, message)])

    problems: list[Problem] = []
    cells = []
    for start, end, raw in zip(starts, [*starts[1:], len(lines)], notebook.cells, strict=True):
        block = lines[start:end]
        for line, message in _cell_mistakes(raw, block, lesson):
            problems.append(Problem(shown, origins[min(start + line, end - 1)], message))
        cells.append(_as_cell(raw, origins[start]))
    problems.extend(Problem(shown, line, text) for line, text in _source_mistakes(cells, lesson))
    if problems:
        raise CourseError(sorted(problems, key=lambda problem: problem.line or 0))
    if language():
        cells = _worded(cells, path, written.split("\n"))
    return Source(lesson, path, tuple(cells))


def _worded(cells: list[Cell], path: Path, written: list[str]) -> list[Cell]:
    """Return the translated cells, after one that sets the language.

    Puzzle cells are translated already.
    """
    words, predictions = catalogue(path.parent), read_predictions(path.with_name(PREDICTIONS))
    worded = [Cell("language", "code", wording.setting(), 1)]
    for cell in cells:
        say = partial(words.pgettext, cell.name)
        text = cell.source
        if cell.kind == "code" and cell.role is None:
            text = wording.code(text, say, predictions)
        elif cell.role is None and not is_marker(written[cell.line - 1]):
            text = wording.markdown(text, say)
        worded.append(replace(cell, source=text))
    return worded


@lru_cache(maxsize=64)
def _parsed(text: str) -> NotebookNode:
    """Return jupytext's notebook, cached because parsing takes 0.1 s a lesson; do not change it."""
    return jupytext.reads(text, fmt="py:percent")


def _files_out_of_step(course: Course) -> Iterator[Problem]:
    """Yield listed files that are missing, and files that nothing lists."""
    registry = Path("course") / "course.toml"
    listed = {course.source(lesson) for lesson in course.lessons}
    checks = {course.checks(lesson) for lesson in course.lessons}
    for path in sorted(listed | checks):
        if not path.is_file():
            shown = path.relative_to(course.root)
            yield Problem(registry, None, f"lists a lesson whose {shown} is missing: write it")
    folder = course.root / "course"
    found = {
        path.with_name(SOURCE)
        for kind in ("lectures", "projects")
        for path in folder.glob(f"{kind}/*/*.py")
    }
    for path in sorted(found - listed):
        shown = path.relative_to(course.root)
        yield Problem(shown, None, f"not listed in {registry}: add an entry, or remove the file")


def _as_cell(raw, line: int) -> Cell:
    meta = raw.metadata
    raises = meta.get("raises", ())
    return Cell(
        name=str(meta.get("id", "")),
        kind=raw.cell_type,
        source=raw.source,
        line=line,
        tags=tuple(meta.get("tags", ())),
        raises=(raises,) if isinstance(raises, str) else tuple(raises),
        role=meta.get("role"),
        points=meta.get("points"),
        starter=meta.get("starter"),
    )


def _cell_mistakes(raw, block: list[str], lesson: Lesson) -> Iterator[tuple[int, str]]:
    """Yield each broken rule of one cell: (line counted from the cell's marker, message)."""
    meta = {key: value for key, value in raw.metadata.items() if key not in _JUPYTEXT_KEYS}
    for key in sorted(meta.keys() - _KEYS):
        yield 0, f"unknown metadata {key!r}: known are {', '.join(sorted(_KEYS))}"
    name = meta.get("id")
    if not isinstance(name, str):
        yield 0, 'the cell has no id: write one into its marker, # %% id="bounds-guard"'
    elif not _NAME.fullmatch(name) or len(name) > _NAME_LENGTH:
        yield 0, f"id {name!r} must be kebab-case, at most {_NAME_LENGTH} characters"
    elif name == "title":
        yield 0, "the title cell is generated from course.toml: remove this cell"
    if not raw.source.strip():
        yield 0, "the cell is empty"
    tags = meta.get("tags", [])
    for tag in tags if isinstance(tags, list) else [tags]:
        if tag == "raises-exception":
            yield 0, 'say which error: raises="MemoryAccessError" (it adds the tag by itself)'
        elif tag not in TAGS:
            yield 0, f"unknown tag {tag!r}: known are {', '.join(TAGS)}"
    raises = meta.get("raises", [])
    for error in [raises] if isinstance(raises, str) else raises:
        if not _ERROR_NAME.fullmatch(str(error)):
            yield 0, f"raises={error!r} is not the name of an error type"
    if raises and raw.cell_type != "code":
        yield 0, "only a code cell can raise"

    if raw.cell_type == "code":
        for number, line in enumerate(block):
            bare = line.lstrip().lstrip("# ")
            if line.lstrip().startswith("#") and is_magic(line, "python", True, True):
                if not bare.startswith(("%", "!", "?")):
                    yield number, f"jupytext takes the comment {line.strip()!r} for a magic: reword"
    yield from _region_mistakes(raw, meta, lesson)


def _region_mistakes(raw, meta: dict, lesson: Lesson) -> Iterator[tuple[int, str]]:
    """Yield markers, roles and points at places where they are not allowed."""
    try:
        kinds = [region.kind for region in find_regions(raw.source)]
    except MarkerError as error:
        yield error.line + 1, str(error)
        return
    shown = remove_regions(raw.source, HIDDEN_TESTS).count("\n") + 1
    if raw.cell_type == "code" and shown > SCREEN_LINES:
        yield 0, f"{shown} lines do not fit on a screen ({SCREEN_LINES}): split the cell"
    if "AUTOTEST" in raw.source:
        yield 0, "nbgrader takes the word AUTOTEST for an instruction of its own: leave it out"
    role = meta.get("role")
    if isinstance(lesson, Lecture):
        answer, holder = "exercise" in meta.get("tags", ()), 'tags=["exercise"]'
        for key in ("role", "points", "starter"):
            if key in meta:
                yield 0, f"{key} belongs to projects"
    else:
        answer, holder = role in ANSWERS, 'role="solution"'
        if "exercise" in meta.get("tags", ()):
            yield 0, 'a project\'s cells have role="solution" instead of the tag exercise'
        yield from _role_mistakes(raw, meta)
    if SOLUTION in kinds and not answer:
        yield 0, f"a solution region needs {holder} on its cell, or it would not be graded"
    if answer and SOLUTION not in kinds:
        yield 0, "the cell has no solution region: add '### BEGIN SOLUTION' and its END"
    if answer and role != "written" and raw.cell_type != "code":
        yield 0, "an exercise is a code cell"
    if HIDDEN_TESTS in kinds and role != "test":
        yield 0, 'hidden tests need role="test" on their cell, or they would be released'


def _role_mistakes(raw, meta: dict) -> Iterator[tuple[int, str]]:
    role = meta.get("role")
    if role is not None and role not in ROLES:
        yield 0, f"unknown role {role!r}: known are {', '.join(ROLES)}"
    if role == "setup" and raw.cell_type != "code":
        yield 0, "only a code cell can be set-up: text needs no role"
    points = meta.get("points")
    worthless = isinstance(points, bool) or not isinstance(points, int | float) or points <= 0
    if role == "written":
        if raw.cell_type != "markdown":
            yield 0, "a written answer is a markdown cell"
        if worthless:
            yield 0, "a written answer needs points=… (a positive number), given by a person"
    elif role != "test" and "points" in meta:
        yield 0, 'points belongs to a cell with role="test" or role="written"'
    if role != "test":
        if "starter" in meta:
            yield 0, 'starter belongs to a cell with role="test"'
        return
    if raw.cell_type != "code":
        yield 0, "a test is a code cell"
    if worthless:
        yield 0, 'a test cell needs points=… (a positive number): # %% id="…" role="test" points=2'
    if not _ERROR_NAME.fullmatch(str(meta.get("starter", ""))):
        yield 0, 'say which error the unsolved notebook gives here: starter="NotImplementedError"'
    if not remove_regions(raw.source, HIDDEN_TESTS).strip():
        yield 0, "the learner would see an empty test cell: begin it with a check"


def _source_mistakes(cells: list[Cell], lesson: Lesson) -> Iterator[tuple[int, str]]:
    """Yield broken rules about the cells of a lesson together."""
    seen: dict[str, int] = {}
    for cell in cells:
        if cell.name in seen:
            yield cell.line, f"id {cell.name!r} is taken by the cell on line {seen[cell.name]}"
        elif cell.name:
            seen[cell.name] = cell.line
    code = next((cell for cell in cells if cell.kind == "code"), None)
    if code is None or not code.source.startswith("%load_ext gpucourse"):
        line = code.line if code else 1
        yield line, "the first code cell must begin with '# %load_ext gpucourse'"
    if isinstance(lesson, Project):
        total = sum(cell.points for cell in cells if isinstance(cell.points, int | float))
        if total != lesson.points:
            yield 1, f"the cells give {total:g} points, course.toml says {lesson.points:g}"
        if not any(cell.role == "solution" for cell in cells):
            yield 1, 'a project needs a cell with role="solution"'
