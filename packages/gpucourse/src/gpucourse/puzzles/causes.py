"""Reasons why a correct kernel costs more than the solution, derived from its counts."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from gpucourse.puzzles.judge import Judged
from gpucourse.system.language import _
from virtualgpu import sources
from virtualgpu.api import Counters

#: A line's accesses are scattered if they touch this many times the sectors that its bytes fill.
_SCATTERED = 1.5


def why(judged: Judged, kernel: Any) -> str:
    """Return the reason why ``kernel`` costs more than the solution, or "" if it is unknown."""
    mine, ours = judged.mine, judged.ours
    if ours is None:
        return ""
    if mine.global_loads > ours.global_loads:
        for place, line in _most(mine, lambda one: one.global_loads):
            for element in _read_in_each_round(kernel, place[1]):
                return _(
                    "{line} reads {element} again in each iteration of its loop, which makes "
                    "{count:,} reads. Read it once before the loop, into a variable."
                ).format(line=_named(place), element=element, count=line.global_loads)
    if mine.global_sectors > ours.global_sectors:
        for place, line in _most(mine, _beyond):
            filled = line.global_load_ideal_sectors + line.global_store_ideal_sectors
            if _beyond(line) + filled >= _SCATTERED * filled:
                return _(
                    "{line} touches {sectors:,} sectors, but its numbers would fill only "
                    "{filled:,}. Let neighbouring threads of a warp take neighbouring "
                    "elements."
                ).format(line=_named(place), sectors=_beyond(line) + filled, filled=filled)
    for name, said in (
        ("bank_conflicts", _("{line} makes {count:,} of the bank conflicts.")),
        ("global_atomics", _("{line} makes {count:,} of the atomics.")),
        ("global_loads", _("{line} makes {count:,} of the reads.")),
        ("global_stores", _("{line} makes {count:,} of the writes.")),
    ):
        if getattr(mine, name) > getattr(ours, name):
            for place, line in _most(mine, lambda one, name=name: getattr(one, name)):  # type: ignore[misc]
                return said.format(line=_named(place), count=getattr(line, name))
    return ""


def _most(
    counters: Counters, amount: Callable[[Counters], int]
) -> Iterator[tuple[tuple[str | None, int | None], Counters]]:
    """Yield the lines with a non-zero amount, the largest first."""
    lines = sorted(counters.by_line.items(), key=lambda one: -amount(one[1]))
    return ((place, line) for place, line in lines if amount(line) and place[1])


def _beyond(one: Counters) -> int:
    """Return the sectors that a line touches beyond those that its bytes would fill."""
    touched = one.global_load_sectors + one.global_store_sectors
    return touched - one.global_load_ideal_sectors - one.global_store_ideal_sectors


def _named(place: tuple[str | None, int | None]) -> str:
    return _("{where} line {number} (`{code}`)").format(
        where=sources.name(place[0]), number=place[1], code=sources.text(*place)
    )


def _read_in_each_round(kernel: Any, line: int | None) -> Iterator[str]:
    """Yield elements that a line reads in every iteration of a loop although they are the same.

    An example is ``x[i]`` if the loop assigns neither ``x`` nor ``i``.
    """
    with suppress(OSError, TypeError, SyntaxError):
        lines, first = inspect.getsourcelines(kernel.py_func)
        tree = ast.parse(textwrap.dedent("".join(lines)))
        here = (line or 0) - first + 1
        loops = [one for one in ast.walk(tree) if isinstance(one, ast.For | ast.While)]
        around = [one for one in loops if one.lineno <= here <= (one.end_lineno or 0)]
        for loop in sorted(around, key=lambda one: -one.lineno)[:1]:
            inside = [*ast.walk(loop)]
            changed = {
                one.id
                for one in inside
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            }
            for one in inside:
                if (
                    isinstance(one, ast.Subscript)
                    and isinstance(one.ctx, ast.Load)
                    and one.lineno == here
                    and not {n.id for n in ast.walk(one) if isinstance(n, ast.Name)} & changed
                ):
                    yield f"`{ast.unparse(one)}`"
