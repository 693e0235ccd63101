"""The lessons in a table: minutes claimed and counted, words, exercises, predictions, figures.

    python -m lab.pages.lessons_table

*Counted* minutes are computed by ``gpucourse.publish.notebooks.pace`` from words, code and
exercises. They are an estimate; nobody was timed. *Before* are the words of prose above the first
exercise. Figures are drawings, and cells of code that draw. *Optional* minutes are counted for the
part of a lesson that may be left out, and no other column leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpucourse.publish.notebooks import pace
from gpucourse.publish.source.questions import asked
from gpucourse.publish.source.reader import ANSWERS, Cell, Source, read_course

REPOSITORY = Path(__file__).resolve().parents[2]
_DRAWS = re.compile(
    r"\b(Picture|draw_\w+|picture|gpucourse\.(race|timeline|tree|memory|report|compare))\("
)


class Row(NamedTuple):
    """One lesson of the table."""

    lesson: str
    claimed: int
    counted: int
    optional: int
    words: int
    before: int
    exercises: int
    predictions: int
    figures: int


def row(source: Source) -> Row:
    """Return what a lesson asks of its learners."""
    cells = [cell for cell in source.cells if "room" not in cell.tags]
    first = next((k for k, cell in enumerate(cells) if _is_exercise(cell)), len(cells))
    return Row(
        source.lesson.id,
        source.lesson.minutes,
        round(pace.minutes(source)),
        round(pace.optional(source)),
        sum(map(pace.words, cells)),
        sum(map(pace.words, cells[:first])),
        sum(map(_is_exercise, cells)),
        sum(asked(cell) is not None for cell in cells),
        sum(map(_figures, cells)),
    )


def table(sources: list[Source]) -> Iterator[str]:
    """The lines of the table, in Markdown."""
    yield "| " + " | ".join(Row._fields) + " |"
    yield "|---" + "|---:" * (len(Row._fields) - 1) + "|"
    for source in sources:
        yield (
            "| "
            + " | ".join(f"{value:,}" if isinstance(value, int) else value for value in row(source))
            + " |"
        )


def _is_exercise(cell: Cell) -> bool:
    return "exercise" in cell.tags or cell.role in ANSWERS


def _figures(cell: Cell) -> int:
    if cell.kind == "markdown":
        return cell.source.count("![")
    return bool(_DRAWS.search(cell.source)) and not asked(cell)


if __name__ == "__main__":
    print("\n".join(table(read_course(REPOSITORY)[1])))
