"""Division of a program's steps into calls, and into parts that threads share."""

from __future__ import annotations

from jaxpile.expressions import cost
from jaxpile.program import Loop, Nest, Program, expressions, walk

#: A step with less work than this (iterations times cost) runs on one core, because starting the
#: others takes about 30 microseconds.
SHARE_FROM = 400_000


def parts_of(program: Program) -> list[tuple[list[int], tuple[int, int], bool]]:
    """Return the parts of one call: steps by number, their extent, and True if threads share it.

    A large step is a separate part; the small steps between two large ones form one part.
    """
    parts: list = []
    for k, step in enumerate(program.steps):
        large = work(step) >= SHARE_FROM
        if large or not parts or parts[-1][2]:
            parts.append(([k], extent_of(step), large))
        else:
            parts[-1][0].append(k)
    return parts


def extent_of(step) -> tuple[int, int]:
    """Return the outermost range of a step, which threads may share."""
    return step.ranges[0] if isinstance(step, Nest) and step.ranges else (0, 1)


def work(step) -> int:
    """Return the number of iterations of a nest times the cost of one."""
    if not isinstance(step, Nest):
        return 0
    each = sum(cost(expr, 1000) for item in walk(step.body) for expr in expressions(item))
    for item in step.body:
        if isinstance(item, Loop) and item.high.op == "const":
            each *= max(1, int(item.high.attr))
    return step.count * max(1, each)
