"""Source lines and branches that a launch reached, from the marks of its basic blocks.

Numba's kernels contain a mark at the start of each line (:mod:`virtualgpu.numba.line_marks`). Other
kernels have only the compiler's source locations (``.loc``). A compiler moves instructions, and may
compute both sides of a short ``if`` to select one. A line whose instructions ran for such a reason
counts as executed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from virtualgpu.errors import Location
from virtualgpu.program.program import BEGAN, BLOCK_MARKS, FELL, RAN, TAKEN, BasicBlock, Program
from virtualgpu.sources import SourceLine


@dataclass(slots=True)
class Reached:
    """Lines of one file: the executed ones, those with code, and the arcs between them.

    From the lines in ``both``, lanes took both directions of a branch, to whatever lines these
    lead. ``arcs`` holds pairs of a line and a line that followed it.
    """

    ran: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)
    both: set[int] = field(default_factory=set)
    arcs: set[tuple[int, int]] = field(default_factory=set)


def of_program(program: Program, stopped: Location | None = None) -> dict[str, Reached]:
    """Return the lines that a program's launches have reached so far, by file.

    If the last launch stopped, ``stopped`` is the location.
    """
    assert program.ran is not None
    found: dict[str, Reached] = defaultdict(Reached)
    marked = any(block.marks for block in program.blocks)
    for block in program.blocks:
        words = program.ran[BLOCK_MARKS * block.index :][:BLOCK_MARKS]
        goes_on = bool(words[RAN] or (words[BEGAN] and stopped is not None))
        for source in block.marks if marked else _places(block):
            found[source.filename].known.add(source.line)
            if goes_on:
                found[source.filename].ran.add(source.line)
            if stopped is not None and source == (stopped.filename, stopped.line):
                goes_on = bool(words[RAN])
        if words[TAKEN] and words[FELL] and (parting := _of_branch(block)) is not None:
            found[parting.filename].both.add(parting.line)
        for after in _onward(block, words) if marked else ():
            _follow(found, [*block.marks, *program.blocks[after].marks[:1]])
    return found


def _onward(block: BasicBlock, words: np.ndarray) -> Iterator[int]:
    """Yield the blocks to which lanes went from a block, as far as its marks show."""
    if block.kind == "branch":
        if words[TAKEN]:
            yield block.target
        if words[FELL]:
            yield block.index + 1
    elif words[RAN] and block.kind in ("next", "goto", "barrier"):
        yield block.target if block.kind == "goto" else block.index + 1


def _follow(found: dict[str, Reached], marks: list[SourceLine]) -> None:
    """Add an arc for each two successive lines of a file."""
    for one, other in pairwise(marks):
        if one.filename == other.filename:
            found[one.filename].arcs.add((one.line, other.line))


def of_lines(
    ran: Iterable[SourceLine | None], all_: Iterable[SourceLine | None]
) -> dict[str, Reached]:
    """Return the same for lines known without marks: the executed ones of all with code."""
    found: dict[str, Reached] = defaultdict(Reached)
    for source in filter(None, all_):
        found[source.filename].known.add(source.line)
    for source in filter(None, ran):
        found[source.filename].ran.add(source.line)
    return found


def _places(block: BasicBlock) -> Iterable[SourceLine]:
    for instruction in block.instructions:
        if (source := instruction.source) is not None:
            yield source
            yield from source.callers


def _of_branch(block: BasicBlock) -> SourceLine | None:
    if block.last is not None and block.last.source is not None:
        return block.last.source
    return block.marks[-1] if block.marks else None
