"""Duration of lessons, sections and syllabi in minutes, computed by one rule.

A learner reads prose and code, runs cells, considers predictions and writes answers. The minutes
for each are assumptions, chosen so that the sums agree with the plan of the lectures; **nobody has
been timed yet**. If you have timed a class, change the numbers here. ``gpucourse check`` then
names every lesson and syllabus to update.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpucourse.course.regions import HIDDEN_TESTS, remove_regions
from gpucourse.course.registry import Lecture
from gpucourse.publish.notebooks.derive import starter_source
from gpucourse.publish.source.links import slug
from gpucourse.publish.source.questions import asked
from gpucourse.publish.source.reader import ANSWERS, Cell, Source

#: Words of prose that a learner reads and understands in a minute.
WORDS = 180
#: Lines of code that a learner reads in a minute.
LINES = 40
#: Minutes to run a cell and look at its output, to decide on a prediction, to write the answer to a
#: lecture's exercise, and to write a step of a project.
RUN, PREDICTION, EXERCISE, STEP = 0.5, 1.0, 4.0, 18.0
#: ``course.toml`` and syllabi state multiples of this number, and may differ by one multiple.
GRAIN = 5

_NOT_READ = re.compile(r"```.*?```|!\[.*?\]\([^)]*\)|(?<=\])\([^)]*\)", re.DOTALL)


def minutes(source: Source, cells: Iterable[Cell] | None = None, *, answers: bool = True) -> float:
    """Return the minutes for a lesson or ``cells``; without ``answers``, nothing is written."""
    total = 0.0
    for cell in required(source.cells) if cells is None else cells:
        if "room" in cell.tags:
            continue
        exercise = "exercise" in cell.tags or cell.role in ANSWERS
        if cell.kind == "markdown":
            total += words(cell) / WORDS
        elif asked(cell):
            total += PREDICTION
            continue
        else:
            shown = remove_regions(cell.source, HIDDEN_TESTS)
            shown = starter_source(shown) if exercise else shown
            total += (shown.count("\n") + 1) / LINES + RUN
        if exercise and answers:
            total += EXERCISE if isinstance(source.lesson, Lecture) else STEP
    return total


def optional(source: Source) -> float:
    """Return the minutes of the part of a lesson that may be left out."""
    return minutes(source, source.cells) - minutes(source)


def required(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield the cells that a lesson's minutes count.

    A cell with the tag ``further`` begins a part that learners may leave out. It ends before the
    keypoints.
    """
    further = False
    for cell in cells:
        further = (further or "further" in cell.tags) and "keypoints" not in cell.tags
        if not further:
            yield cell


def words(cell: Cell) -> int:
    """Return the number of words of prose in a cell, without link addresses and pictures."""
    if cell.kind != "markdown":
        return 0
    return len(re.findall(r"\w+", _NOT_READ.sub(" ", cell.source)))


def rounded(counted: float) -> int:
    """Return minutes rounded as they are printed."""
    return max(GRAIN, GRAIN * round(counted / GRAIN))


def sections(source: Source) -> dict[str, list[Cell]]:
    """Return the cells below each ``##`` heading, by the heading's anchor."""
    found: dict[str, list[Cell]] = {}
    current = found.setdefault("", [])
    for cell in source.cells:
        heading = re.search(r"^## +(.+?) *$", cell.source, re.MULTILINE)
        if cell.kind == "markdown" and heading:
            current = found.setdefault(slug(heading[1]), [])
        current.append(cell)
    return found
