"""Scans over independent columns, as one kernel with a thread for each column."""

from __future__ import annotations

from jaxpile.expressions import Expr, dims_of, index, linear, ordered, row_major
from jaxpile.program import Buffer, Loop, Nest, Repeat, Store, expressions, walk, writes_of


def by_columns(step: Repeat) -> Nest | None:
    """Move the loop inside the nest; return None if that may change the result.

    It may change the result if the body is more than one nest, or if one index of the nest
    accesses memory that another index writes.
    """
    if len(step.steps) != 1 or not isinstance(step.steps[0], Nest) or step.length < 2:
        return None
    (nest,) = step.steps
    if any(low for low, _ in nest.ranges):
        return None
    written = writes_of(nest.body)
    homes: dict[Buffer, int] = {}
    for item in walk(nest.body):
        places = [
            (node.attr, node.args[0])
            for node in ordered(expressions(item))
            if node.op == "load" and node.attr in written
        ]
        if isinstance(item, Store):
            places.append((item.buffer, item.position))
        for buffer, position in places:
            home = home_of(position, nest)
            if home is None or homes.setdefault(buffer, home) != home:
                return None
    loop = Loop(step.variable, index(0), index(step.length), nest.body)
    return Nest(nest.ranges, [loop])


def home_of(position: Expr, nest: Nest) -> int | None:
    """Return the offset between an index of the nest and its home position.

    The home is the position modulo the nest's size, which equals the index plus this offset.
    Return None if this is not true for every index and every iteration of the loop.
    """
    own = row_major([high for _, high in nest.ranges], dims_of(high for _, high in nest.ranges))
    rest = linear([(position, 1), (own, -1)])
    if rest.op == "const":
        return int(rest.attr) % nest.count
    if rest.moves:
        return None
    factors, offset = (rest.attr[:-1], rest.attr[-1]) if rest.op == "linear" else ((1,), 0)
    return None if any(factor % nest.count for factor in factors) else offset % nest.count
