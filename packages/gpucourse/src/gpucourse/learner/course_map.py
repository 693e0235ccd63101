"""``gpucourse.progress()``: the course's lessons in order, and what of each is done."""

from __future__ import annotations

import ast
import html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from gpucourse.course.checkout import check_files, course_folder, notebook_path, registry
from gpucourse.course.predictions import find_predictions
from gpucourse.course.puzzles import puzzle_folder, read_puzzles
from gpucourse.course.registry import Lecture, Lesson
from gpucourse.learner import records
from gpucourse.learner.records import Records
from gpucourse.system.language import _
from gpucourse.system.settled import settled


@dataclass(frozen=True, slots=True)
class LessonProgress:
    """One lesson on the map: how many of its ``parts`` (exercises or tests) are ``done``.

    ``path`` leads from the course's folder to the notebook; ``points`` are (earned, of) by the last
    `gpucourse grade`; ``guessed`` of ``asked`` predictions were answered.
    """

    title: str
    path: Path
    minutes: int
    what: str
    parts: int
    done: int
    points: tuple[float, float] | None = None
    asked: int = 0
    guessed: int = 0

    @property
    def finished(self) -> bool:
        """Return True if nothing is left to do; a lesson without exercises is never finished."""
        if self.points is not None and self.points[0] == self.points[1]:
            return True
        return 0 < self.parts == self.done

    @property
    def sign(self) -> str:
        """✓ finished, ◐ begun, ○ neither."""
        return "✓" if self.finished else "◐" if self.done or self.points else "○"

    def __str__(self) -> str:
        text = (
            _("{done} of {parts} {what}").format(done=self.done, parts=self.parts, what=self.what)
            if self.parts
            else ""
        )
        if self.guessed:
            text += _(", {guessed} of {asked} predictions").format(
                guessed=self.guessed, asked=self.asked
            )
        if self.points:
            text += _(", {earned:g} of {points:g} points by `gpucourse grade`").format(
                earned=self.points[0], points=self.points[1]
            )
        return text


@dataclass(frozen=True, slots=True)
class CourseMap:
    """Shown as a table in a notebook, as lines in a terminal."""

    lessons: list[LessonProgress]
    root: Path
    trouble: str | None = None
    when: datetime = field(default_factory=datetime.now, compare=False)

    @property
    def next(self) -> LessonProgress | None:
        """Return the lesson to go on with: one begun, else the first that is open."""
        open_ = [lesson for lesson in self.lessons if not lesson.finished]
        begun = [lesson for lesson in open_ if lesson.sign == "◐"]
        return next(iter([*begun, *open_]), None)

    def __str__(self) -> str:
        width = max((len(lesson.title) for lesson in self.lessons), default=0)
        lines = [f"{s.sign} {s.title:{width}}  {s}" for s in self.lessons]
        lines.append(self._go_on(f"{self.next.title} ({self.next.path})" if self.next else ""))
        if self.trouble:
            lines.append(f"! {self.trouble}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": str(self), "text/html": self.html()}

    def html(self) -> str:
        """Return a table; its links lead from the running notebook's folder to the lessons."""
        rows = [
            f'<tr><td>{s.sign}</td><td style="text-align: left">{self._link(s)}</td>'
            f'<td style="text-align: left">{html.escape(str(s)).replace("`", "")}</td></tr>'
            for s in self.lessons
        ]
        table = (
            "<table><thead><tr><th></th>"
            f'<th style="text-align: left">{_("lesson")}</th>'
            f'<th style="text-align: left">{_("done")}</th>'
            f"</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        )
        if all(lesson.sign == "○" for lesson in self.lessons):
            # A newcomer sees the page go on below, not rows of noughts.
            words = _("All {count} lessons, nothing done yet").format(count=len(self.lessons))
            table = f"<details><summary>{words}</summary>{table}</details>"
        shown = (
            f"<p>{self._go_on(self._link(self.next) if self.next else '')}</p>{table}"
            "<p><small>"
            + _("As of {time}. Run this cell again to see what is done since.").format(
                time=f"{self.when:%H:%M}"
            )
            + "</small></p>"
        )
        if self.trouble:
            shown += f"<p>! {html.escape(self.trouble)}</p>"
        return shown

    def _go_on(self, where: str) -> str:
        return f"{_('Go on with:')} {where}" if where else _("Everything is done.")

    def _link(self, lesson: LessonProgress) -> str:
        target = Path(os.path.relpath(self.root / lesson.path, Path.cwd())).as_posix()
        return f'<a href="{quote(target)}">{html.escape(lesson.title)}</a>'


def progress() -> CourseMap:
    """Return the map of the course with your progress so far.

    An exercise counts once its check has passed in a notebook, a project's test likewise.
    Raises :class:`~gpucourse.course.checkout.NotInTheCourse`.
    """
    root = course_folder()
    known = records.read()
    course = registry(root)
    lessons = [_lesson_progress(root, lesson, known) for lesson in course.lessons]
    return CourseMap(lessons, root, records.trouble())


def _lesson_progress(root: Path, lesson: Lesson, known: Records) -> LessonProgress:
    path = notebook_path(lesson)
    if isinstance(lesson, Lecture):
        parts = set(_exercises(lesson.id))
        done = parts & known.exercises.get(lesson.id, set())
        what = _("exercise") if len(parts) == 1 else _("exercises")
    else:
        parts = set(_tests(root / path))
        done = parts & known.cells
        what = _("tests")
    points = known.points.get(lesson.id)
    asked = find_predictions(lesson.id).keys()
    guessed = asked & known.guesses.get(lesson.id, {}).keys()
    return LessonProgress(
        lesson.title,
        path,
        lesson.minutes,
        what,
        len(parts),
        len(done),
        points,
        len(asked),
        len(guessed),
    )


def _exercises(id: str) -> Iterator[str]:
    """Yield the names of a lecture's checked exercises, read without running its checks."""
    path = next((path for path in check_files(id) if path.is_file()), None)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    for node in tree.body:
        for call in getattr(node, "decorator_list", ()):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "exercise":
                yield ast.literal_eval(call.args[0])
    if path is not None:
        yield from read_puzzles(puzzle_folder(path))


def _tests(notebook: Path) -> Iterator[str]:
    """Yield the ids of a project's test cells, from the notebook that the learner works in."""
    try:
        cells = settled(notebook, lambda: json.loads(notebook.read_bytes()), ValueError)["cells"]
        for cell in cells:
            if cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("grade"):
                yield cell["id"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return  # moved, or damaged: the map shows the lesson all the same
