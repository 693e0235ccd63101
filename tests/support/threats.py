"""Attempts of submissions to get undeserved points: their format, submission and grading.

The attempts themselves are in ``threats_verdict``, ``threats_answers``, ``threats_neighbours``,
``threats_files`` and ``threats_kernels``. The tests grade each of them with the course's grader,
and ``lab/evidence/grader_threats.py`` also submits the same files to stock nbgrader.

**The points of an attempt tell whether it succeeded**, because the answer that it guards is right
only if the attack works. So "full marks" in a table means that the grader was fooled. An attempt
that succeeds does no damage: it reads, writes into its own folder, or starts a process that ends
by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell

from gpucourse.grading.classes.batch import Job
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox.levels import ForkServer
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED, Verdict
from grading_toy import nbgrader, notebook_of, setup, solution, submission, test_cell

SEED = "5eed" * 8
# Long limits, because a test machine may be busy. Attempts that never end have their own limits.
LIMITS = Limits(
    request_seconds=60.0, request_wall_seconds=300.0, test_seconds=120.0, memory_bytes=1536 << 20
)
# Placeholder for the course directory in an attempt's text.
COURSE = "@COURSE@"
# Variables of the hidden part of a test, which feedback must never show.
HIDDEN = "hidden_values"
# Secret in the hidden part and, as in a real test, in the gradebook.
MARK = b"mark-7f3a"

START = """%load_ext gpucourse
import numpy as np
from numba import cuda, int32
from gpucourse import call, expect_equal, expect, launch, launches, secret_rng, unwritten
"""

DOUBLE = """def double(values):
    ### BEGIN SOLUTION
    return 2 * values
    ### END SOLUTION
"""

# Plain asserts, as most instructors write them.
TEST_DOUBLE = """answer = call("double", np.arange(3.0), where="host")
assert np.array_equal(answer, [0.0, 2.0, 4.0]), "wrong for three numbers"
### BEGIN HIDDEN TESTS
# mark-7f3a
for n in (0, 1, 33):
    hidden_values = secret_rng(f"{n}").uniform(-1, 1, n)
    answer = call("double", hidden_values, where="host")
    assert np.array_equal(answer, 2 * hidden_values), "wrong for other numbers"
### END HIDDEN TESTS
"""

TOTAL = """def total(values):
    ### BEGIN SOLUTION
    return float(values.sum())
    ### END SOLUTION
"""

# Partial credit as in nbgrader: the cell's value is the number of points.
TEST_TOTAL = """2 - 2 * abs(call("total", np.ones(4), where="host") - 4.0)
"""

SCALE = """@cuda.jit
def scale(values, factor, out):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < values.size:
        out[i] = factor * values[i]
    ### END SOLUTION
"""

TEST_SCALE = """hidden_values = (100, 33, 0)
for n in hidden_values:
    values = secret_rng(str(n)).uniform(size=n)
    values.setflags(write=False)
    out = unwritten(n, np.float64)
    launch("scale", 4, 32, values, 2.0, out)
    expect_equal(out, 2.0 * values, "wrong for an empty input" if n == 0 else "wrong values")
"""

COUNT = """@cuda.jit
def tally(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)

def histogram(values, bins):
    ### BEGIN SOLUTION
    counts = cuda.to_device(np.zeros(bins, np.int32))
    tally[(len(values) + 63) // 64 + 1, 64](cuda.to_device(values), counts)
    return counts.copy_to_host()
    ### END SOLUTION
"""

TEST_COUNT = """for number in range(3):
    values = secret_rng(str(number)).integers(0, 5, 200)
    expect_equal(call("histogram", values, 7), np.bincount(values, minlength=7), "wrong counts")
expect(len(launches()) == 1, "not one launch")
"""


def host_notebook() -> nbformat.NotebookNode:
    """Return a notebook with two host functions (3 and 2 points) and a written answer."""
    return notebook_of(
        [
            new_markdown_cell("# Double and add up", id="title"),
            setup("start", START),
            solution("double", DOUBLE),
            test_cell("test-double", TEST_DOUBLE, 3),
            solution("total", TOTAL),
            test_cell("test-total", TEST_TOTAL, 2),
            new_markdown_cell(
                "YOUR ANSWER",
                id="why",
                metadata=nbgrader("why", solution=True, grade=True, points=0),
            ),
        ]
    )


def kernel_notebook() -> nbformat.NotebookNode:
    """Return a notebook with one kernel (3 points) and a host function with a kernel (2 points)."""
    return notebook_of(
        [
            setup("start", START),
            solution("scale", SCALE),
            test_cell("test-scale", TEST_SCALE, 3),
            solution("count", COUNT),
            test_cell("test-count", TEST_COUNT, 2),
        ]
    )


NOTEBOOKS = {"host": host_notebook, "kernels": kernel_notebook}
FULL = (3.0, 2.0)


@dataclass(frozen=True)
class Attempt:
    """One submission that tries something.

    Attributes
    ----------
    row
        Number in the list of threats.
    name
        Becomes the student's name; classes are graded in the order of names.
    tries
        What it does, for the table.
    earns
        Points of the two tests that the grader must give.
    says
        Must occur in the first failing test's reason or, where all pass, in the notices.
    change
        What is done to the notebook (a dict, in place); may return the file's bytes instead.
    place
        What is done to the submitted file, given its path.
    honest
        Cells of an honest submission that does something alike; must earn everything.
    limits
        Tighter bounds, for attempts that would use them up.
    stock
        Why stock nbgrader is not asked; empty if it is.
    """

    row: int
    name: str
    tries: str
    cells: dict[str, str] = field(default_factory=dict)
    earns: tuple[float, float] = (0.0, 2.0)
    says: str = ""
    assignment: str = "host"
    change: Callable[[dict], bytes | None] | None = None
    place: Callable[[Path], None] | None = None
    honest: dict[str, str] = field(default_factory=dict)
    limits: Limits | None = None
    stock: str = ""


class Course:
    """A course directory with the two assignments, other students' work, and secrets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.classroom = Classroom(root)
        self.assignments: dict[str, Assignment] = {}
        for name, notebook in NOTEBOOKS.items():
            path = root / "source" / name / f"{name}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook(), path)
            self.assignments[name] = Assignment.load(path)
        if not (root / "gradebook.db").exists():
            (root / "gradebook.db").write_bytes(b"grades and " + MARK)
        self.hand_in(Attempt(0, "a-victim", ""))

    def hand_in(self, attempt: Attempt) -> Path:
        """Write the submission and return the path of its notebook."""
        name = attempt.assignment
        assignment = self.assignments[name]
        cells = {cell: text.replace(COURSE, str(self.root)) for cell, text in attempt.cells.items()}
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": json.loads(json.dumps(assignment.released.metadata)),
            "cells": submission(assignment, **cells),
        }
        content = attempt.change(notebook) if attempt.change else None
        path = self.root / "submitted" / attempt.name / name / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(json.dumps(notebook).encode() if content is None else content)
        if attempt.place:
            attempt.place(path)
        return path

    def ingest(self, attempt: Attempt) -> Job:
        """Submit and rebuild; return the job for the grader."""
        self.hand_in(attempt)
        (job,) = self.classroom.ingest(attempt.assignment, [attempt.name])
        return job

    def grade(self, attempt: Attempt, server: ForkServer) -> Verdict:
        """Submit, rebuild and grade, in this process and the sandbox."""
        job = self.ingest(attempt)
        limits = attempt.limits or LIMITS
        return grade(self.assignments[attempt.assignment], job.ingested, server, SEED, limits)


def faults(attempt: Attempt, verdict: Verdict) -> str:
    """Describe differences between a verdict and the attempt's expectation, or return ""."""
    earned = tuple(outcome.earned for outcome in verdict.tests)
    if attempt.limits is not None and any(
        words in verdict.tests[1].reason for words in ("took longer", "never finishes")
    ):
        # With the attempt's short limits, a busy machine may be too slow for honest work.
        earned = earned[0], attempt.earns[1]
    if earned != attempt.earns:
        return f"{attempt.name}: earned {earned}, expected {attempt.earns}: {verdict.to_json()}"
    told = verdict.first_reason() or " ".join(verdict.notices)
    if attempt.says not in told:
        return f"{attempt.name}: {attempt.says!r} is not in {told!r}"
    if HIDDEN in verdict.to_json():
        return f"{attempt.name}: the verdict names a hidden variable"
    return ""


def control(attempt: Attempt) -> Attempt:
    """Return the honest submission that belongs to an attempt."""
    return replace(
        attempt,
        name=f"row-{attempt.row}-control",
        cells=attempt.honest,
        earns=FULL,
        says="",
        change=None,
        place=None,
        limits=None,
    )


def holds(attempt: Attempt, course: Course, server: ForkServer) -> Verdict:
    """Assert that the grader withstands the attempt and that honest work keeps its points."""
    verdict = course.grade(attempt, server)
    assert_as_told(attempt, verdict)
    honest_work_is_unharmed(attempt, course, server)
    return verdict


def assert_as_told(attempt: Attempt, verdict: Verdict) -> None:
    """Assert that the verdict is the one that the attempt expects."""
    wrong = faults(attempt, verdict)
    assert not wrong, wrong


_unharmed: set[tuple] = set()


def honest_work_is_unharmed(attempt: Attempt, course: Course, server: ForkServer) -> None:
    """Assert that the attempt's control gets full marks.

    Attempts of a row with the same control share one grading, after the first of them.
    """
    same = (attempt.row, attempt.assignment, *sorted(attempt.honest.items()), server)
    if same not in _unharmed:
        _unharmed.add(same)
        honest = course.grade(control(attempt), server)
        assert honest.kind == GRADED, honest.reason
        assert_as_told(control(attempt), honest)


def rows(attempts: list[Attempt], row: int) -> list[Attempt]:
    """Return the attempts of one row of the list, for ``pytest.mark.parametrize``."""
    found = [attempt for attempt in attempts if attempt.row == row]
    assert found, f"no attempt for row {row}"
    return found


def each_attempt(attempts: list[Attempt], row: int, rehearsed: Collection[str] = ()):
    """Return a mark that makes a test for each attempt of one row of the list.

    Attempts marked ``rehearsed`` are graded only by ``make rehearse``, because they take long and
    are stopped in the same way as the others of their row.
    """
    import pytest

    return pytest.mark.parametrize(
        "attempt",
        [
            pytest.param(one, id=one.name, marks=[pytest.mark.rehearsal] * (one.name in rehearsed))
            for one in rows(attempts, row)
        ],
    )
