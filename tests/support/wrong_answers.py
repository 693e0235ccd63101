"""Format of a lecture's wrong answers (``wrong.py``) and right ones (``right.py``).

A mistake in one place of the solution is written as ``swap(old, new)``. An answer with another
method is written in full. ``right.py`` has right answers in other styles than the lecture's.
"""

from __future__ import annotations

import ast
import importlib.util
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import virtualgpu
from lab.benchmarks.gpu_cells import code_cells, file_name, run

#: pytest's conftest is not imported, because answers of some lectures run in separate processes.
REPOSITORY = Path(__file__).resolve().parents[2]

virtualgpu.activate(force=True)


@dataclass(frozen=True, slots=True)
class Swap:
    """A place of a solution, and its replacement in a wrong answer."""

    old: str
    new: str


swap = Swap


class EditError(ValueError):
    """A swap no longer fits the solution, or no cell of the lecture calls the check."""


@dataclass(frozen=True, eq=False, slots=True)
class Edited:
    """A wrong answer that differs from the solution only by its swaps."""

    lecture: str
    exercise: str
    name: str
    swaps: tuple[Swap, ...]

    def cells(self) -> dict[str, str]:
        """Return the lecture's code cells with the swaps made; raise :class:`EditError`.

        The text to be swapped must occur exactly once in the cell of the exercise, which is the
        last cell that contains it, up to the one that calls the check.
        """
        cells = code_cells(self.lecture)
        checked, _ = _call(self.lecture, self.exercise)
        names = list(cells)
        for one in self.swaps:
            places = [name for name in names[: names.index(checked) + 1] if one.old in cells[name]]
            if not places:
                raise self._error(f"{one.old!r} stands in no cell down to {checked!r}")
            place = places[-1]
            if (times := cells[place].count(one.old)) > 1:
                raise self._error(
                    f"{one.old!r} stands {times} times in the cell {place!r}: take "
                    "more of what is around it"
                )
            if one.old == one.new:
                raise self._error(f"{one.old!r} is swapped for itself")
            cells[place] = cells[place].replace(one.old, one.new)
        return cells

    def answers(self) -> tuple:
        """Return the answers that the lecture's cell passes; raise :class:`EditError`."""
        _, arguments = _call(self.lecture, self.exercise)
        known = code_cells(self.lecture)
        cells = {}
        for cell, text in self.cells().items():
            # Each answer's cell has its own name, under which Python and Numba find its source.
            name = cell if text == known[cell] else f"{cell}: {self.exercise}, {self.name}"
            cells[name] = text
            if name != cell:
                lines = text.splitlines(keepends=True)
                linecache.cache[file_name(name)] = len(text), None, lines, file_name(name)
        names = sorted(
            {node.id for one in arguments for node in ast.walk(one) if isinstance(node, ast.Name)}
        )
        scope = run(self.lecture, cells, names)
        return tuple(
            eval(compile(ast.Expression(one), "<check>", "eval"), scope) for one in arguments
        )

    def _error(self, message: str) -> EditError:
        return EditError(f"{self.lecture}, wrong answer {self.exercise}:{self.name}: {message}")


def _call(lecture: str, exercise: str) -> tuple[str, list[ast.expr]]:
    """Return the cell that checks an exercise, and the call's arguments."""
    for cell, text in code_cells(lecture).items():
        if f'check("{exercise}"' in text:
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Call(func=ast.Name(id="check"), args=[ast.Constant(value), *rest]) if (
                        value == exercise
                    ):
                        return cell, rest
    raise EditError(f"no cell of {lecture} calls check({exercise!r}, …)")


def collection(lecture: str) -> tuple[list, Callable]:
    """Return a list of test parameters, and the function that adds an answer to it.

    ``wrong("bounds-guard", "illegal address", "no guard")(swap("if i < n:", "if True:"))`` adds a
    plausible answer to the exercise: the solution with a mistake, and a pattern for the check's
    message and its "where to look". An answer in full takes the place of the swaps. If it is a
    function, it is decorated: ``@wrong("bounds-guard", "illegal address")``.
    """
    cases: list = []

    def wrong(exercise: str, says: str, name: str | None = None):
        def register(*answers):
            if all(isinstance(answer, Swap) for answer in answers):
                known = name or answers[0].new.strip() or f"without {answers[0].old.strip()}"
                given = Edited(lecture, exercise, known, answers)
            else:
                given = answers  # Numba's and cuTile's kernels keep their Python function
                function = next(
                    (
                        getattr(answers[0], one)
                        for one in ("py_func", "_pyfunc")
                        if hasattr(answers[0], one)
                    ),
                    answers[0],
                )
                known = name or function.__name__
            cases.append(pytest.param(exercise, given, says, id=f"{exercise}:{known}"))
            return answers[0]

        return register

    return cases, wrong


def other_styles(lecture: str) -> tuple[list, Callable]:
    """Return the same for right answers, added with ``@right("bounds-guard")``."""
    cases, add = collection(lecture)
    return cases, lambda exercise, name=None: add(exercise, "", name)


def of_the_lecture(lecture: str, name: str) -> object:
    """Return the object of this name in the solved lecture, for answers that use it."""
    return run(lecture, code_cells(lecture), [name])[name]


def made(answers: tuple | Edited) -> tuple:
    """Return the answers as they are passed to the check."""
    return answers.answers() if isinstance(answers, Edited) else answers


@cache
def answers_of(lecture: str, kind: str = "wrong") -> ModuleType:
    """Return the module of a lecture's wrong or right answers, imported once."""
    if kind == "right":
        answers_of(lecture)  # registers Awkward's types, as the lecture's first cell does
    path = REPOSITORY / "course" / "lectures" / lecture / f"{kind}.py"
    name = f"{kind}_answers_{lecture}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
