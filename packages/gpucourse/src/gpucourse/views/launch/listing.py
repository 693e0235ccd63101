"""A kernel's source code with the cost of each line."""

from __future__ import annotations

import ast
import linecache
import site
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from gpucourse.views.words import WARP, number, share
from gpucourse.wording import many
from virtualgpu import sources
from virtualgpu.api import Counters

#: Largest number of source lines on a card; few kernels are as long.
MOST_LINES = 120


@dataclass(frozen=True, slots=True)
class Line:
    """A source line with its share of the cost; ``number`` is None for gaps and for the rest."""

    number: int | None
    code: str
    counters: Counters | None = None
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of one function, or the total of a file that the learner did not write."""

    title: str
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the listing: one number for each line."""

    title: str
    explained: str

    def of(self, counters: Counters) -> str:
        return _CELLS[self.title](counters)


def cost(counters: Counters) -> int:
    """Return the cost of a line: its warps' instructions and its extra memory work.

    The first sector of a global memory request, the first wavefront of a shared memory request and
    the first pass of an atomic are part of the instruction. Each further one adds one.
    """
    return (
        counters.warp_instructions
        + max(0, counters.global_sectors - counters.global_requests)
        + counters.bank_conflicts
        + max(
            0,
            counters.atomic_passes
            - counters.global_atomic_requests
            - counters.shared_atomic_requests,
        )
    )


def parts(counters: Counters, kernel: str) -> list[Part]:
    """Return the functions that ran in a launch, the kernel first."""
    total = sum(map(cost, counters.by_line.values())) or 1
    by_file: dict[str | None, dict[int | None, Counters]] = {}
    for (filename, line), counted in counters.by_line.items():
        by_file.setdefault(filename, {}).setdefault(line or None, Counters()).add(counted)
    own, library, nowhere = [], [], Counters()
    for filename, lines in by_file.items():
        text = linecache.getlines(filename) if filename else []
        if unplaced := lines.pop(None, None):
            nowhere.add(unplaced)
        if filename and _is_library(filename):
            together = Counters()
            for counted in lines.values():
                together.add(counted)
            title = f"{sources.name(filename)} (library code)"
            library.append(
                Part(
                    title,
                    [
                        Line(
                            None,
                            f"{title}, {many(len(lines), 'line')}",
                            together,
                            cost(together) / total,
                        )
                    ],
                )
            )
            continue
        for title, span in _functions(text, lines):
            shown = f"{title} in {sources.name(filename)}" if title else sources.name(filename)
            own.append(Part(shown, list(_lines(text, span, lines, total))))
    own.sort(key=lambda part: not part.title.startswith(f"{kernel} "))
    if nowhere.warp_instructions:
        library.append(
            Part(
                "elsewhere",
                [
                    Line(
                        None,
                        "instructions without a source line",
                        nowhere,
                        cost(nowhere) / total,
                    )
                ],
            )
        )
    return own + library


def columns(counters: Counters) -> list[Column]:
    """Return the columns that have values; a launch over tiles has no warps."""
    who = "warp's" if counters.warp_instructions else "block's"
    return [
        Column(title, explained.replace("warp's", who))
        for title, explained, wanted in _COLUMNS
        if wanted(counters)
    ]


def _functions(text: list[str], lines: dict) -> Iterator[tuple[str, range]]:
    """Yield the functions that contain counted lines, with their first and last line."""
    left = sorted(lines)
    for node in _definitions("".join(text)):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        inside = [line for line in left if first <= line <= node.end_lineno]
        if inside:
            yield node.name, range(first, node.end_lineno + 1)
            left = [line for line in left if line not in inside]
    if left:
        yield "", range(left[0], left[-1] + 1)


def _definitions(text: str) -> list[ast.FunctionDef]:
    """Yield the functions of a file, inner functions before outer ones."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # CUDA C++, or a cell with magics
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sorted(found, key=lambda node: node.end_lineno - node.lineno)


def _lines(text: list[str], span: range, lines: dict, total: int) -> Iterator[Line]:
    """Yield the counted lines and those between them, without long stretches that cost nothing."""
    idle: list[Line] = []
    shown = 0
    dent = _indent(text[span.start - 1 : span.stop - 1])
    for number_ in span:
        code = text[number_ - 1].rstrip("\n")[dent:] if number_ <= len(text) else ""
        counted = lines.get(number_)
        if counted is None:
            idle.append(Line(number_, code))
            continue
        yield from idle if len(idle) <= 4 else [idle[0], Line(None, "⋮"), idle[-1]]
        idle = []
        shown += 1
        if shown > MOST_LINES:
            yield Line(None, "⋮ the other lines are not shown")
            return
        yield Line(number_, code, counted, cost(counted) / total)


def _indent(lines: list[str]) -> int:
    return min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)


def _is_library(filename: str) -> bool:
    path = PurePath(filename)
    folders = [*sysconfig.get_paths().values(), *site.getsitepackages()]
    return any(path.is_relative_to(folder) for folder in folders)


# -- columns ------------------------------------------------------------------------------------


def _requests(counters: Counters) -> str:
    if not counters.global_requests:
        return ""
    ideal = counters.global_load_ideal_sectors + counters.global_store_ideal_sectors
    touched = number(counters.global_sectors / counters.global_requests)
    least = number(ideal / counters.global_requests)
    return touched if touched == least else f"{touched} ({least})"


def _lost(counters: Counters) -> str:
    if not counters.lanes_lost:
        return ""
    return share(counters.lanes_lost / (WARP * counters.warp_instructions))


_COLUMNS = (
    ("instructions", "issued by warps", lambda c: c.warp_instructions),
    (
        "sectors/request",
        "sectors (32 bytes of global memory) that a warp's accesses touched; in brackets, "
        "the least possible number",
        lambda c: c.global_requests,
    ),
    ("conflicts", "extra wavefronts of shared memory", lambda c: c.bank_conflicts),
    ("lanes lost", "share of the lanes that were masked off or missing", lambda c: c.lanes_lost),
    ("atomics", "updates by threads", lambda c: c.atomics),
)
_CELLS = {
    "instructions": lambda c: f"{c.warp_instructions:,}",
    "sectors/request": _requests,
    "conflicts": lambda c: f"{c.bank_conflicts:,}" if c.bank_conflicts else "",
    "lanes lost": _lost,
    "atomics": lambda c: f"{c.atomics:,}" if c.atomics else "",
}
