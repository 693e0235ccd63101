"""Marked regions of a cell: solutions and hidden tests.

A region begins with a line ``### BEGIN SOLUTION`` and ends with ``### END SOLUTION`` (the same for
``HIDDEN TESTS``). nbgrader accepts the words anywhere in a line. This module requires the marker
to be alone on its line and raises :class:`MarkerError` otherwise, so that the two never disagree
about a region.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: nbgrader's own placeholder, ClearSolutions.code_stub["python"] in nbgrader 0.9.
NBGRADER_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
#: Placeholder for a written answer, ClearSolutions.text_stub.
NBGRADER_TEXT_STUB = ("YOUR ANSWER HERE",)

SOLUTION = "SOLUTION"
HIDDEN_TESTS = "HIDDEN TESTS"

_WORDS = re.compile(r"\b(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)\b")
_MARKER = re.compile(r"\s*### (BEGIN|END) (SOLUTION|HIDDEN TESTS)\s*$")


@dataclass(frozen=True, slots=True)
class Region:
    """Lines ``begin`` to ``end`` of a cell's source; both are indices of marker lines."""

    kind: str
    begin: int
    end: int
    indent: str


class MarkerError(ValueError):
    """A marker that is nested, unclosed, unopened or misspelt; ``line`` is its index."""

    def __init__(self, line: int, message: str):
        self.line = line
        super().__init__(message)


def find_regions(source: str) -> list[Region]:
    """Find every marked region of a cell's source in order; raise :class:`MarkerError`."""
    found: list[Region] = []
    opened: tuple[str, int, str] | None = None
    for number, line in enumerate(source.split("\n")):
        if not (words := _WORDS.search(line)):
            continue
        if not (marker := _MARKER.match(line)):
            raise MarkerError(
                number,
                f"{line.strip()!r} is not a marker this course knows: write "
                "'### BEGIN SOLUTION' (or END, or HIDDEN TESTS) alone on its line",
            )
        edge, kind = marker.groups()
        if edge == "BEGIN":
            if opened:
                raise MarkerError(
                    number,
                    f"'BEGIN {kind}' inside the region '{opened[0]}' that began on line "
                    f"{opened[1] + 1} of the cell: close that one first",
                )
            opened = kind, number, line[: words.start()].split("#")[0]
        elif opened is None:
            raise MarkerError(number, f"'END {kind}' without a 'BEGIN {kind}' above it: add one")
        elif opened[0] != kind:
            raise MarkerError(number, f"'END {kind}' closes '{opened[0]}': make the two agree")
        else:
            found.append(Region(kind, opened[1], number, opened[2]))
            opened = None
    if opened:
        raise MarkerError(
            opened[1], f"'BEGIN {opened[0]}' is never closed: add '### END {opened[0]}'"
        )
    return found


def replace_regions(source: str, kind: str, stub: Sequence[str]) -> str:
    """Replace each region by the lines of ``stub``, indented like the marker."""
    return _rewrite(source, kind, lambda region, body: [region.indent + line for line in stub])


def released_source(source: str, *, code: bool, solution: bool = True) -> str:
    """Return a cell as nbgrader releases it, with stubs and without hidden tests.

    In a ``solution`` cell without a region, the whole cell is the solution.
    """
    stub = NBGRADER_STUB if code else NBGRADER_TEXT_STUB
    released = remove_regions(replace_regions(source, SOLUTION, stub), HIDDEN_TESTS)
    return "\n".join(stub) if solution and released == source else released


def remove_regions(source: str, kind: str) -> str:
    """Remove each region of this kind."""
    return _rewrite(source, kind, lambda region, body: [])


def unwrap_regions(source: str, kind: str) -> str:
    """Remove the markers of each region of this kind and keep its contents."""
    return _rewrite(source, kind, lambda region, body: body)


def _rewrite(source: str, kind: str, put: Callable[[Region, list[str]], list[str]]) -> str:
    lines = source.split("\n")
    # Edit from the last region to the first, so that the remaining indices stay valid.
    for region in reversed(find_regions(source)):
        if region.kind == kind:
            body = lines[region.begin + 1 : region.end]
            lines[region.begin : region.end + 1] = put(region, body)
    return "\n".join(lines)
