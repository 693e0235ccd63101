"""Puzzles: one small TOML file for each, from which a notebook's cells are made.

The files are in ``puzzles/`` in the lesson's folder::

    title = "Add ten"
    text = "Thread `i` takes `a[i]`, adds 10 and writes `out[i]`."
    spec = "out = a + 10"                     # NumPy's line: shown, drawn, and what is checked
    kernel = '''…'''                          # the solution, its answer between the usual markers
    hints = ["The idea: …", "The shape: …"]
    [inputs]
    a = "whole(n)"                            # drawn again for each trial
    [predict]
    question = "…"
    choices = ["…", "…"]
    right = "…"
    why = "…"
    [predict.wrong]
    "…" = "…"
    [[wrong]]
    edit = ["+ 10", "+ 1"]                    # a plausible mistake, as an edit of the solution
    says = "element 0 is"                     # what the check must say of it

:class:`Puzzle` describes the other fields. The line ``# %% puzzle="add-ten"`` in a lesson's text
marks the place of the puzzle's cells. A puzzle's name is its file name without the number at the
beginning.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gpucourse.course.regions import SOLUTION, replace_regions, unwrap_regions
from gpucourse.system.language import _, catalogue

#: Length of a code line that a notebook shows without scrolling.
_WIDEST = 88
_MARKER = re.compile(r'# %% puzzle="([a-z0-9-]+)"\s*$')


class PuzzleError(ValueError):
    """A puzzle's file is invalid; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer to a puzzle: the solution with ``edit``s, or its own ``kernel``.

    It is either a plausible mistake with a pattern for the check's message (``says``), or a
    correct answer in another style.
    """

    says: str = ""
    edit: tuple[str, ...] = ()
    kernel: str = ""

    def text(self, solution: str) -> str:
        """Return the kernel; raise :class:`PuzzleError` if an edit changes nothing."""
        text = self.kernel or solution
        for old, new in zip(self.edit[::2], self.edit[1::2], strict=True):
            if old not in text:
                raise PuzzleError(f"nothing reads {old!r} in the solution")
            text = text.replace(old, new)
        return text


@dataclass(frozen=True, kw_only=True)
class Puzzle:
    """One kernel to write.

    Attributes
    ----------
    name, title, text, spec, kernel, hints
        As in the module's example.
    inputs : dict of str to str
        The kernel's arguments that are not its outputs: expressions in the sizes, in what was drawn
        before, and in the functions of :mod:`gpucourse.puzzles.inputs`.
    start : dict of str to str
        Initial value of an output whose initial value matters.
    scratch : dict of str to str
        Scratch arrays of the kernel, with their initial values.
    after : dict of str to str, or to (str, words)
        Required values of scratch arrays after the launch, and where to look if they differ.
    resumed : dict of str to str
        Scratch values for one more launch with one block fewer, in which the first block's work is
        already done. This is for kernels whose blocks must take their positions from the scratch.
    sizes : tuple of tuples
        Lengths ``n``, or ``rows, cols``, or ``rows, inner, cols``, that the check tries.
    threads : tuple of int
        Sizes of a block, ``T``, that it tries with them.
    launch : str
        The blocks and the threads of a block: two numbers or two tuples.
    picture, measured : tuple of int
        The sizes, then ``T``, of the picture, and of the launch that is counted.
    picture_launch : str
        The picture's own ``launch``, where small arrays need small blocks to be cut into tiles. A
        ``TILE`` in the kernel is then as wide as its blocks.
    clock : tuple of int
        The sizes, then ``T``, of the launch that is timed on a GPU.
    share : dict of str to str
        Requirements on the sharing of work, as parameters of
        :func:`gpucourse.judging.parallel.uneven`; ``items`` are ``n`` or ``rows * cols``.
    budget : tuple of (counter, most, words)
        Counts that the measured launch may not exceed, and what to look at if it does.
    needs : tuple of (counter, least, words)
        Counts that it must reach.
    wrong, also : tuple of Answer
        Mistakes that the check must reject, and correct answers in other styles than ours.
    library : str
        CuPy's lines for the same task, which the kernel must beat in bytes or in time.
    tolerance : float
        Relative tolerance of the answer, 0 if all numbers are integers.
    question, choices, right, reasons, why
        The prediction.
    broken : str
        A wrong kernel that is shown, launched with the picture's arguments, and replayed before
        the learner fixes it.
    raises : str
        The error in which the broken kernel ends.
    last : str
        The last question, for learners whose kernel with the fewest bytes is not the fastest.
    """

    name: str
    title: str
    text: str
    spec: str
    kernel: str
    hints: tuple[str, ...]
    question: str
    choices: tuple[str, ...]
    right: str
    reasons: dict[str, str]
    why: str
    wrong: tuple[Answer, ...]
    inputs: dict[str, str] = field(default_factory=dict)
    start: dict[str, str] = field(default_factory=dict)
    scratch: dict[str, str] = field(default_factory=dict)
    after: dict[str, str | list[str]] = field(default_factory=dict)
    resumed: dict[str, str] = field(default_factory=dict)
    also: tuple[Answer, ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ((129,), (1,), (31,), (128,), (33,), (257,), (1009,))
    threads: tuple[int, ...] = (64, 32, 128)
    launch: str = "-(-n // T), T"
    picture: tuple[int, ...] = (8, 4)
    picture_launch: str = ""
    measured: tuple[int, ...] = (4096, 128)
    clock: tuple[int, ...] = (1 << 24, 256)
    share: dict[str, str] = field(default_factory=dict)
    budget: tuple[tuple[str, str, str], ...] = ()
    needs: tuple[tuple[str, str, str], ...] = ()
    library: str = ""
    tolerance: float = 0.0
    broken: str = ""
    raises: str = ""
    last: str = ""

    @cached_property
    def solution(self) -> str:
        """Return the kernel with its solution."""
        return unwrap_regions(self.kernel, SOLUTION)

    @property
    def heading(self) -> str:
        """Return the title in the notebook and on the board."""
        return _("Broken: {title}").format(title=self.title) if self.broken else self.title

    def worded(self, say: Callable[[str], str]) -> Puzzle:
        """Translate the puzzle's texts with ``say``; code stays as it is."""

        def says(bounds: tuple) -> tuple:
            return tuple((counter, bound, say(words)) for counter, bound, words in bounds)

        return replace(
            self,
            title=say(self.title),
            text=say(self.text),
            question=say(self.question),
            choices=tuple(map(say, self.choices)),
            right=say(self.right),
            why=say(self.why),
            reasons={say(choice): say(reason) for choice, reason in self.reasons.items()},
            hints=tuple(map(say, self.hints)),
            last=say(self.last) if self.last else "",
            budget=says(self.budget),
            needs=says(self.needs),
        )

    @property
    def solved(self) -> bool:
        """Return True if the file contains the solution, which a wheel's copy does not."""
        return self.solution != unwrap_regions(
            replace_regions(self.kernel, SOLUTION, ["pass"]), SOLUTION
        )

    @cached_property
    def _definition(self) -> ast.FunctionDef:
        *_, last = (
            node for node in ast.parse(self.solution).body if isinstance(node, ast.FunctionDef)
        )
        return last

    @property
    def function(self) -> str:
        """Return the kernel's name."""
        return self._definition.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the kernel's parameters in order."""
        return tuple(argument.arg for argument in self._definition.args.args)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Return the names that the spec's line assigns."""
        return tuple(
            node.id
            for node in ast.walk(ast.parse(self.spec))
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and node.id in self.parameters
        )


def puzzle_folder(checks: Path) -> Path:
    """Return the folder of a lesson's puzzles, beside its checks or predictions."""
    return checks.with_name("puzzles")


def read_puzzles(where: Path) -> dict[str, Puzzle]:
    """Return the puzzles of a folder by name, in order, in the learner's language.

    Without a folder there are none. Raises :class:`PuzzleError`, which names the file, for an
    invalid file.
    """
    words = catalogue(where.parent)
    return {
        puzzle.name: puzzle.worded(partial(words.pgettext, puzzle.name))
        for puzzle in map(read_puzzle, sorted(where.glob("*.toml")))
    }


def read_puzzle(path: Path) -> Puzzle:
    """Read one puzzle; raise :class:`PuzzleError` if it is invalid."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        asked = table.pop("predict")
        table |= {
            "question": asked.pop("question"),
            "choices": asked.pop("choices"),
            "right": asked.pop("right"),
            "reasons": asked.pop("wrong"),
            "why": asked.pop("why"),
            "name": re.sub(r"^\d+_", "", path.stem).replace("_", "-"),
        }
        for kind in ("wrong", "also"):
            table[kind] = [
                Answer(**{key: _frozen(value) for key, value in one.items()})
                for one in table.get(kind, ())
            ]
        if not all(one.says for one in table["wrong"]):
            raise PuzzleError("a wrong answer needs the text with which the check answers it")
        if asked:
            raise PuzzleError(f"[predict] has {', '.join(asked)}")
        if unknown := table.keys() - {one.name for one in fields(Puzzle)}:
            raise PuzzleError(f"unknown: {', '.join(sorted(unknown))}")
        if (
            missing := {
                one.name
                for one in fields(Puzzle)
                if one.default is MISSING and one.default_factory is MISSING
            }
            - table.keys()
        ):
            raise PuzzleError(f"missing: {', '.join(sorted(missing))}")
        if "sizes" in table:
            table["sizes"] = [one if isinstance(one, list) else [one] for one in table["sizes"]]
        return Puzzle(**{key: _frozen(value) for key, value in table.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PuzzleError(f"{path.name}: {error}") from error


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return value.strip("\n") if isinstance(value, str) else value


# -- cells --------------------------------------------------------------------------------------


def is_marker(line: str) -> bool:
    """Return True if a line of a lesson's text marks the place of a puzzle."""
    return _MARKER.match(line) is not None


def expanded(text: str, puzzles: dict[str, Puzzle]) -> tuple[list[str], list[int]]:
    """Return a lesson's lines with its puzzles' cells inserted, and each line's origin.

    Raises :class:`PuzzleError` for a puzzle that does not exist, is placed twice or is not placed.
    """
    lines: list[str] = []
    origins: list[int] = []
    placed: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        marker = _MARKER.match(line)
        if marker is None:
            lines.append(line)
            origins.append(number)
            continue
        if marker[1] not in puzzles:
            raise PuzzleError(f"line {number} places the puzzle {marker[1]!r}, and there is none")
        placed.append(marker[1])
        made = cells(puzzles[marker[1]], len(placed)).split("\n")
        lines += made
        origins += [number] * len(made)
    if placed != [*puzzles]:
        raise PuzzleError(
            f"the puzzles are {', '.join(puzzles)}; the text places {', '.join(placed) or 'none'}"
        )
    return lines, origins


def cells(puzzle: Puzzle, number: int) -> str:
    """Return the cells of a puzzle in the format of a lesson's source."""
    return "\n".join(_broken(puzzle, number) if puzzle.broken else _whole(puzzle, number))


def _whole(puzzle: Puzzle, number: int) -> Iterator[str]:
    name = puzzle.name
    yield f'# %% [markdown] id="{name}-task" tags=["predict"]'
    yield from _markdown(
        f"## {number}. {puzzle.heading}\n\n{puzzle.text}\n\n"
        f"```python\n{puzzle.spec}\n```\n\n{_('*Predict:*')} {puzzle.question}"
    )
    yield from ("", f'# %% id="{name}-guess"', f'picture("{name}")')
    yield from _asked(puzzle)
    yield from ("", f'# %% id="{name}-exercise" tags=["exercise"]', puzzle.kernel)
    yield from ("", f'# %% id="{name}"', f'check("{name}", {puzzle.function})')
    yield from _why(puzzle)


def _broken(puzzle: Puzzle, number: int) -> Iterator[str]:
    name = puzzle.name
    raises = f' raises="{puzzle.raises}"' if puzzle.raises else ""
    yield f'# %% [markdown] id="{name}-task" tags=["predict"]'
    yield from _markdown(
        f"## {number}. {puzzle.heading}\n\n{puzzle.text}\n\n"
        f"```python\n{puzzle.spec}\n```\n\n{_('*Predict:*')} {puzzle.question}"
    )
    yield from ("", f'# %% id="{name}-guess"')
    yield from _asked(puzzle)
    yield from ("", f'# %% id="{name}"{raises}', puzzle.broken)
    function = ast.parse(puzzle.broken).body[-1].name  # type: ignore[attr-defined]
    yield from ("", "", f'replay("{name}", {function})')
    yield from _why(puzzle)
    yield from ("", f'# %% [markdown] id="{name}-mend"')
    yield from _markdown(_("Fix it: copy the lines from above, and remove the fault."))
    yield from ("", f'# %% id="{name}-exercise" tags=["exercise"]', puzzle.kernel)
    yield from ("", f'# %% id="{name}-check"', f'check("{name}", {puzzle.function})', "")


def _asked(puzzle: Puzzle) -> Iterator[str]:
    """Yield the call that asks the prediction, on one line if it fits."""
    name, *choices = map(_quoted, (puzzle.name, *puzzle.choices))
    line = f"predict({', '.join((name, *choices))})"
    if len(line) <= _WIDEST:
        yield line
        return
    yield f"predict({name},"
    yield from (f"        {choice}," for choice in choices[:-1])
    yield f"        {choices[-1]})"


def _why(puzzle: Puzzle) -> Iterator[str]:
    yield from ("", f'# %% [markdown] id="{puzzle.name}-why" tags=["why"]')
    last = f"\n\n{_('*Last question:*')} {puzzle.last}" if puzzle.last else ""
    yield from _markdown(puzzle.why + last)
    yield ""


def _markdown(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"# {line}".rstrip()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
