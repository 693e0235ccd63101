"""Source lines and branches that a launch reached, from the marks of its basic blocks.

Numba's kernels say where each line begins (:mod:`virtualgpu.numba.line_marks`). Of others the
places of the instructions must do (``.loc``). A compiler moves instructions, and computes both
sides of a short ``if`` to choose one. A line whose instructions ran for such a reason counts as
run.
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
    """Lines of one file: those that ran, those with code, and the ways between them.

    From the lines ``both`` lanes went both ways, wherever these lead; ``arcs`` has a line and one
    that came next.
    """

    ran: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)
    both: set[int] = field(default_factory=set)
    arcs: set[tuple[int, int]] = field(default_factory=set)


def of_program(program: Program, stopped: Location | None = None) -> dict[str, Reached]:
    """Return the lines that a program's launches have reached so far, by file.

    The last one has ``stopped`` there, where it has.
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
    """Yield the blocks to which lanes went from a block, as far as its marks tell."""
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
    """Return the same where lines are known without marks: those that ran, of all with code."""
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
