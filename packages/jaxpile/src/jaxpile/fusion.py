"""Transformations of steps before code generation: merging, removal, splitting, flattening."""

from __future__ import annotations

import itertools
import math
from functools import partial

from jaxpile.expressions import (
    Expr,
    cost,
    dim,
    dims_of,
    flattened,
    linear,
    load,
    ordered,
    transform,
)
from jaxpile.program import (
    Branch,
    Buffer,
    Loop,
    Nest,
    Program,
    Repeat,
    Set,
    Store,
    While,
    expressions,
    inner_lists,
    reads_of,
    rewritten,
    walk,
    writes_of,
)

#: Number of steps that a nest may move back to join another.
LOOK_BACK = 12
#: Two nests that cost more than this in one iteration (about 100 sines) are not merged, because
#: LLVM's time grows faster than a loop's length.
MOST_WORK = 2000
#: Maximum number of nests into which one is split at the borders of concatenations.
MOST_PIECES = 27
#: Smaller nests are not split, because a comparison per element is shorter code.
LEAST_SPLIT = 64


def optimise(program: Program) -> None:
    """Change the program's steps in place without changing its results."""
    program.steps[:] = fused(program.steps)
    while drop_dead(program):
        pass
    program.steps[:] = each_nest(program.steps, split)
    program.steps[:] = each_nest(program.steps, flatten)
    used = reads_of(program.steps) | writes_of(program.steps) | set(program.outputs)
    program.buffers[:] = [b for b in program.buffers if b in used or b.kind == "input"]


def each_nest(steps: list, change) -> list:
    """Replace every nest, including inner ones, by the nests that ``change`` returns."""
    changed: list = []
    for step in steps:
        if isinstance(step, Nest):
            changed.extend(change(step))
            continue
        for inner in inner_lists(step):
            inner[:] = each_nest(inner, change)
        changed.append(step)
    return changed


# --- merging ---------------------------------------------------------------------------------


def fused(steps: list) -> list:
    """Merge nests of equal ranges if each iteration needs only its own values."""
    result: list = []
    for step in steps:
        if isinstance(step, Repeat | While | Branch):
            for inner in inner_lists(step):
                inner[:] = fused(inner)
        if isinstance(step, Nest) and join(result, step):
            continue
        result.append(step)
    return result


def join(steps: list, nest: Nest) -> bool:
    """Merge the nest into one of the last steps that fits; return False if none does."""
    reads, writes = reads_of([nest]), writes_of([nest])
    for back in range(1, min(LOOK_BACK, len(steps)) + 1):
        step = steps[-back]
        if (
            isinstance(step, Nest)
            and step.ranges == nest.ranges
            and mergeable(step, nest)
            and work([step, nest]) < MOST_WORK
        ):
            step.body.extend(forwarded(step, nest.body))
            return True
        written = writes_of([step])
        if written & (reads | writes) or reads_of([step]) & writes:
            return False
    return False


def work(nests: list) -> int:
    """Return the cost of one iteration of all nests, with each stored value counted separately."""
    return sum(cost(expr, MOST_WORK) for item in walk(nests) for expr in expressions(item))


def mergeable(first: Nest, second: Nest) -> bool:
    """Return True if an iteration of the second needs only stores of the first's same iteration."""
    if not first.ranges:
        return True
    writes = writes_of(first.body), writes_of(second.body)
    shared = writes[0] & (reads_of(second.body) | writes[1]) | reads_of(first.body) & writes[1]
    if not shared:
        return True
    turns = {item.variable for item in walk(first.body + second.body) if isinstance(item, Loop)}
    stored: dict[Buffer, set[Expr]] = {}
    touched: dict[Buffer, set[Expr]] = {}
    for item in walk(first.body + second.body):
        if isinstance(item, Store) and item.buffer in shared:
            still = [part for part in item.position.args if not part.moves]
            if not own_place(item.position, first.ranges) or any(
                part.op != "var" or part in turns for part in still
            ):
                return False
            stored.setdefault(item.buffer, set()).add(item.position)
        for node in ordered(expressions(item)):
            if node.op == "load" and node.attr in shared:
                touched.setdefault(node.attr, set()).add(node.args[0])
    return all(
        one is other or apart(one, other)
        for buffer, places in stored.items()
        for one in places
        for other in places | touched.get(buffer, set())
    )


def own_place(position: Expr, ranges: tuple[tuple[int, int], ...]) -> bool:
    """Return True if no two indices have the same position.

    The step of each dimension must be larger than the extent of all inner dimensions.
    """
    terms = moving(position)
    if set(terms) != {at for at in dims_of(high for _, high in ranges) if at.moves}:
        return False
    reached = 0
    for at, factor in sorted(terms.items(), key=lambda term: abs(term[1])):
        if abs(factor) <= reached:
            return False
        reached += abs(factor) * (at.attr[2] - at.attr[1] - 1)
    return True


def apart(one: Expr, other: Expr) -> bool:
    """Return True if two positions never coincide, whatever the indices.

    Either they are in different columns of a table whose width is the common divisor of all steps,
    or they are two constant positions.
    """
    between = linear([(one, 1), (other, -1)])
    if between.op != "const":
        return False
    width = math.gcd(*moving(one).values())
    return int(between.attr) % width != 0 if width else not one.moves and int(between.attr) != 0


def moving(position: Expr) -> dict[Expr, int]:
    """Return the coefficients of the dimensions in a position, or nothing if it is not a sum."""
    if position.op != "linear":
        return {position: 1} if position.op == "dim" else {}
    return {
        at: factor for at, factor in zip(position.args, position.attr, strict=False) if at.moves
    }


def forwarded(first: Nest, body: list) -> list:
    """Replace loads of values that the first nest stores by the stored expressions."""
    written = writes_of(first.body)
    change: dict[Expr, Expr] = {}
    for item in first.body:
        if isinstance(item, Store):
            target = load(item.buffer, item.position)
            change.pop(target, None)
            if not item.value.reads & written and single(first.body, item.buffer):
                change[target] = item.value
    if not change:
        return body
    # Inside loops of the body, buffers that the body itself writes may have changed.
    own = writes_of(body)
    change = {
        old: new for old, new in change.items() if old.attr not in own and not new.reads & own
    }
    memo: dict = {}
    return rewritten(body, lambda expr: transform(expr, change, memo)) if change else body


def single(body: list, buffer: Buffer) -> bool:
    """Return True if the buffer is stored to once and not within an inner loop."""
    stores = [item for item in walk(body) if isinstance(item, Store) and item.buffer is buffer]
    return len(stores) == 1 and any(item is stores[0] for item in body)


# --- dead stores -----------------------------------------------------------------------------


def drop_dead(program: Program) -> bool:
    """Remove stores that are never read and empty steps; return True if anything was removed."""
    alive = reads_of(program.steps) | set(program.outputs)
    names = {
        read
        for item in walk(program.steps)
        for expr in expressions(item)
        for read in expr.reads
        if isinstance(read, str)
    }

    def kept(items: list) -> list:
        result: list = []
        for item in items:
            if isinstance(item, Store) and item.buffer not in alive:
                continue
            if isinstance(item, Set) and item.name not in names:
                continue
            inner = inner_lists(item)
            for body in inner:
                body[:] = kept(body)
            # A while loop without a body may still run forever, so it is kept.
            if inner and not any(inner) and not isinstance(item, While):
                continue
            result.append(item)
        return result

    before = sum(1 for _ in walk(program.steps))
    program.steps[:] = kept(program.steps)
    return sum(1 for _ in walk(program.steps)) < before


# --- splitting and flattening ----------------------------------------------------------------


def split(nest: Nest) -> list[Nest]:
    """Split a nest so that no index is compared with borders of concatenated or padded pieces."""
    if nest.count < LEAST_SPLIT:
        return [nest]
    cuts: list[set[int]] = [set() for _ in nest.ranges]
    for item in walk(nest.body):
        for node in ordered(expressions(item)):
            if node.op != "piece":
                continue
            where = border(node)
            if where is not None:
                axis, at = where
                if nest.ranges[axis][0] < at < nest.ranges[axis][1]:
                    cuts[axis].add(at)
    if not any(cuts) or math.prod(len(c) + 1 for c in cuts) > MOST_PIECES:
        return [nest]
    sides = [
        list(itertools.pairwise([low, *sorted(cut), high]))
        for (low, high), cut in zip(nest.ranges, cuts, strict=True)
    ]
    nests = []
    for ranges in itertools.product(*sides):
        change = {
            dim(axis, *nest.ranges[axis]): dim(axis, *part) for axis, part in enumerate(ranges)
        }
        change = {old: new for old, new in change.items() if old.op == "dim" and old is not new}
        changed = partial(transform, change=change, memo={})
        nests.append(Nest(ranges, rewritten(nest.body, changed)))
    return nests


def border(node: Expr) -> tuple[int, int] | None:
    """Return the axis and index where a piece begins, if it depends on one dimension only."""
    at = node.args[0]
    if at.op == "dim":
        return at.attr[0], node.attr
    if at.op == "linear" and len(at.args) == 1 and at.args[0].op == "dim":
        factor, offset = at.attr
        if factor == 1:
            return at.args[0].attr[0], node.attr - offset
        if factor == -1:
            return at.args[0].attr[0], offset - node.attr + 1
    return None


def flatten(nest: Nest) -> list[Nest]:
    """Replace several loops by one long loop if the nest accesses memory in order anyway."""
    if len(nest.ranges) < 2 or any(low for low, _ in nest.ranges):
        return [nest]
    shape = tuple(high for _, high in nest.ranges)
    flat = dim(0, 0, math.prod(shape))
    memo: dict = {}
    for item in nest.body:
        if not isinstance(item, Store | Set):
            return [nest]
        if any(flattened(expr, shape, flat, memo) is None for expr in expressions(item)):
            return [nest]
    # Everything in it was flattened above and is in the memo.
    body = rewritten(nest.body, lambda expr: flattened(expr, shape, flat, memo) or expr)
    return [Nest(((0, math.prod(shape)),), body)]
