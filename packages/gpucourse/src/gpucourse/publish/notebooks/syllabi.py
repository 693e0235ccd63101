"""Timetables in ``docs/syllabi``, with checks of their times and of the rule in :mod:`.pace`.

A row is ``| 0:30 | 20 | what, with [links](../../lectures/ID.ipynb#a-section) |``. A link without
a section refers to the whole lesson, one with a section to a part. Learners write answers in parts
that people *work* on, and in rows that say *with its exercise*. Other parts are only shown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpucourse.course.problems import Problem
from gpucourse.course.registry import Course, Lecture
from gpucourse.publish.notebooks import pace
from gpucourse.publish.source.reader import Cell, Source

FOLDER = Path("docs") / "syllabi"
_ROW = re.compile(r"\| *([\d:]*) *\| *(\d+) *\| *(.+?) *\|")
_LINK = re.compile(r"\]\(\.\./\.\./[\w/]+/(\d\d_\w+|gallery)\.ipynb(?:#([^)]+))?\)")
_WRITTEN = re.compile(r"^(Work|Project)\b|with its exercise")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a timetable.

    It has a start and a length in minutes, and the (lesson, section) of its links. The section ""
    is the whole lesson; the start is None in a row without a time.
    """

    start: int | None
    minutes: int
    text: str
    links: tuple[tuple[str, str], ...]

    @property
    def whole(self) -> set[str]:
        """Lessons that are linked as a whole."""
        return {id for id, section in self.links if not section}

    @property
    def parts(self) -> set[str]:
        """Lessons of which sections are linked."""
        return {id for id, section in self.links if section}

    @property
    def written(self) -> bool:
        """Return True if learners write answers in this row."""
        return bool(_WRITTEN.search(self.text))

    @property
    def review(self) -> bool:
        """Return True if earlier answers are discussed."""
        return self.text.startswith("Review")


def read(path: Path) -> list[Row]:
    """Return the timetable of a syllabus."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if (cells := _ROW.fullmatch(line)) is None:
            continue
        hour = re.fullmatch(r"(\d+):(\d\d)", cells[1])
        start = 60 * int(hour[1]) + int(hour[2]) if hour else None
        rows.append(Row(start, int(cells[2]), cells[3], tuple(_LINK.findall(cells[3]))))
    return rows


def part(source: Source, section: str) -> list[Cell]:
    """Return the cells of a section by its anchor; empty if there is no such section."""
    return pace.sections(source).get(section, [])


def taken(row: Row, before: Iterable[Row], source: Source) -> list[Cell]:
    """Return the cells that a timetable row takes from a lesson; ``before`` are already known.

    Notes, cells about the whole lesson and exercises that are not done are left out. A review
    shows the answers below the headings of steps that learners have worked on.
    """
    read = {link for earlier in before if earlier.written for link in earlier.links}
    shown = isinstance(source.lesson, Lecture) and not row.written
    found = []
    for id, section in row.links:
        for cell in part(source, section) if section and id == source.lesson.id else ():
            tags, text = set(cell.tags), cell.source
            if tags & {"room", "whole"} or (
                shown and ("exercise" in tags or text.startswith("check("))
            ):
                continue
            if cell.kind == "markdown" and shown:
                text = re.split(r"(?m)^### Exercise", text)[0].rstrip()
            if cell.kind == "markdown" and row.review and (id, section) in read:
                text = text.partition("\n")[0] if text.startswith("#") else ""
            if text:
                found.append(replace(cell, source=text))
    return found


def mistakes(rows: list[Row], course: Course, sources: Iterable[Source]) -> Iterator[str]:
    """Yield disagreements with the clock, with ``course.toml``, or with the rule of pace."""
    known = {lesson.id: lesson for lesson in course.lessons}
    texts = {source.lesson.id: source for source in sources}
    timed = [row for row in rows if row.start is not None]
    for row, following in itertools.pairwise(timed):
        assert row.start is not None
        if row.start + row.minutes != following.start:
            yield f"{row.text[:30]}: no row begins when this one ends"
    minutes: dict[str, int] = {}
    for number, row in enumerate(rows):
        for id in sorted((row.whole | row.parts) - known.keys()):
            yield f"{id} is no lesson"
        if len(row.whole) > 1 or (row.whole and row.parts):
            yield f"{row.text[:30]}: a row contains either one whole lesson or parts"
        for id in row.whole & known.keys():
            if known[id].minutes != row.minutes:
                yield f"{id}: {row.minutes} minutes here, {known[id].minutes} in the course"
        for id in row.parts & known.keys():
            minutes[id] = minutes.get(id, 0) + row.minutes
            if isinstance(known[id], Lecture) and minutes[id] >= known[id].minutes:
                yield f"parts of {id} take as long as all of it"
        counted = sum(
            pace.minutes(texts[id], taken(row, rows[:number], texts[id]), answers=row.written)
            for id in row.parts & texts.keys()
        )
        if row.minutes < counted - pace.GRAIN / 2:
            yield (f"{row.text[:30]}: {row.minutes} minutes, and its sections count {counted:.0f}")


def problems(course: Course, sources: list[Source]) -> list[Problem]:
    """Return the mistakes of all syllabi, if the course has any."""
    return [
        Problem(path.relative_to(course.root), None, text)
        for path in sorted((course.root / FOLDER).glob("*.md"))
        for text in mistakes(read(path), course, sources)
    ]
