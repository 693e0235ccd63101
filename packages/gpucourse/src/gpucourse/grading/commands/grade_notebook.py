"""``gpucourse grade NOTEBOOK``: grading of a learner's own notebook on their own machine."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpucourse.course.checkout import checkouts
from gpucourse.grading.classes.batch import Grader, Job
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.confined import lacking
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.sandbox.levels import at_least
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.finding import belongs
from gpucourse.grading.submission.ingest import ingest_file
from gpucourse.grading.submission.reading import Unreadable, read_cells
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT, STUDENT_FAULT, Verdict
from gpucourse.learner import records
from gpucourse.system.language import _, said

# Exit codes of `gpucourse grade`.
ALL_POINTS, NOT_ALL_POINTS, NOT_GRADED = 0, 1, 2


def grade(notebook: Path, console: Console | None = None) -> int:
    """Grade `notebook` and print a table; return 0 for all points, 1 for fewer, 2 if none ran."""
    console = console or Console()
    try:
        source = find_source(notebook)
    except LookupError as error:
        console.print(str(error), style="red", markup=False)
        return NOT_GRADED
    assignment = Assignment.load(source)
    job = Job("", source, ingest_file(notebook, assignment))
    if not job.ingested.read:
        # The project of the notebook is unknown, so no result is recorded.
        console.print(
            f"{notebook.name} was not graded, and your points have not changed. "
            f"{job.ingested.fault}",
            style="red",
            markup=False,
        )
        return NOT_GRADED
    try:
        with (
            _waiting(console, f"grading {notebook.name}"),
            Grader(own_work=True, workers=1, sources=[source]) as grader,
        ):
            (verdict,) = grader.grade([job])
    except SandboxError as error:
        console.print(f"The grader could not start: {error}", style="red", markup=False)
        return NOT_GRADED
    show(verdict, console, *_texts(source))
    if verdict.kind != INFRASTRUCTURE_FAULT:
        records.note(lesson=source.stem, points=verdict.earned, of=verdict.points)
    by_hand = [cell for cell in assignment.solutions if cell.points]
    if by_hand and verdict.kind != INFRASTRUCTURE_FAULT:
        names = ", ".join(cell.grade_id for cell in by_hand)
        more = _("{points:g} more points are given by a person: {names}")
        console.print(
            more.format(points=sum(cell.points for cell in by_hand), names=names), markup=False
        )
    if verdict.kind == INFRASTRUCTURE_FAULT:
        return NOT_GRADED
    return ALL_POINTS if verdict.earned == verdict.points else NOT_ALL_POINTS


def _waiting(console: Console, words: str) -> AbstractContextManager:
    """Show a message while the work lasts, with a spinner if the screen can remove it."""
    # A command after `!` in a notebook cell has a terminal, but the page keeps every frame of a
    # spinner.
    if "JPY_PARENT_PID" not in os.environ:
        return console.status(words)
    console.print(words, markup=False)
    return nullcontext()


def _texts(source: Path) -> list[Path]:
    """Return the folders that may contain catalogues of the project's messages."""
    return [folder / "course" / "projects" / source.stem for folder in checkouts(source)]


def show(verdict: Verdict, console: Console, *texts: Path) -> None:
    """Show the verdict as a table, with one line for each test cell.

    Reasons are in the learner's language if a catalogue in the folders ``texts`` has them. If
    nothing could be run, every test has the same reason, so it is shown once, above the table.
    """
    if verdict.kind == INFRASTRUCTURE_FAULT:
        console.print("The grader failed, not your notebook:", style="red")
        console.print(verdict.reason, markup=False)
        return
    title = _("{notebook}: {earned:g} of {points:g} points").format(
        notebook=verdict.notebook, earned=verdict.earned, points=verdict.points
    )
    console.print(title, style="italic", markup=False)
    nothing_ran = verdict.kind == STUDENT_FAULT
    if nothing_ran:
        console.print(said(verdict.reason, *texts), style="red", markup=False)
    table = Table(show_lines=False)
    table.add_column(_("test"))
    table.add_column(_("points"), justify="right")
    if not nothing_ran:
        table.add_column(_("which property fails"))
    for outcome in verdict.tests:
        colour = "green" if outcome.passed else "red"
        mark = "✓" if outcome.passed else "✗"
        row = [
            f"[{colour}]{mark}[/] {escape(outcome.test)}",
            f"{outcome.earned:g}/{outcome.points:g}",
        ]
        table.add_row(*row, *[] if nothing_ran else [escape(said(outcome.reason, *texts))])
    console.print(table)
    for notice in verdict.notices:
        console.print(f"• {notice}", markup=False)
    weak = (
        ""
        if at_least(verdict.isolation)
        else (" (weak: grade only your own notebooks here; bubblewrap would isolate better)")
    )
    console.print(
        f"device: {verdict.device}; isolation: {verdict.isolation}{weak}"
        f"{lacking([verdict.oracle])}; "
        f"{verdict.seconds:.1f} s",
        style="dim",
        markup=False,
    )


def find_source(notebook: Path) -> Path:
    """Return the instructor's copy of the project that `notebook` answers.

    The search uses the file's name first and then the cells in it. Raises LookupError with advice.
    """
    for folder in checkouts(notebook.parent, Path.cwd()):
        paths = sorted((folder / "grading" / "source").glob("*/*.ipynb"))
        sources = {path.stem: path for path in paths}
        if sources:
            break
    else:
        raise LookupError(
            "The projects' hidden tests are not here, so nothing can be graded: a handout does "
            "not contain them. The test cells in the notebook are the visible part, and the "
            "button Validate runs them all. In a class, submit the notebook as your teacher told "
            "you. In a copy of the whole course, run this command inside its folder (the one with "
            "course/ and grading/)."
        )
    if notebook.stem in sources:
        return sources[notebook.stem]
    try:
        cells = read_cells(notebook, Limits())
    except Unreadable as unreadable:
        raise LookupError(str(unreadable)) from None
    for path in sources.values():
        if belongs(cells, Assignment.load(path)):
            return path
    raise LookupError(
        f"{notebook.name} is not one of the projects: {', '.join(sorted(sources))}. Start from the "
        "notebook in projects/."
    )
