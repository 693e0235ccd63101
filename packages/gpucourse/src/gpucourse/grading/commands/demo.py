"""``gpucourse demo``: a class of right, wrong and damaged submissions, graded with nbgrader.

For every project of the course, the class contains the reference solution, right answers in other
styles (from its ``right.py``), the untouched starter, every known-wrong answer of its ``wrong.py``
and files that are damaged in various ways. The demo fails if any score or reason differs from the
expected one, so it is also a test of the grader.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gpucourse.course.checkout import checkouts
from gpucourse.course.regions import SOLUTION, unwrap_regions
from gpucourse.grading.classes.batch import FloorError, Grader
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.classes.report import one_line
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.submission.assignment import Assignment, role_of
from gpucourse.grading.verdict import Verdict
from gpucourse.system.programs import search_path
from gpucourse.wording import many

# This marker file is written into the folder that the demo creates, so that it never clears another
# folder.
MARKER = ".made-by-gpucourse-demo"
# nbgrader takes about as long to write feedback for this many submissions as it takes to start.
SMALL_CLASS = 20
# Width of the table in columns if there is no terminal, and seconds between progress lines.
LOG_WIDTH = 140
LOG_EVERY = 10
# Size of a quick demo: these damaged files, and this many right and wrong answers.
QUICK, QUICK_ANSWERS = {"solution", "starter", "deleted-test", "invalid-json"}, 2


@dataclass(frozen=True)
class Expected:
    """One submission of the demo and its expected result.

    `fails` lists the test cells that must fail; all others must pass. `reason` must occur in the
    reason of the first of them. If no test fails, it must occur in the reason for the whole
    submission or in a notice.
    """

    student: str
    content: str
    fails: tuple[str, ...]
    reason: str

    def points(self, assignment: Assignment) -> float:
        return sum(cell.points for cell in assignment.tests if cell.grade_id not in self.fails)


def solved(assignment: Assignment, changed: dict[str, str] | None = None) -> dict:
    """Return the released notebook with the reference answers, some of them replaced, as JSON."""
    notebook: dict = json.loads(json.dumps(assignment.released))
    answers = {
        cell.grade_id: unwrap_regions(cell.source, SOLUTION) for cell in assignment.solutions
    }
    answers |= changed or {}
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        cell["source"] = answers.get(name, cell["source"])
    return notebook


def right_answers(assignment: Assignment, path: Path) -> list[Expected]:
    """Return the entries of a project's ``right.py``."""
    return [
        Expected(entry["name"], json.dumps(solved(assignment, entry["cells"])), (), "")
        for entry in runpy.run_path(str(path))["RIGHT"]
    ]


def wrong_answers(assignment: Assignment, path: Path) -> list[Expected]:
    """Return the entries of a project's ``wrong.py``.

    Raises ValueError for an inconsistent entry.
    """
    tests = {cell.grade_id for cell in assignment.tests}
    answers = {cell.grade_id for cell in assignment.solutions}
    found = []
    for entry in runpy.run_path(str(path))["WRONG"]:
        unknown = (set(entry["fails"]) - tests) | (set(entry["cells"]) - answers)
        if unknown or not entry["fails"] or not entry["reason"]:
            raise ValueError(f"{path}: {entry['name']}: no such cells {sorted(unknown)}, or empty")
        content = json.dumps(solved(assignment, entry["cells"]))
        found.append(Expected(entry["name"], content, tuple(entry["fails"]), entry["reason"]))
    return found


def damaged(assignment: Assignment, path: Path) -> list[Expected]:
    """Return one submission for each kind of damage that files of a class can have.

    Without the last code answer, all tests after it fail, or those that the project's
    ``wrong.py``, at `path`, lists as ``WITHOUT_LAST``.
    """
    tests = tuple(cell.grade_id for cell in assignment.tests)
    roles = [role_of(cell) for cell in assignment.released.cells]
    last = max(
        n
        for n, role in enumerate(roles)
        if role == "solution" and assignment.released.cells[n].cell_type == "code"
    )
    name = assignment.released.cells[last].metadata.nbgrader.grade_id
    after = tuple(
        cell.metadata.nbgrader.grade_id
        for cell in assignment.released.cells[last:]
        if role_of(cell) == "test"
    )
    if path.is_file():
        after = runpy.run_path(str(path)).get("WITHOUT_LAST", after)

    def having(change: Callable[[list], object]) -> str:
        notebook = solved(assignment)
        change(notebook["cells"])
        return json.dumps(notebook)

    def syntax_error(cells: list) -> None:
        cells[last]["source"] += "\ndef unfinished(:\n"

    whole = json.dumps(solved(assignment))
    return [
        Expected("solution", whole, (), ""),
        Expected("starter", json.dumps(assignment.released), tests, "no solution"),
        Expected("syntax-error", having(syntax_error), after, "syntax error"),
        Expected("deleted-cell", having(lambda cells: cells.pop(last)), after, ""),
        Expected(
            "duplicated-cell",
            having(lambda cells: cells.insert(last, dict(cells[last]))),
            (),
            f"'{name}' is in the notebook 2 times",
        ),
        Expected(
            "deleted-test",
            having(lambda cells: cells.pop(roles.index("test"))),
            (),
            "was deleted; the original was used",
        ),
        Expected("invalid-json", whole[: len(whole) // 2], tests, "not valid JSON"),
        Expected("empty-file", "", tests, "not valid JSON"),
        Expected("another-notebook", '{"nbformat": 4, "cells": []}', tests, "None of the cells"),
    ]


def mismatch(
    expected: Expected, assignment: Assignment, verdict: Verdict | None, score: float | None
) -> str:
    """Describe how a result differs from the expected one; empty if it does not."""
    if verdict is None or verdict.earned is None:
        return f"not graded: {verdict.reason if verdict else 'no verdict'}"
    if score != verdict.earned:
        return f"the gradebook says {score}, the verdict {verdict.earned:g}"
    failed = tuple(outcome.test for outcome in verdict.tests if not outcome.passed)
    if set(failed) != set(expected.fails):
        return f"failed {', '.join(failed) or 'nothing'}; expected {', '.join(expected.fails)}"
    outcomes = {outcome.test: outcome.reason for outcome in verdict.tests}
    told = outcomes[expected.fails[0]] if expected.fails else " ".join(verdict.notices)
    if expected.reason.lower() not in told.lower():
        return f"the reason does not contain “{expected.reason}”: {told}"
    if verdict.earned != expected.points(assignment):
        return f"{verdict.earned:g} points, expected {expected.points(assignment):g}"
    return ""


def patterns(names: list[str]) -> list[str]:
    """Return patterns that split a class into two halves by the students' first letters.

    A second nbgrader process takes 4 s to start, so a small class is not split.
    """
    if len(names) <= SMALL_CLASS:
        return ["*"]
    count = Counter(name[0] for name in names)
    seen, parts = 0, ["", ""]
    for letter in sorted(count):
        parts[2 * seen >= len(names)] += letter
        seen += count[letter]
    return [f"[{letters}]*" for letters in parts if letters]


class Demo:
    """Course directory of the demo, in `folder`; if `quick`, with a small class of one project."""

    def __init__(self, root: Path, folder: Path, console: Console, quick: bool = False) -> None:
        self.root, self.folder, self.console, self.quick = root, folder, console, quick
        self.classroom = Classroom(folder)
        self.classes: dict[str, tuple[Assignment, list[Expected]]] = {}

    def build(self) -> None:
        """Create the folder afresh with sources, configuration and submissions."""
        if self.folder.exists():
            if not (self.folder / MARKER).is_file():
                raise FileExistsError(f"{self.folder} was not made by the demo; move it away")
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        (self.folder / MARKER).touch()
        shutil.copy(self.root / "grading" / "nbgrader_config.py", self.folder)
        paths = sorted((self.root / "grading" / "source").glob("*/*.ipynb"))
        for path in paths[:1] if self.quick else paths:
            name = path.stem
            target = self.folder / "source" / path.parent.name
            shutil.copytree(path.parent, target, dirs_exist_ok=True)
            assignment = Assignment.load(path)
            answers = self.root / "course" / "projects" / name
            students = [
                one
                for one in damaged(assignment, answers / "wrong.py")
                if not self.quick or one.student in QUICK
            ]
            for read, file in ((right_answers, "right.py"), (wrong_answers, "wrong.py")):
                if (answers / file).is_file():
                    found = read(assignment, answers / file)
                    students += found[:QUICK_ANSWERS] if self.quick else found
            for expected in students:
                place = self.folder / "submitted" / expected.student / name / f"{name}.ipynb"
                place.parent.mkdir(parents=True)
                place.write_text(expected.content, encoding="utf-8")
            self.classes[name] = assignment, students

    def nbgrader(
        self, *arguments: str, counted: str = "", advance: Callable[[], object] = lambda: None
    ) -> None:
        """Run an nbgrader command; call `advance` for each output line that contains `counted`."""
        environment = os.environ | {
            "PATH": search_path(),
            "JUPYTER_CONFIG_DIR": str(self.folder / ".jupyter"),
        }
        lines = []
        with subprocess.Popen(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                lines.append(line)
                if counted and counted in line:
                    advance()
        if process.returncode:
            self.console.print("".join(lines[-40:]), markup=False)
            raise RuntimeError(f"nbgrader {' '.join(arguments)} failed")

    def grade(self) -> None:
        """Grade everything in parallel, then let nbgrader write the gradebook and the feedback."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console) as progress, ThreadPoolExecutor() as pool:
            for name in self.classes:
                self._grade_project(name, progress, pool)

    def _grade_project(self, name: str, progress: Progress, pool: ThreadPoolExecutor) -> None:
        """Grade a project; independent parts run while nbgrader, which is serial, is working."""
        students = self.classes[name][1]

        def bar(what: str) -> Callable:
            task = progress.add_task(f"{name}: {what}", total=len(students))
            done, told = 0, time.monotonic()

            def advance(*_: object) -> None:
                nonlocal done, told
                progress.advance(task)
                done += 1
                late = time.monotonic() - told > LOG_EVERY
                if not self.console.is_terminal and (late or done == len(students)):
                    told = time.monotonic()
                    self.console.print(f"{name}: {what} {done} of {len(students)}", markup=False)

            return advance

        graded, written, told = bar("grading"), bar("gradebook"), bar("feedback")
        releasing = pool.submit(self.nbgrader, "generate_assignment", name)
        jobs = self.classroom.ingest(name)
        sources = [path for name in self.classes for path in self.classroom.sources(name)]
        self.classroom.grade(
            name, jobs, lambda: Grader(hidden=[self.folder, self.root], sources=sources), graded
        )
        releasing.result()
        self.nbgrader("autograde", name, counted="| INFO] Autograding", advance=written)
        tasks = [pool.submit(self.nbgrader, "export")]
        for pattern in patterns([expected.student for expected in students]):
            tasks.append(
                pool.submit(
                    self.nbgrader,
                    "generate_feedback",
                    name,
                    f"--student={pattern}",
                    counted="| INFO] Writing",
                    advance=told,
                )
            )
        for task in tasks:
            task.result()

    def scores(self, name: str) -> dict[str, float]:
        """Return each student's points from the gradebook."""
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}", "gpucourse") as gradebook:
            return {
                submission.student.id: submission.score
                for submission in gradebook.assignment_submissions(name)
            }

    def report(self) -> int:
        """Print the table; return the number of submissions with an unexpected result."""
        wrong = 0
        for name, (assignment, students) in self.classes.items():
            table = Table(title=name, title_justify="left")
            table.add_column("submission", no_wrap=True)
            table.add_column("score", justify="right", no_wrap=True)
            table.add_column("reason")
            table.add_column("as expected", no_wrap=True)
            scores = self.scores(name)
            for expected in students:
                verdict = Verdict.read(self.classroom.verdict_path(expected.student, name, name))
                bad = mismatch(expected, assignment, verdict, scores.get(expected.student))
                wrong += bool(bad)
                earned = (
                    "—"
                    if verdict is None or verdict.earned is None
                    else (f"{verdict.earned:g}/{verdict.points:g}")
                )
                reason = bad or (one_line(verdict) if verdict else "")
                table.add_row(
                    escape(expected.student),
                    earned,
                    escape(reason),
                    "[red]✗ UNEXPECTED[/]" if bad else "[green]✓[/]",
                )
            self.console.print(table)
        return wrong


def run(
    folder: Path | None = None,
    console: Console | None = None,
    roots: Iterable[Path] | None = None,
    quick: bool = False,
) -> int:
    """Run the demo, with all projects or a small part (`quick`).

    Returns 0 if every score and reason is the expected one.
    """
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, LOG_WIDTH)
    began = time.monotonic()
    found = list(checkouts(Path.cwd()) if roots is None else roots)
    if not found:
        console.print("Run this inside the course's folder.", style="red")
        return 2
    root = found[0]
    demo = Demo(root, folder or root / "build" / "demo", console, quick)
    demo.build()
    if not demo.classes:
        console.print("There is no project in grading/source: run `make build` first.", style="red")
        return 2
    try:
        demo.grade()
    except (SandboxError, FloorError) as error:
        console.print(f"Nothing was graded. {error}", style="red", markup=False)
        return 2
    wrong = demo.report()
    count = sum(len(students) for _, students in demo.classes.values())
    console.print(
        f"{many(count, 'submission')} in {time.monotonic() - began:.0f} s; gradebook, grades.csv "
        f"and feedback are in {demo.folder}",
        markup=False,
    )
    if wrong:
        console.print(f"{wrong} of {count} did not come out as expected", style="red")
    return 1 if wrong else 0
