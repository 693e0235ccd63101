"""Inputs that a project's tests pass to answers, recorded while the solution is judged.

A student knows the arguments of the visible tests, with the notebook's seed. While an answer is
graded, it also sees the arguments of the grader's seed. A value that was memorised in either way
is worthless only if the hidden tests use other arguments.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.adapters.cuda_text import loaded
from gpucourse.course.regions import released_source
from gpucourse.grading.contract import Call, Launch, Launched, seed_words
from gpucourse.grading.oracle.grader import run_setup
from gpucourse.grading.sandbox import cells
from gpucourse.grading.submission.assignment import SETUP, SOLUTION, Assignment
from gpucourse.grading.testing import verbs
from gpucourse.grading.testing.jaxprs import run_by_jax
from gpucourse.grading.testing.notebook_judge import NotebookJudge, to_host
from virtualgpu.awkward.kernels import is_awkward, to_device

BEGIN, END = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"


@dataclass(frozen=True)
class Asked:
    """One question of a test: the place (`where`), and its arguments as a digest and in short."""

    cell: str
    name: str
    digest: str
    short: str


class Recorder(NotebookJudge):
    """Verbs that run the answers unchecked; `hidden` tells which part of a test is running."""

    def __init__(self, answers: dict, secret: bytes | None) -> None:
        super().__init__(lambda: answers)
        self.secret = secret
        self.cell, self.hidden = "", False
        self.visible_inputs: list[Asked] = []
        self.hidden_inputs: list[Asked] = []

    def seed(self, name: str) -> np.ndarray:
        if self.secret is None:
            return super().seed(name)
        return seed_words(self.secret, self.cell.encode(), name.encode())

    def asked(self, name: str, args: Sequence[Any]) -> Asked:
        into = self.hidden_inputs if self.hidden else self.visible_inputs
        digest = hashlib.sha256(repr([*map(identity, args)]).encode()).hexdigest()
        into.append(Asked(self.cell, name, digest, ", ".join(map(short, args))))
        return into[-1]

    def result(self, asked: Asked, right: Any) -> Any:
        """Return a result for the test; for a launch, the changed arrays by position."""
        return right

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Return counts for tests that examine those of a launch."""
        with virtualgpu.profile() as profile:
            yield
        self.launched = [
            Launched(launch.kernel, launch.grid, launch.block, launch.counters)
            for launch in profile.launches
        ]

    def call(self, asked: Call) -> Any:
        question, args = self.asked(asked.name, asked.args), asked.args
        if asked.exchanged:
            args = tuple(
                next((by for what, by in asked.exchanged if what is value), value) for value in args
            )
            self.asked(asked.name, args)
        function = self._find(asked.name)
        if asked.where == "jax":
            right = to_host(run_by_jax(function, args, asked.static, asked.squeezed))
            return self.result(question, right)
        with self.counted():
            right = to_host(function(*map(copy.copy, args)))
        return self.result(question, right)

    def launch(self, asked: Launch) -> Launched:
        question = self.asked(asked.kernel, asked.args)
        there = [
            to_device(value) if is_awkward(value) else copy.copy(value) for value in asked.args
        ]
        with warnings.catch_warnings(), self.counted():
            warnings.filterwarnings("ignore", message="Host array used in CUDA kernel")
            self._find(asked.kernel)[asked.grid, asked.block, 0, asked.shared](*there)
        self._left(question, asked.args, there)
        return self.launched[0]

    def launch_source(self, source: str, asked: Launch) -> Launched:
        question = self.asked(asked.kernel, [source, *asked.args])
        there = [*map(copy.copy, asked.args)]
        with self.counted():
            loaded(source, asked.kernel)(asked.grid, asked.block, there)
        self._left(question, asked.args, there)
        return self.launched[0]

    def _left(self, asked: Asked, given: Sequence[Any], there: Sequence[Any]) -> None:
        """Pass the arrays that a launch changed to the test."""
        changed = {
            place: now
            for place, (before, now) in enumerate(zip(given, there, strict=True))
            if isinstance(before, np.ndarray) and before.tobytes() != np.asarray(now).tobytes()
        }
        for place, now in self.result(asked, changed).items():
            given[place][...] = now


def identity(value: Any) -> Any:
    """Return a key that is equal for arguments of equal content.

    An array of equal numbers, as in outputs, is represented by its type and shape, because another
    number in it does not make a different input.
    """
    if is_awkward(value):
        return "awkward", str(value.type), repr(value.to_list())
    if isinstance(value, (list, tuple)):
        return [*map(identity, value)]
    if isinstance(value, dict):
        return {key: identity(item) for key, item in value.items()}
    if isinstance(value, (str, bool, type(None))):
        return value
    array = np.ascontiguousarray(value)
    raw = array.reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
    same = np.ndim(value) and array.size != 1 and (raw[:1] == raw).all()
    return (
        array.dtype.str,
        np.shape(value),
        "" if same else hashlib.sha256(array.tobytes()).hexdigest(),
    )


def short(value: Any) -> str:
    """Return a short form for messages."""
    if is_awkward(value) or (isinstance(value, np.ndarray) and value.ndim):
        return f"{len(value)} of {getattr(value, 'dtype', 'records')}"
    return repr(value)[:60]


def solution_of(assignment: Assignment) -> dict:
    """Return the names that the set-up cells and the solution define."""
    answers: dict = {"__name__": "__main__"}
    for cell in assignment.cells:
        if cell.role in (SETUP, SOLUTION) and cell.cell_type == "code":
            cells.run(cell.source, cell.grade_id, answers)
    return answers


def tested(assignment: Assignment, recorder: Recorder) -> Iterator[Callable[[], object]]:
    """Yield each test of the project, ready to run with `recorder` in place of its verbs.

    Without a secret, it is the released notebook's test, with its own seed and no hidden tests.
    """
    namespace = run_setup(assignment)

    def hide(now: bool) -> None:
        recorder.hidden = now

    verbs.use_judge(recorder)
    try:
        for cell in assignment.tests:
            recorder.cell, recorder.hidden = cell.grade_id, False
            source = cell.source.replace(BEGIN, "hide(True)").replace(END, "hide(False)")
            if recorder.secret is None:
                source = released_source(cell.source, code=True, solution=False)
            yield partial(cells.run, source, cell.grade_id, namespace | {"hide": hide})
    finally:
        verbs.use_judge(None)


def recorded(assignment: Assignment, secret: bytes | None) -> Recorder:
    """Return every question that the tests ask the solution."""
    recorder = Recorder(solution_of(assignment), secret)
    for run in tested(assignment, recorder):
        run()
    return recorder


def repeated(assignment: Assignment, secret: bytes) -> list[tuple[Asked, Asked]]:
    """Return pairs of a hidden question and a visible one with the same arguments."""
    public, graded = recorded(assignment, None), recorded(assignment, secret)
    known = {
        (asked.name, asked.digest): asked
        for asked in [*public.visible_inputs, *graded.visible_inputs]
    }
    return [
        (asked, known[asked.name, asked.digest])
        for asked in graded.hidden_inputs
        if (asked.name, asked.digest) in known
    ]
