"""Board of a lesson: for each puzzle the kernel that moves the fewest bytes and the fastest one.

The board is a file on the learner's machine, beside the records of progress, and needs no login.
Bytes are counted on the virtual GPU. Times are measured on a GPU; without one, no time is entered.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpucourse.course import renamed
from gpucourse.course.puzzles import Puzzle
from gpucourse.learner import records
from gpucourse.system.atomic import write_atomically
from gpucourse.system.language import _
from gpucourse.views.page import View, box, escape, head, note

#: The kernel of a puzzle fits on a screen; a longer text is not kept.
MOST_LETTERS = 8_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel that solved its puzzle: its text, its bytes, and its time with the GPU's name."""

    code: str
    bytes: int
    ms: float | None = None
    gpu: str | None = None


@dataclass(frozen=True, slots=True)
class Winners:
    """Winners of one puzzle: the kernels with the fewest bytes and the shortest time.

    ``ours`` is the number of bytes that the solution moved in its latest launch.
    """

    fewest: Entry
    shortest: Entry | None = None
    ours: int | None = None

    @property
    def parted(self) -> bool:
        """Return True if the kernel with the fewest bytes is not the fastest."""
        return self.shortest is not None and self.shortest.code != self.fewest.code


def place() -> Path:
    """Return the path of the board."""
    return records.place().with_name("puzzles.json")


def read(path: Path | None = None) -> dict[str, Winners]:
    """Return the winners by ``lesson/puzzle``, without unreadable ones; raise nothing."""
    found: dict[str, Winners] = {}
    try:
        known = json.loads((path or place()).read_text(encoding="utf-8"))
        items = known.items()
    except (OSError, ValueError, AttributeError, RecursionError):
        return found
    for name, one in items:
        with suppress(TypeError, KeyError, AttributeError):
            fewest, shortest = Entry(**one["fewest"]), one["shortest"]
            ours = one.get("ours")
            winners = Winners(
                fewest,
                Entry(**shortest) if shortest else None,
                ours if isinstance(ours, int) else None,
            )
            if _is_entry(fewest) and (winners.shortest is None or _is_timed(winners.shortest)):
                lesson, _, puzzle = name.partition("/")
                found[f"{renamed.today(lesson)}/{puzzle}"] = winners
    return found


def enter(name: str, entry: Entry, path: Path | None = None, *, ours: int | None = None) -> Winners:
    """Enter a kernel and return the winners; a time needs the GPU's name to count."""
    path = path or place()
    board = read(path)
    known = board.get(name)
    fewest = entry if known is None or entry.bytes < known.fewest.bytes else known.fewest
    shortest = known.shortest if known else None
    # Times on two GPUs cannot be compared, so the latest GPU starts a new record.
    if _is_timed(entry) and (
        shortest is None or shortest.gpu != entry.gpu or entry.ms < shortest.ms  # type: ignore[operator]
    ):
        shortest = entry
    if ours is None and known:
        ours = known.ours
    board[name] = winners = Winners(fewest, shortest, ours)
    with suppress(OSError):  # a full disk must not fail a check
        kept = {key: asdict(one) for key, one in board.items()}
        write_atomically(path, json.dumps(kept, indent=1) + "\n")
    return winners


def entry(kernel: Any, moved: int, ms: float | None, gpu: str | None) -> Entry:
    """Return the board's entry for a kernel."""
    try:
        code = textwrap.dedent(inspect.getsource(kernel.py_func))[:MOST_LETTERS]
    except (OSError, TypeError):
        code = getattr(kernel, "__name__", "a kernel")
    return Entry(code, moved, ms, gpu)


def _is_entry(one: Entry) -> bool:
    return isinstance(one.code, str) and isinstance(one.bytes, int)


def _is_timed(one: Entry) -> bool:
    return _is_entry(one) and isinstance(one.ms, int | float) and bool(one.gpu)


# -- showing ------------------------------------------------------------------------------------


def view(lesson: str, puzzles: Iterable[Puzzle]) -> View:
    """Return the board of a lesson."""
    board = read()
    every = list(puzzles)
    won = [board.get(f"{lesson}/{puzzle.name}") for puzzle in every]
    timed = any(winners is not None and winners.shortest for winners in won)
    lines, cells = [], []
    for puzzle, winners in zip(every, won, strict=True):
        row = _row(winners)[: 3 if timed else 1]
        lines.append(f"  {puzzle.name:24}" + "".join(f"{cell:>16}" for cell in row[:2]))
        lines[-1] += "".join(f"  {cell}" for cell in row[2:])
        cells.append(
            f"<tr><td>{escape(puzzle.heading)}</td>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row)
            + "</tr>"
        )
    solved, total = len(won) - won.count(None), len(won)
    title = _("The board: {solved} of {total} solved").format(solved=solved, total=total)
    said = (
        _(
            "Bytes are counted on the virtual GPU, with the same input size for all kernels. "
            "Times are measured on a GPU. Both are kept only on this machine."
        )
        if timed
        else _(
            "Bytes are counted on the virtual GPU, with the same input size for all kernels, "
            "and kept only on this machine. On a GPU, the board also shows your shortest "
            "times."
        )
    )
    heads = (_("puzzle"), _("fewest bytes"), *((_("shortest time"), "") if timed else ()))
    table = (
        "<table><tr>"
        + "".join(f"<th>{one}</th>" for one in heads)
        + "</tr>"
        + "".join(cells)
        + "</table>"
    )
    return View(box(head(title), table, note(said)), "\n".join([title, *lines, said]))


def _row(winners: Winners | None) -> tuple[str, str, str]:
    if winners is None:
        return "–", "–", ""
    fewest, quick = winners.fewest, winners.shortest
    bytes_ = f"{fewest.bytes:,}" + (
        " " + _("(ours {bytes:,})").format(bytes=winners.ours) if winners.ours is not None else ""
    )
    return (
        bytes_,
        f"{quick.ms:.3g} ms, {quick.gpu}" if quick else "–",
        _("why are these two kernels?") if winners.parted else "",
    )


def parting(puzzle: Puzzle, winners: Winners) -> str:
    """Return the last question if the kernel with the fewest bytes is not the fastest."""
    if not winners.parted:
        return ""
    asked = _(
        "Your kernel with the fewest bytes ({fewest:,}) isn't your quickest ({quickest:,}). Why?"
    )
    return (
        asked.format(
            fewest=winners.fewest.bytes,
            quickest=winners.shortest.bytes,  # type: ignore[union-attr]
        )
        + " "
        + (
            puzzle.last
            or _("What does the quickest kernel do less often that the bytes do not show?")
        )
    )
