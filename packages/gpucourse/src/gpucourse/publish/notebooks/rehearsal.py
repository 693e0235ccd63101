"""Rehearsal of the course: every notebook is run as a learner would run it.

The rules, for each lesson that ``course.toml`` lists:

- a released lecture runs from top to bottom, its cells raise only the errors that their source
  declares, and every check fails on the starter;
- in the lecture's solution notebook, only declared errors are raised, and every check passes;
- a starter project fails only in its test cells, each with the error that its source declares;
- in the project's solution notebook, nothing raises;
- every exercise is checked and has hints;
- no cell prints warnings, and none shows a picture without a description in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from gpucourse.course.checkout import notebook_path
from gpucourse.course.problems import CourseError, Problem
from gpucourse.course.registry import Course, Lecture
from gpucourse.exercises.checks import Exercise, read_exercises
from gpucourse.exercises.outcomes import CHECK_MIME
from gpucourse.notebook.extension import STOPS_IT
from gpucourse.publish.notebooks import derive as notebooks
from gpucourse.publish.notebooks.execution import execute
from gpucourse.publish.source.reader import Cell, Source


@dataclass(frozen=True, slots=True)
class RanCell:
    """Result of one cell: its error if it raised, the outcomes of its checks, and its warnings.

    ``wordless`` is True if it shows a picture without a description.
    """

    cell: Cell
    error: str | None
    message: str
    outcomes: tuple[dict, ...]
    stderr: str
    wordless: bool


def rehearse(
    course: Course, source: Source, notice: Callable[[str], object] = str
) -> list[Problem]:
    """Run a lesson's two notebooks; report each run to ``notice``."""
    path = source.path.relative_to(course.root)
    exercises = read_exercises(course.checks(source.lesson))
    starter = _starter_lecture if isinstance(source.lesson, Lecture) else _starter_project
    rehearsals = (
        ("starter", notebooks.released, notebook_path(source.lesson).parent, starter),
        ("solution", notebooks.solution, Path("solutions"), _solved),
    )
    problems = [Problem(path, line, text) for line, text in _hint_mistakes(source, exercises)]
    for name, derive, folder, judge in rehearsals:
        notice(f"{source.lesson.id}: {name}")
        ran = run(derive(course, source), source, course.root / folder)
        for line, text in judge(ran, exercises):
            problems.append(Problem(path, line, f"({name}) {text}"))
    return problems


def run(notebook: NotebookNode, source: Source, folder: Path) -> list[RanCell]:
    """Run a notebook of ``source`` in a fresh kernel in ``folder``, past any errors."""
    return what_ran(execute(notebook, folder), source)


def what_ran(executed: NotebookNode, source: Source) -> list[RanCell]:
    """Return the result of each code cell of an executed notebook of ``source``."""
    ids = {notebooks.cell_id(source.lesson.id, cell.name): cell for cell in source.cells}
    ran = [cell for cell in executed.cells if cell.cell_type == "code"]
    return [_ran(ids[cell.id], cell.outputs) for cell in ran]


def _ran(cell: Cell, outputs: list[NotebookNode]) -> RanCell:
    errors = [output for output in outputs if output.output_type == "error"]
    return RanCell(
        cell=cell,
        error=errors[0].ename if errors else None,
        message=errors[0].evalue.split("\n")[0] if errors else "",
        outcomes=tuple(
            output.data[CHECK_MIME]
            for output in outputs
            if output.output_type == "display_data" and CHECK_MIME in output.data
        ),
        stderr="".join(
            output.text
            for output in outputs
            if output.output_type == "stream" and output.name == "stderr"
        ),
        wordless=any(_is_wordless(output.get("data", {})) for output in outputs),
    )


def _is_wordless(data: dict) -> bool:
    """Return True for an output that is a picture without a description in words."""
    shown = data.get("text/html", "")
    if not shown:
        # Neither JupyterLab nor nbconvert writes an alt text for such a picture.
        return any(kind.startswith("image/") for kind in data)
    tags = re.findall(r"<img\b[^>]*>", shown, re.DOTALL)
    drawn = re.findall(r"<svg\b[^>]*>", shown, re.DOTALL)
    return any(not re.search(r"""\balt=["'][^"']""", tag) for tag in tags) or any(
        not re.search(r"""\b(aria-label|aria-hidden)=["'][^"']""", tag) for tag in drawn
    )


Mistakes = Iterator[tuple[int, str]]


def _starter_lecture(ran: list[RanCell], exercises: dict[str, Exercise]) -> Mistakes:
    yield from _errors(ran, lambda cell: cell.raises)
    yield from _warnings(ran)
    checked: set[str] = set()
    waiting: Cell | None = None
    for item in ran:
        if item.outcomes:
            waiting = None
        if "exercise" in item.cell.tags:
            if waiting:
                yield waiting.line, f"nothing checks the exercise {waiting.name!r}"
            waiting = None if item.outcomes else item.cell
        for outcome in item.outcomes:
            checked.add(outcome["name"])
            if outcome["passed"]:
                yield item.cell.line, f"the starter passes the check {outcome['name']!r}"
    if waiting:
        yield waiting.line, f"nothing checks the exercise {waiting.name!r}"
    for name in sorted(exercises.keys() - checked):
        yield 1, f"no cell calls check({name!r}, …)"


def _starter_project(ran: list[RanCell], exercises: dict[str, Exercise]) -> Mistakes:
    def expected(cell: Cell) -> tuple[str, ...]:
        if cell.role != "test":
            return cell.raises
        assert cell.starter is not None  # the reader of sources requires it
        return (cell.starter,)

    yield from _errors(ran, expected)


def judge_solved(course: Course, source: Source, executed: NotebookNode) -> None:
    """Raise CourseError, naming cells, if an executed solution does not do what its source says."""
    path = source.path.relative_to(course.root)
    mistakes = _solved(what_ran(executed, source), {})
    if problems := [Problem(path, line, text) for line, text in mistakes]:
        raise CourseError(problems)


def _solved(ran: list[RanCell], exercises: dict[str, Exercise]) -> Mistakes:
    yield from _errors(ran, lambda cell: cell.raises)
    yield from _warnings(ran)
    for item in ran:
        for outcome in item.outcomes:
            if not outcome["passed"]:
                text = f"the check {outcome['name']!r} refuses the solution: {outcome['message']}"
                yield item.cell.line, text


def _errors(ran: list[RanCell], expected: Callable[[Cell], tuple[str, ...]]) -> Mistakes:
    for item in ran:
        wanted = " or ".join(expected(item.cell))
        if item.error is None and wanted:
            yield item.cell.line, f"cell {item.cell.name!r} should raise {wanted}, but does not"
        elif item.error is not None and item.error not in expected(item.cell):
            instead = f" instead of {wanted}" if wanted else ""
            text = f"cell {item.cell.name!r} raises {item.error}{instead}: {item.message}"
            yield item.cell.line, text


def _warnings(ran: list[RanCell]) -> Mistakes:
    for item in ran:
        # The duration of a launch depends on the machine and its load.
        warnings = [
            line
            for line in item.stderr.splitlines()
            if line.strip() and not line.endswith(STOPS_IT)
        ]
        if warnings and not item.cell.raises:
            yield item.cell.line, f"cell {item.cell.name!r} prints a warning: {warnings[0]}"
        if item.wordless:
            text = "shows a picture without words: gpucourse.views.picture.Picture(figure, alt)"
            yield item.cell.line, f"cell {item.cell.name!r} {text}"


def _hint_mistakes(source: Source, exercises: dict[str, Exercise]) -> Mistakes:
    if isinstance(source.lesson, Lecture):
        return
    answers = {cell.name: cell for cell in source.cells if cell.role == "solution"}
    for name in answers.keys() - exercises.keys():
        yield answers[name].line, f"the solution cell {name!r} has no hints in checks.py"
    for name in exercises.keys() - answers.keys():
        yield 1, f"checks.py has hints for {name!r}, which is no solution cell"
