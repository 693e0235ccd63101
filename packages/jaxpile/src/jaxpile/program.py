"""Parts of a translated program: buffers, loop nests, and the order they run in.

There are two levels. Steps (nests, repetitions and branches) only read and write buffers. Inside a
nest there are statements: stores, loops and local variables. A back end prints both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from jaxpile.expressions import Expr


@dataclass(eq=False)
class Buffer:
    """Memory for an array in row-major order.

    ``kind`` is input, const, output or temp. ``level`` is the loop whose steps own the buffer;
    only these steps may overwrite it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    kind: str
    level: int = 0
    data: np.ndarray | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def contents(self) -> np.ndarray:
        """Return the contents of a constant, in the buffer's shape."""
        assert self.data is not None, f"{self.name} is no constant but of the kind {self.kind}"
        return self.data

    def __repr__(self):
        return self.name


# --- statements within a nest ----------------------------------------------------------------


@dataclass(eq=False)
class Store:
    buffer: Buffer
    position: Expr
    value: Expr


@dataclass(eq=False)
class Set:
    """Assignment to a local variable."""

    name: str
    value: Expr


@dataclass(eq=False)
class Loop:
    """Loop that runs its body for low <= variable < high, in order."""

    variable: Expr
    low: Expr
    high: Expr
    body: list


@dataclass(eq=False)
class Until:
    """Loop that runs its body while a condition, evaluated before each iteration, is true."""

    condition: Expr
    body: list


@dataclass(eq=False)
class When:
    condition: Expr
    body: list
    otherwise: list = field(default_factory=list)


# --- steps -----------------------------------------------------------------------------------


@dataclass(eq=False)
class Nest:
    """A body run for every index of its ranges (low, high), in any order or concurrently."""

    ranges: tuple[tuple[int, int], ...]
    body: list

    @property
    def count(self) -> int:
        return math.prod(high - low for low, high in self.ranges)


@dataclass(eq=False)
class Repeat:
    variable: Expr
    length: int
    steps: list


@dataclass(eq=False)
class While:
    """Loop that runs ``test``, then ``steps`` while the buffer ``going`` holds true."""

    test: list
    going: Buffer
    steps: list


@dataclass(eq=False)
class Branch:
    """Branch that runs the list of steps that the buffer ``selector`` (0 … len - 1) chooses."""

    selector: Buffer
    branches: list[list]


@dataclass(eq=False)
class Program:
    """Buffers and steps of a program; the outputs are in the order of the results."""

    name: str
    inputs: list[Buffer]
    outputs: list[Buffer]
    buffers: list[Buffer]
    steps: list


# --- walking ---------------------------------------------------------------------------------


def inner_lists(item) -> list[list]:
    """Return the lists of statements or steps directly inside one."""
    match item:
        case Loop() | Until() | Nest():
            return [item.body]
        case When():
            return [item.body, item.otherwise]
        case Repeat():
            return [item.steps]
        case While():
            return [item.test, item.steps]
        case Branch():
            return item.branches
    return []


def walk(items: list) -> Iterator:
    """Yield every statement and step, outermost first."""
    for item in items:
        yield item
        for inner in inner_lists(item):
            yield from walk(inner)


def expressions(item) -> list[Expr]:
    """Return the expressions that a statement itself evaluates, in order."""
    match item:
        case Store():
            return [item.position, item.value]
        case Set():
            return [item.value]
        case Loop():
            return [item.low, item.high]
        case Until() | When():
            return [item.condition]
    return []


def rewritten(items: list, change: Callable[[Expr], Expr]) -> list:
    """Return a copy of statements with every expression changed."""
    copies: list = []
    for item in items:
        match item:
            case Store():
                copies.append(Store(item.buffer, change(item.position), change(item.value)))
            case Set():
                copies.append(Set(item.name, change(item.value)))
            case Loop():
                copies.append(
                    Loop(
                        item.variable,
                        change(item.low),
                        change(item.high),
                        rewritten(item.body, change),
                    )
                )
            case Until():
                copies.append(Until(change(item.condition), rewritten(item.body, change)))
            case When():
                copies.append(
                    When(
                        change(item.condition),
                        rewritten(item.body, change),
                        rewritten(item.otherwise, change),
                    )
                )
            case _:
                raise TypeError(f"{type(item).__name__} is a step, not a statement of a nest")
    return copies


def reads_of(items: list) -> set[Buffer]:
    """Return the buffers that statements or steps read."""
    found: set[Buffer] = set()
    for item in walk(items):
        for expr in expressions(item):
            found.update(read for read in expr.reads if isinstance(read, Buffer))
        if isinstance(item, While):
            found.add(item.going)
        if isinstance(item, Branch):
            found.add(item.selector)
    return found


def writes_of(items: list) -> set[Buffer]:
    """Return the buffers that statements or steps write."""
    return {item.buffer for item in walk(items) if isinstance(item, Store)}
