"""Wrong answers to puzzles: those in their files, and those that every puzzle must reject.

The latter are made from the puzzle itself: NumPy on the host, the picture's own results, each
input ignored, and all the work done by one thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import virtualgpu
from gpucourse.course.puzzles import Puzzle, puzzle_folder, read_puzzles

virtualgpu.activate(force=True)

from gpucourse.puzzles.judge import compiled, pictured  # noqa: E402

_REFUSED = "whatever|never written|illegal address|work is not shared|race|, not "


def wrong_answers(file: str) -> list:
    """Return test parameters (exercise, answers, message) of the puzzles beside ``file``."""
    found = []
    for puzzle in read_puzzles(puzzle_folder(Path(file))).values():
        for number, wrong in enumerate(puzzle.wrong, start=1):
            kernel = compiled(wrong.text(puzzle.solution), puzzle.name)
            found.append(_case(puzzle, f"mistake-{number}", kernel, wrong.says))
        for name, answer, says in _always(puzzle):
            found.append(_case(puzzle, name, answer, says))
    return found


def right_answers(file: str) -> list:
    """Return test parameters (exercise, answer) of right answers in other styles."""
    found = []
    for puzzle in read_puzzles(puzzle_folder(Path(file))).values():
        texts = [one.text(puzzle.solution) for one in puzzle.also]
        texts += [text for change in (strides, leaves_early) if (text := change(puzzle.solution))]
        found += [
            pytest.param(
                puzzle.name, compiled(text, puzzle.name), id=f"{puzzle.name}:style-{number}"
            )
            for number, text in enumerate(texts, start=1)
        ]
    return found


_GUARDED = re.compile(r"    i = cuda.grid\(1\)\n    if i < (\w+\.size):\n")


def strides(solution: str) -> str:
    """Return the solution as a grid-stride loop, if it is one guarded element per thread."""
    if "sync" in solution or not _GUARDED.search(solution):
        return ""
    return _GUARDED.sub(r"    for i in range(cuda.grid(1), \1, cuda.gridsize(1)):\n", solution)


def leaves_early(solution: str) -> str:
    """Return the solution with an early return, if it is one guarded element per thread."""
    if "sync" in solution or not _GUARDED.search(solution):
        return ""
    return _GUARDED.sub(
        r"    i = cuda.grid(1)\n    if i >= \1:\n        return\n    if True:\n", solution
    )


def _case(puzzle: Puzzle, name: str, answer: object, says: str):
    return pytest.param(puzzle.name, (answer,), says, id=f"{puzzle.name}:{name}")


def _always(puzzle: Puzzle) -> Iterator[tuple[str, object, str]]:
    yield "on-the-host", host(puzzle), "not a kernel"
    yield "built-for-the-picture", compiled(for_the_picture(puzzle), puzzle.name), _REFUSED
    for name, value in pictured(puzzle).values.items():
        if isinstance(value, int):
            text = re.sub(r"(\ndef .*:\n)", rf"\1    {name} = {value}\n", f"\n{puzzle.solution}")
            yield f"ignores-{name}", compiled(text, puzzle.name), f"whatever {name}|{_REFUSED}"
    if text := alone(puzzle.solution):
        # On a slow machine, one thread for all reaches a launch's limit first.
        told = "work is not shared|in a block of 1,024|race|does this loop end"
        yield "alone", compiled(text, puzzle.name), told


def host(puzzle: Puzzle):
    """Return a Python function that computes with NumPy and writes into its arguments."""

    def numpys(*arguments):
        scope = {"np": np, **dict(zip(puzzle.parameters, arguments, strict=True))}
        exec(puzzle.spec, scope)

    return numpys


def for_the_picture(puzzle: Puzzle) -> str:
    """Return a kernel that contains the picture's results."""
    results = {
        name: tuple(map(float, array.ravel())) for name, array in pictured(puzzle).expected.items()
    }
    lines = ["import numpy as np"]
    body = ["    k = cuda.grid(1)"]
    for name, known in results.items():
        lines.append(f"KNOWN_{name} = np.array({known or (0.0,)}, np.float32)")
        width = f"{name}.shape[1]"
        flat = (
            f"{name}[k // {width}, k % {width}]"
            if pictured(puzzle).expected[name].ndim > 1
            else f"{name}[k]"
        )
        body += [
            f"    if k < {name}.size:",
            f"        {flat} = KNOWN_{name}[k % {len(known) or 1}]",
        ]
    head = f"def {puzzle.function}({', '.join(puzzle.parameters)}):"
    return "\n".join([*lines, "@cuda.jit", head, *body])


def alone(solution: str) -> str:
    """Return the solution with all work in one thread, if it begins with ``i = cuda.grid(1)``."""
    head, found, rest = solution.partition("    i = cuda.grid(1)\n")
    if not found or any(word in rest for word in ("sync", "return", "Idx")):
        return ""
    body = "".join(f"        {line}\n" for line in rest.split("\n"))
    return f"{head}    if cuda.grid(1) == 0:\n        for i in range(cuda.gridsize(1)):\n{body}"
