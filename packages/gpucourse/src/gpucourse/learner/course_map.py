"""Course map with the learner's progress, which ``gpucourse.progress()`` returns."""

from __future__ import annotations

import ast
import html
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from gpucourse.course.checkout import check_files, course_folder, notebook_path, registry
from gpucourse.course.predictions import find_predictions
from gpucourse.course.puzzles import puzzle_folder, read_puzzles
from gpucourse.course.registry import Lecture, Lesson
from gpucourse.learner import records
from gpucourse.learner.records import Records
from gpucourse.system.language import _
from gpucourse.system.settled import settled


class Section(NamedTuple):
    """The section of a notebook that contains the first unfinished exercise or test."""

    anchor: str
    heading: str


@dataclass(frozen=True, slots=True)
class LessonProgress:
    """One lesson on the map, with its number of ``parts`` (exercises or tests) and ``done`` ones.

    Optional parts are counted separately, in ``optional`` and ``optional_done``. ``path`` is the
    notebook's path from the course's folder. ``points`` are (earned, possible) in the last run of
    `gpucourse grade`. ``guessed`` of the ``asked`` predictions were answered. ``needs`` lists the
    ids of prerequisite lessons.
    """

    id: str
    title: str
    path: Path
    minutes: int
    what: str
    parts: int
    done: int
    points: tuple[float, float] | None = None
    asked: int = 0
    guessed: int = 0
    needs: tuple[str, ...] = ()
    next: Section | None = None
    core: bool = False
    optional: int = 0
    optional_done: int = 0

    @property
    def untouched(self) -> bool:
        """Return True if the lesson has exercises or tests and none of them is done."""
        return bool(self.parts) and self.sign == "○" and not self.guessed

    @property
    def finished(self) -> bool:
        """Return True if only optional parts are left; False for a lesson without exercises."""
        if self.points is not None and self.points[0] == self.points[1]:
            return True
        return 0 < self.parts == self.done

    @property
    def sign(self) -> str:
        """Return ✓ for a finished lesson, ◐ for one begun, ○ for any other."""
        if self.finished:
            return "✓"
        return "◐" if self.done or self.optional_done or self.points else "○"

    def __str__(self) -> str:
        text = (
            _("{done} of {parts} {what}").format(done=self.done, parts=self.parts, what=self.what)
            if self.parts
            else ""
        )
        if self.optional_done:
            text += _(", {done} of {parts} optional").format(
                done=self.optional_done, parts=self.optional
            )
        if self.guessed:
            text += _(", {guessed} of {asked} predictions").format(
                guessed=self.guessed, asked=self.asked
            )
        if self.points:
            text += _(", {earned:g} of {points:g} points from `gpucourse grade`").format(
                earned=self.points[0], points=self.points[1]
            )
        return text


@dataclass(frozen=True, slots=True)
class CourseMap:
    """Map of the course: a table in a notebook, lines of text in a terminal."""

    lessons: list[LessonProgress]
    root: Path
    trouble: str | None = None
    when: datetime = field(default_factory=datetime.now, compare=False)

    @property
    def next(self) -> LessonProgress | None:
        """Return the lesson to go on with.

        This is the first unfinished lesson that was begun or, if none was begun, the first
        unfinished lesson. If it needs a lesson that the learner has not begun, return that lesson
        instead.
        """
        chosen = self._begun_or_open
        while chosen and (missing := self._missing(chosen)):
            chosen = missing[0]
        return chosen

    @property
    def _begun_or_open(self) -> LessonProgress | None:
        open_ = [lesson for lesson in self.lessons if not lesson.finished]
        begun = [lesson for lesson in open_ if lesson.sign == "◐"]
        return next(iter([*begun, *open_]), None)

    def _missing(self, lesson: LessonProgress) -> list[LessonProgress]:
        """Return the lessons that ``lesson`` needs and the learner has not begun."""
        return [one for one in self.lessons if one.id in lesson.needs and one.untouched]

    def sum(self) -> str:
        """Return the total progress: exercises of lectures and tests of projects."""
        parts: dict[str, list[int]] = {}
        for lesson in self.lessons:
            if lesson.parts:
                known = parts.setdefault(_plural(lesson.what), [0, 0])
                known[0] += lesson.done
                known[1] += lesson.parts
        return ", ".join(
            _("{done} of {parts} {what}").format(done=done, parts=of, what=what)
            for what, (done, of) in parts.items()
        )

    def __str__(self) -> str:
        width = max((len(lesson.title) for lesson in self.lessons), default=0)
        lines = [f"{s.sign} {s.title:{width}}  {s}" for s in self.lessons]
        lines.append(self._go_on(f"{self.next.title} ({self.next.path})" if self.next else ""))
        if total := self.sum():
            lines.append(_("In all: {sum}").format(sum=total))
        if self.trouble:
            lines.append(f"! {self.trouble}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self), "text/html": self.html()}

    def html(self) -> str:
        """Return the map as tables whose links start from the running notebook's folder."""
        core = [lesson for lesson in self.lessons if lesson.core]
        deeper = [lesson for lesson in self.lessons if not lesson.core]
        if all(lesson.sign == "○" for lesson in self.lessons):
            # A newcomer should see the text below the map instead of many rows of "○".
            words = _("All {count} lessons; you have not begun any yet").format(
                count=len(self.lessons)
            )
            tables = self._folded(words, self.lessons)
        elif not core:
            tables = self._table(deeper)
        else:
            words = _("Deeper: {count} more lessons, {begun} begun").format(
                count=len(deeper), begun=sum(lesson.sign != "○" for lesson in deeper)
            )
            tables = self._table(core) + self._folded(words, deeper)
        shown = (
            f"<p>{self._go_on(self._link(self.next) if self.next else '', html.escape)}<br>"
            f"{_('In all: {sum}').format(sum=self.sum())}</p>{tables}"
            "<p><small>"
            + _("Progress at {time}. Run this cell again to update it.").format(
                time=f"{self.when:%H:%M}"
            )
            + "</small></p>"
        )
        if self.trouble:
            shown += f"<p>! {html.escape(self.trouble)}</p>"
        return shown

    def _table(self, lessons: list[LessonProgress]) -> str:
        rows = [
            f'<tr><td>{s.sign}</td><td style="text-align: left">{self._link(s)}</td>'
            f'<td style="text-align: left">{html.escape(str(s)).replace("`", "")}</td></tr>'
            for s in lessons
        ]
        return (
            "<table><thead><tr><th></th>"
            f'<th style="text-align: left">{_("lesson")}</th>'
            f'<th style="text-align: left">{_("done")}</th>'
            f"</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )

    def _folded(self, words: str, lessons: list[LessonProgress]) -> str:
        return f"<details><summary>{words}</summary>{self._table(lessons)}</details>"

    def _go_on(self, where: str, escape: Callable[[str], str] = str) -> str:
        if self.next is None:
            return _("You have finished every lesson.")
        said = f"{_('Go on with:')} {where}"
        waiting = self._begun_or_open
        if waiting and waiting is not self.next:
            said += " " + _("(“{lesson}” needs it)").format(lesson=escape(waiting.title))
        if self.next.next:
            said += ", " + _("next: {heading}").format(heading=escape(self.next.next.heading))
        return said

    def _link(self, lesson: LessonProgress) -> str:
        target = Path(os.path.relpath(self.root / lesson.path, Path.cwd())).as_posix()
        there = f"#{quote(lesson.next.anchor)}" if lesson.next and not lesson.untouched else ""
        return f'<a href="{quote(target)}{there}">{html.escape(lesson.title)}</a>'


def _plural(what: str) -> str:
    return _("exercises") if what == _("exercise") else what


def progress() -> CourseMap:
    """Return the map of the course with your progress so far.

    An exercise or a project's test counts once its check has passed in a notebook. Raises
    :class:`~gpucourse.course.checkout.NotInTheCourse`.
    """
    root = course_folder()
    known = records.read()
    course = registry(root)
    lessons = [
        _lesson_progress(root, lesson, known, core=lesson.id in course.core)
        for lesson in course.lessons
    ]
    return CourseMap(lessons, root, records.trouble())


def _lesson_progress(root: Path, lesson: Lesson, known: Records, *, core: bool) -> LessonProgress:
    path = notebook_path(lesson)
    cells = _cells(root / path)
    if isinstance(lesson, Lecture):
        every = set(_exercises(lesson.id))
        passed = every & known.exercises.get(lesson.id, set())
        what = _("exercise") if len(every) == 1 else _("exercises")
    else:
        every = set(_tests(cells))
        passed = every & known.cells
        what = _("tests")
    optional = _named(_further(cells), every)
    parts, done = every - optional, passed - optional
    points = known.points.get(lesson.id)
    asked = find_predictions(lesson.id).keys()
    guessed = asked & known.guesses.get(lesson.id, {}).keys()
    return LessonProgress(
        lesson.id,
        lesson.title,
        path,
        lesson.minutes,
        what,
        len(parts),
        len(done),
        points,
        len(asked),
        len(guessed),
        tuple(lesson.prerequisites),
        _first_open(cells, parts - done),
        core,
        len(optional),
        len(passed & optional),
    )


def _exercises(id: str) -> Iterator[str]:
    """Yield the names of a lecture's exercises, which are read without running its checks."""
    path = next((path for path in check_files(id) if path.is_file()), None)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    for node in tree.body:
        for call in getattr(node, "decorator_list", ()):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "exercise":
                yield ast.literal_eval(call.args[0])
    if path is not None:
        yield from read_puzzles(puzzle_folder(path))


def _cells(notebook: Path) -> list[dict]:
    """Return the cells of the learner's notebook, or none if it cannot be read."""
    try:
        cells = settled(notebook, lambda: json.loads(notebook.read_bytes()), ValueError)["cells"]
        return [{**cell, "source": "".join(cell["source"])} for cell in cells]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # the notebook was moved or damaged; the map still lists the lesson


def _tests(cells: list[dict]) -> Iterator[str]:
    """Yield the ids of a project's test cells."""
    with suppress(KeyError, TypeError, AttributeError):
        for cell in cells:
            if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("grade"):
                yield cell["id"]


def _further(cells: list[dict]) -> Iterator[dict]:
    """Yield the cells of the optional part (see :mod:`gpucourse.publish.notebooks.pace`)."""
    further = False
    for cell in cells:
        tags = cell.get("metadata", {}).get("tags", ())
        further = (further or "further" in tags) and "keypoints" not in tags
        if further:
            yield cell


def _named(cells: Iterable[dict], parts: set[str]) -> set[str]:
    """Return the names in ``parts`` that belong to these cells or that these cells check."""
    return {
        name
        for cell in cells
        if cell["cell_type"] == "code"
        for name in (cell.get("id"), *_CHECK.findall(cell["source"]))
        if name in parts
    }


#: A heading with the anchor that :func:`gpucourse.publish.source.links.anchored` adds above it.
_SECTION = re.compile(r'^<a id="([^"]+)"></a>\n#+ +(.+?)\s*$', re.MULTILINE)
_CHECK = re.compile(r"""^\s*check\(\s*["']([^"']+)""", re.MULTILINE)


def _first_open(cells: list[dict], open_: set[str]) -> Section | None:
    """Return the section of the first cell that checks one of ``open_``."""
    section = None
    for cell in cells:
        if cell["cell_type"] == "markdown":
            for found in _SECTION.finditer(cell["source"]):
                section = Section(found[1], found[2].replace("`", ""))
        elif cell.get("id") in open_ or open_.intersection(_CHECK.findall(cell["source"])):
            return section
    return None
