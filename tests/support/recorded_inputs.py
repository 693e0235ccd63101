"""What a project's tests hand to answers: recorded while they judge the solution, not read.

A student knows the arguments of the visible tests, with the seed of the notebook, and an answer
hears those of the grader's seed while it is graded: a value that was memorised in either way is
worth nothing only where the hidden tests ask for another.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.adapters.cuda_text import loaded
from gpucourse.course.regions import released_source
from gpucourse.grading.contract import Launched, seed_words
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
    """One question of a test: `where` it stands, and its arguments as a digest and in short."""

    cell: str
    name: str
    digest: str
    short: str


class Recorder(NotebookJudge):
    """Has the answers do what tests ask for, unchecked; `hidden`: which part of a test it is."""

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

    def asked(self, name: str, args: Sequence[Any]) -> None:
        into = self.hidden_inputs if self.hidden else self.visible_inputs
        digest = hashlib.sha256(repr([*map(identity, args)]).encode()).hexdigest()
        into.append(Asked(self.cell, name, digest, ", ".join(map(short, args))))

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Tests look at the counts of what was launched."""
        with virtualgpu.profile() as profile:
            yield
        self.launched = [
            Launched(launch.kernel, launch.grid, launch.block, launch.counters)
            for launch in profile.launches
        ]

    def call(
        self,
        name: str,
        args: tuple,
        *,
        where: str,
        static: tuple,
        exchanged: Sequence = (),
        squeezed: float | None = None,
        **_: Any,
    ) -> Any:
        self.asked(name, args)
        if exchanged:
            args = tuple(
                next((by for what, by in exchanged if what is value), value) for value in args
            )
            self.asked(name, args)
        function = self._find(name)
        if where == "jax":
            return to_host(run_by_jax(function, args, static, squeezed))
        with self.counted():
            return to_host(function(*map(copy.copy, args)))

    def launch(
        self, name: str, grid: tuple, block: tuple, args: tuple, *, shared: int, **_: Any
    ) -> Launched:
        self.asked(name, args)
        there = [to_device(value) if is_awkward(value) else copy.copy(value) for value in args]
        with warnings.catch_warnings(), self.counted():
            warnings.filterwarnings("ignore", message="Host array used in CUDA kernel")
            self._find(name)[grid, block, 0, shared](*there)
        for given, got in zip(args, there, strict=True):
            if isinstance(given, np.ndarray) and given.flags.writeable:
                given[...] = got
        return self.launched[0]

    def launch_source(
        self, source: str, kernel: str, grid: tuple, block: tuple, args: tuple, **_: Any
    ) -> Launched:
        self.asked(kernel, [source, *args])
        with self.counted():
            loaded(source, kernel)(grid, block, args)
        return self.launched[0]


def identity(value: Any) -> Any:
    """Equal for arguments of equal content.

    An array that holds one number throughout, as outputs do, stands for its type and shape: another
    number in it makes no other input.
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
    """For messages."""
    if is_awkward(value) or (isinstance(value, np.ndarray) and value.ndim):
        return f"{len(value)} of {getattr(value, 'dtype', 'records')}"
    return repr(value)[:60]


def recorded(assignment: Assignment, secret: bytes | None) -> Recorder:
    """Every question that the tests put to the solution.

    With a secret as in the grader. Without, those of the released notebook: its own seed, and no
    hidden tests.
    """
    answers: dict = {"__name__": "__main__"}
    for cell in assignment.cells:
        if cell.role in (SETUP, SOLUTION) and cell.cell_type == "code":
            cells.run(cell.source, cell.grade_id, answers)
    recorder, namespace = Recorder(answers, secret), run_setup(assignment)

    def hide(now: bool) -> None:
        recorder.hidden = now

    verbs.use_judge(recorder)
    try:
        for cell in assignment.tests:
            recorder.cell, recorder.hidden = cell.grade_id, False
            source = cell.source.replace(BEGIN, "hide(True)").replace(END, "hide(False)")
            if secret is None:
                source = released_source(cell.source, code=True, solution=False)
            cells.run(source, cell.grade_id, namespace | {"hide": hide})
    finally:
        verbs.use_judge(None)
    return recorder


def repeated(assignment: Assignment, secret: bytes) -> list[tuple[Asked, Asked]]:
    """Pairs of a hidden question and a visible one with the same arguments."""
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
