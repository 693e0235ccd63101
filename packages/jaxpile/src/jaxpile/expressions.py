"""Scalar expressions: an element of an array as a function of its index.

Nodes are interned: equal nodes are one object, so that common subexpressions are found by
identity. Index arithmetic is kept in a normal form, a sum of atoms with integer coefficients, so
that two ways to write the same index are the same node.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Mapping

import numpy as np

INDEX = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)
FAR = 1 << 62

_interned: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
_serial = itertools.count()
_NOTHING: frozenset = frozenset()


class Expr:
    """A node: its operation, the dtype of its value, its arguments and an attribute.

    ``reads`` contains the buffers that are loaded below the node and the names of its local
    variables. ``moves`` is True if the node depends on a dimension of the array. ``depth`` is its
    depth.
    """

    __slots__ = ("__weakref__", "args", "attr", "depth", "dtype", "moves", "op", "reads", "serial")

    def __init__(self, op, dtype, args, attr):
        self.op, self.dtype, self.args, self.attr = op, dtype, args, attr
        self.serial = next(_serial)
        reads = _NOTHING
        moves = op == "dim"
        depth = 0
        for arg in args:
            if arg.reads is not reads and arg.reads:
                reads = arg.reads if not reads else reads | arg.reads
            moves = moves or arg.moves
            depth = max(depth, arg.depth)
        if op in ("load", "local"):
            reads = reads | {attr}
        self.reads, self.moves, self.depth = reads, moves, depth + 1

    def __repr__(self):
        attr = "" if self.attr is None else f"[{self.attr}]"
        return f"{self.op}{attr}({', '.join(map(repr, self.args))})"


def make(op: str, dtype, args: tuple = (), attr=None, key=None) -> Expr:
    """Return the unique node, without simplification.

    ``key`` replaces an attribute with unusual equality.
    """
    identity = (op, dtype, args, attr if key is None else key)
    found = _interned.get(identity)
    if found is None:
        found = _interned[identity] = Expr(op, dtype, args, attr)
    return found


# --- leaves ----------------------------------------------------------------------------------


def const(value, dtype) -> Expr:
    """Return a constant; NaNs and signed zeros are distinguished by their bits."""
    scalar = np.asarray(value, dtype)[()]
    return make("const", np.dtype(dtype), (), scalar, key=scalar.tobytes())


def index(value: int) -> Expr:
    return const(value, INDEX)


def dim(axis: int, low: int, high: int) -> Expr:
    """Return the index along an axis, which runs over low <= i < high."""
    return index(low) if high - low == 1 else make("dim", INDEX, (), (axis, int(low), int(high)))


def dims_of(shape: Iterable[int]) -> tuple[Expr, ...]:
    return tuple(dim(axis, 0, size) for axis, size in enumerate(shape))


def var(name: str, low: int, high: int) -> Expr:
    """Return a loop variable that is not a dimension, such as a step of a scan."""
    return index(low) if high - low == 1 else make("var", INDEX, (), (name, low, high))


def local(name: str, dtype) -> Expr:
    return make("local", np.dtype(dtype), (), name)


def load(buffer, position: Expr) -> Expr:
    return make("load", buffer.dtype, (position,), buffer)


# --- index arithmetic ------------------------------------------------------------------------


def _terms(expr: Expr) -> tuple[dict, int]:
    if expr.op == "const":
        return {}, int(expr.attr)
    if expr.op == "linear":
        return dict(zip(expr.args, expr.attr[:-1], strict=True)), expr.attr[-1]
    return {expr: 1}, 0


def linear(parts: Iterable[tuple[Expr, int]], offset: int = 0) -> Expr:
    """Return the sum of expression times coefficient, plus an offset, in normal form."""
    total: dict[Expr, int] = {}
    for expr, factor in parts:
        terms, constant = _terms(expr)
        offset += constant * factor
        for atom, coefficient in terms.items():
            total[atom] = total.get(atom, 0) + coefficient * factor
    kept = sorted((item for item in total.items() if item[1]), key=lambda item: item[0].serial)
    if not kept:
        return index(offset)
    if len(kept) == 1 and kept[0][1] == 1 and offset == 0:
        return kept[0][0]
    return make(
        "linear",
        INDEX,
        tuple(atom for atom, _ in kept),
        (*(int(coefficient) for _, coefficient in kept), int(offset)),
    )


def row_major(shape: Iterable[int], indices: Iterable[Expr]) -> Expr:
    """Return the position of an element in memory, in row-major order."""
    parts, stride = [], 1
    for size, at in reversed(list(zip(shape, indices, strict=True))):
        parts.append((at, stride))
        stride *= size
    return linear(parts)


def interval(expr: Expr) -> tuple[int, int]:
    """Return the inclusive bounds of an index."""
    if expr.op == "const":
        return int(expr.attr), int(expr.attr)
    if expr.op in ("dim", "var"):
        return expr.attr[1], expr.attr[2] - 1
    if expr.op == "linear":
        low = high = expr.attr[-1]
        for atom, factor in zip(expr.args, expr.attr, strict=False):
            ends = [end * factor for end in interval(atom)]
            low, high = low + min(ends), high + max(ends)
        return max(low, -FAR), min(high, FAR)
    if expr.op == "idiv":
        low, high = interval(expr.args[0])
        return low // expr.attr, high // expr.attr
    if expr.op == "imod":
        return 0, expr.attr - 1
    if expr.op == "iclamp":
        return expr.attr
    return -FAR, FAR


def _parted(expr: Expr, by: int) -> tuple[Expr, Expr]:
    """Split a non-negative index into quotient * by + rest, with a non-negative rest."""
    terms, offset = _terms(expr)
    rest = linear((atom, factor) for atom, factor in terms.items() if factor % by)
    low, _ = interval(rest)
    if low < -FAR >> 20:  # nothing is known about it
        return index(0), expr
    # Machines round towards zero, so an index that contains -i needs offset >= by.
    added = offset % by + max(0, -((low + offset % by) // by)) * by
    return linear(
        [(atom, factor // by) for atom, factor in terms.items() if factor % by == 0],
        (offset - added) // by,
    ), linear([(rest, 1)], added)


def divide(expr: Expr, by: int) -> Expr:
    """Divide a non-negative index by a positive number, rounding down."""
    whole, rest = _parted(expr, by)
    if interval(rest)[1] < by:
        return whole
    return linear([(whole, 1), (make("idiv", INDEX, (rest,), by), 1)])


def modulo(expr: Expr, by: int) -> Expr:
    """Return the remainder of a non-negative index."""
    rest = _parted(expr, by)[1]
    return rest if interval(rest)[1] < by else make("imod", INDEX, (rest,), by)


def clamp_index(expr: Expr, low: int, high: int) -> Expr:
    """Return the index clamped to low <= i <= high."""
    least, most = interval(expr)
    if least >= low and most <= high:
        return expr
    if expr.op == "const":
        return index(min(max(int(expr.attr), low), high))
    return make("iclamp", INDEX, (expr,), (int(low), int(high)))


def piece(at: Expr, border: int, before: Expr, after: Expr) -> Expr:
    """Return ``before`` below the border, else ``after``; a nest is split at the border."""
    low, high = interval(at)
    if before is after or high < border:
        return before
    return after if low >= border else make("piece", before.dtype, (at, before, after), int(border))


# --- values ----------------------------------------------------------------------------------


#: Operations on dtypes that machines lack, by the kind of the dtype.
DEFINED: dict[str, Callable[[str, np.dtype, tuple[Expr, ...]], Expr]] = {}


def defines(kind: str) -> Callable:
    """Register the decorated function as the expression of (operation, dtype, arguments)."""
    return lambda function: DEFINED.setdefault(kind, function)


def apply(op: str, dtype, *args: Expr, attr=None) -> Expr:
    """Build a scalar operation, with the few simplifications that save a load or a branch."""
    if op == "select" and (args[0].op == "const" or args[1] is args[2]):
        return args[1] if args[1] is args[2] or args[0].attr else args[2]
    if op in ("and", "or") and dtype == BOOL:
        for one, other in (args, args[::-1]):
            if one.op == "const":
                return other if bool(one.attr) == (op == "and") else one
    if op in ("lt", "ge", "le", "gt") and args[0].dtype == INDEX and args[1].op == "const":
        low, high = interval(args[0])
        border = int(args[1].attr) + (op in ("le", "gt"))
        if high < border or low >= border:
            return const((high < border) == (op in ("lt", "le")), BOOL)
    if op == "cast" and args[0].dtype == dtype:
        return args[0]
    for kind in (np.dtype(dtype).kind, args[0].dtype.kind):
        if kind in DEFINED:
            return DEFINED[kind](op, np.dtype(dtype), args)
    if op == "cast" and args[0].op == "const" and dtype == INDEX and args[0].dtype.kind in "iub":
        return index(int(args[0].attr))
    return make(op, np.dtype(dtype), args, attr)


def rebuild(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """Rebuild the node with other arguments, simplified."""
    match node.op:
        case "linear":
            return linear(zip(args, node.attr[:-1], strict=True), node.attr[-1])
        case "idiv":
            return divide(args[0], node.attr)
        case "imod":
            return modulo(args[0], node.attr)
        case "iclamp":
            return clamp_index(args[0], *node.attr)
        case "piece":
            return piece(args[0], node.attr, args[1], args[2])
        case "load":
            return load(node.attr, args[0])
        case _:
            return apply(node.op, node.dtype, *args, attr=node.attr)


def ordered(roots: Iterable[Expr], skip=None) -> list[Expr]:
    """Return all nodes below the roots once, arguments first, without those below ``skip``."""
    done: set[Expr] = set()
    order: list[Expr] = []
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif node not in done:
                done.add(node)
                if skip is None or node not in skip:
                    stack.append((node, True))
                    stack.extend((arg, False) for arg in reversed(node.args) if arg not in done)
    return order


def transform(expr: Expr, change: Mapping[Expr, Expr], memo: dict | None = None) -> Expr:
    """Replace nodes of the expression and simplify everything above them."""
    memo = {} if memo is None else memo
    stack = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if node in memo:
            continue
        if node in change:
            memo[node] = change[node]
        elif not node.args:
            memo[node] = node
        elif ready:
            args = tuple(memo[arg] for arg in node.args)
            memo[node] = node if args == node.args else rebuild(node, args)
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in node.args if arg not in memo)
    return memo[expr]


#: Approximate cost of an operation relative to an addition, in cycles of a vector unit.
COST = {
    "div": 4,
    "sqrt": 5,
    "rem": 20,
    "pow": 40,
    "exp": 12,
    "log": 14,
    "sin": 20,
    "cos": 20,
    "tanh": 25,
    "expm1": 18,
    "log1p": 18,
    "const": 0,
    "dim": 0,
    "var": 0,
    "linear": 0,
    "local": 0,
    "cast": 1,
    "piece": 1,
    "load": 1,
    "libm": 40,
    "idiv": 2,
    "imod": 2,
}


def cost(expr: Expr, cap: int) -> int:
    """Return the cost of one evaluation with common subexpressions counted once, up to the cap."""
    seen, stack, total = {expr}, [expr], 0
    while stack and total < cap:
        node = stack.pop()
        total += COST.get(node.op, 1)
        for arg in node.args:
            if arg not in seen:
                seen.add(arg)
                stack.append(arg)
    return min(total, cap)


def flattened(expr: Expr, shape: tuple[int, ...], flat: Expr, memo: dict) -> Expr | None:
    """Replace the row-major index over ``shape`` by ``flat`` in the expression.

    This is possible if every dimension occurs only in positions whose coefficients are those of
    the row-major order, as in an elementwise program over whole arrays. Otherwise return None.
    """
    axes = [d for d in dims_of(shape) if d.op == "dim"]
    strides = [math.prod(shape[d.attr[0] + 1 :]) for d in axes]
    for node in ordered([expr], memo):
        if node.op == "dim":
            memo[node] = flat if axes == [node] and strides == [1] else None
        elif node.op == "linear" and node.moves:
            terms, offset = _terms(node)
            moving = {atom: factor for atom, factor in terms.items() if atom.moves}
            if moving == dict(zip(axes, strides, strict=True)):
                still = [(a, f) for a, f in terms.items() if not a.moves]
                memo[node] = linear([(flat, 1), *still], offset)
            else:
                memo[node] = None
        elif not node.moves:
            memo[node] = node
        elif any(memo[arg] is None for arg in node.args):
            memo[node] = None
        else:
            memo[node] = rebuild(node, tuple(memo[arg] for arg in node.args))
    return memo[expr]
