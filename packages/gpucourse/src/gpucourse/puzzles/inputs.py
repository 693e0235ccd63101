"""Inputs of a puzzle's kernel, and the result of its line of NumPy.

The inputs are integers that are drawn anew for each trial. Their sums are exact in any order of
addition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpucourse.course.puzzles import Puzzle
from gpucourse.system.language import _

#: Value in an output array before the launch; no result may depend on it.
LEFTOVER = -999


@dataclass(frozen=True)
class Case:
    """One launch of a puzzle: its sizes, arguments and expected outputs."""

    puzzle: Puzzle
    sizes: dict[str, int]
    values: dict[str, Any]  # inputs, and the values in outputs and scratch before the launch
    expected: dict[str, np.ndarray]
    grid: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def items(self) -> int:
        """Return the length, or the product of the lengths."""
        return math.prod(size for name, size in self.sizes.items() if name != "T")

    def arguments(self, **others: Any) -> list:
        """Return the arguments in the kernel's order, with ``others`` in place of some."""
        return [{**self.values, **others}[name] for name in self.puzzle.parameters]

    def __str__(self) -> str:
        sizes = " × ".join(f"{size:,}" for name, size in self.sizes.items() if name != "T")
        blocks, threads = (" × ".join(f"{n:,}" for n in one) for one in (self.grid, self.block))
        what = _("element") if self.items == 1 else _("elements")
        return (
            _("with {sizes} {elements} and one block of {threads} threads")
            if math.prod(self.grid) == 1
            else _("with {sizes} {elements} and {blocks} blocks of {threads} threads")
        ).format(sizes=sizes, elements=what, blocks=blocks, threads=threads)


def draw(
    puzzle: Puzzle,
    sizes: tuple[int, ...],
    threads: int,
    random: np.random.Generator,
    known: dict[str, Any] | None = None,
) -> Case:
    """Return a case with new random numbers, except for the inputs in ``known``."""
    named = dict(zip(_names(sizes), sizes, strict=True)) | {"T": threads}
    scope = _scope(random) | named
    values: dict[str, Any] = {}
    for name, expression in puzzle.inputs.items():
        told = known is not None and name in known
        values[name] = scope[name] = known[name] if told else evaluate(expression, scope)  # type: ignore[index]
    expected = spec(puzzle, scope)
    for name, there in expected.items():
        if name in puzzle.start:
            values[name] = evaluate(puzzle.start[name], scope)
        elif name not in values:
            values[name] = np.full(there.shape, LEFTOVER, there.dtype)
    for name, expression in puzzle.scratch.items():
        values[name] = evaluate(expression, scope)
    grid, block = map(_triple, evaluate(puzzle.launch, scope))
    return Case(puzzle, named, values, expected, grid, block)


def alike(case: Case, random: np.random.Generator) -> Case:
    """Return the case with other numbers in its arrays; shapes and scalars stay the same."""
    inputs = {name: case.values[name] for name in case.puzzle.inputs}
    known = {name: one for name, one in inputs.items() if not isinstance(one, np.ndarray)}
    *sizes, threads = case.sizes.values()
    while True:
        other = draw(case.puzzle, tuple(sizes), threads, random, known)
        if all(np.shape(other.values[name]) == np.shape(one) for name, one in inputs.items()):
            return other


def arrays_of(case: Case) -> list[str]:
    """Return the names of the kernel's array parameters, in order."""
    arguments = zip(case.puzzle.parameters, case.arguments(), strict=True)
    return [name for name, value in arguments if isinstance(value, np.ndarray)]


def differing(got: np.ndarray, expected: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the positions where a result differs from the expected one."""
    if tolerance:
        return np.argwhere(~np.isclose(got, expected, rtol=tolerance, atol=tolerance))
    return np.argwhere(got != expected)


def redrawn(case: Case, name: str, random: np.random.Generator) -> Case | None:
    """Return the case with another value of one input, or None if the answer is the same."""
    for _trial in range(20):
        scope = _scope(random) | case.sizes
        for other, expression in case.puzzle.inputs.items():
            scope[other] = evaluate(expression, scope) if other == name else case.values[other]
        try:
            expected = spec(case.puzzle, scope)
        except (ValueError, IndexError):  # this value is inconsistent with the other inputs
            continue
        if any(not np.array_equal(expected[one], case.expected[one]) for one in expected):
            values = {**case.values, name: scope[name]}
            return Case(case.puzzle, case.sizes, values, expected, case.grid, case.block)
    return None


def spec(puzzle: Puzzle, scope: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the results of the puzzle's line of NumPy, as float32 and int32 arrays."""
    names = {
        "np": np,
        **{
            name: np.copy(value) if isinstance(value, np.ndarray) else value
            for name, value in scope.items()
        },
    }
    exec(puzzle.spec, names)
    return {name: _as_stored(names[name]) for name in puzzle.outputs}


def evaluate(expression: str, scope: dict[str, Any]) -> Any:
    """Evaluate an expression from a puzzle's file with its sizes and random numbers."""
    return eval(expression, {"np": np, "min": min, "max": max, "int": int, **scope})


def _as_stored(value: Any) -> np.ndarray:
    array = np.atleast_1d(np.asarray(value))
    return np.ascontiguousarray(array, np.float32 if array.dtype.kind == "f" else np.int32)


def _names(sizes: tuple[int, ...]) -> tuple[str, ...]:
    return {1: ("n",), 2: ("rows", "cols"), 3: ("rows", "inner", "cols")}[len(sizes)]


def _triple(given: Any) -> tuple[int, ...]:
    return tuple(map(int, given)) if isinstance(given, tuple) else (int(given),)


def _scope(random: np.random.Generator) -> dict[str, Any]:
    """Return the functions that expressions for a puzzle's inputs can use."""
    return {
        "random": random,
        "whole": partial(_whole, random, 99),
        "small": partial(_whole, random, 9),
        "number": partial(_number, random),
        "real": partial(_real, random),
        "places": partial(_places, random),
        "zeros": partial(np.zeros, dtype=np.float32),
        "counts": partial(np.zeros, dtype=np.int32),
    }


def _whole(random: np.random.Generator, most: int, *shape: int) -> np.ndarray:
    """Draw integers from -most to most, as float32."""
    return random.integers(-most, most + 1, shape).astype(np.float32)


def _number(random: np.random.Generator, low: int, high: int) -> int:
    """Draw one integer from low to high."""
    return int(random.integers(low, high + 1))


def _real(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Draw numbers of both signs, as float32."""
    return random.normal(0.0, 3.0, shape).astype(np.float32)


def _places(random: np.random.Generator, below: int, *shape: int) -> np.ndarray:
    """Draw integers from 0 to below - 1, as int32."""
    return random.integers(0, below, shape).astype(np.int32)


# -- the library's bytes ------------------------------------------------------------------------


#: Bytes of each operation on a :class:`_Counted` since the list was last cleared.
_moved: list[int] = []


class _Counted(np.ndarray):
    """Array whose operations each read their inputs and write their result, as in CuPy."""

    def __array_ufunc__(self, function, method, *inputs, out=None, **options):
        plain = [one.view(np.ndarray) if isinstance(one, _Counted) else one for one in inputs]
        result = getattr(function, method)(*plain, **options)
        arrays = [one for one in (*plain, result) if isinstance(one, np.ndarray)]
        _moved.append(sum(one.nbytes for one in arrays))
        return result.view(_Counted) if isinstance(result, np.ndarray) else result


def library_bytes(case: Case) -> int:
    """Return the bytes that CuPy's lines move if each operation is one kernel."""
    _moved.clear()
    scope = {
        name: value.view(_Counted) if isinstance(value, np.ndarray) else value
        for name, value in case.values.items()
    }
    exec(case.puzzle.library, {"cupy": np, "np": np, **case.sizes, **scope})
    return sum(_moved)
