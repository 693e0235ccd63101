"""Answers that compute nothing and return results published in the released notebook.

A learner can write down every result that the visible tests ask for, and return one of them if a
test asks for something else. The counters are those of the solution, so only the values can
distinguish such an answer from a right one.
"""

from __future__ import annotations

import contextlib
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpucourse.grading.submission.assignment import Assignment
from recorded_inputs import Asked, Recorder, solution_of, tested

#: Number of the latest published results that are tried, one after the other.
TRIED = 6
#: Processor seconds for each test, because the solution of another step may never end with
#: constants.
SECONDS = 5.0


class Published(Recorder):
    """Recorder of the released notebook's results, by question and by name."""

    def __init__(self, answers: dict) -> None:
        super().__init__(answers, None)
        self.by_question: dict[tuple[str, str], Any] = {}
        self.by_name: dict[str, list] = defaultdict(list)

    def result(self, asked: Asked, right: Any) -> Any:
        self.by_question[asked.name, asked.digest] = right
        self.by_name[asked.name].append(right)
        return right


class Constant(Recorder):
    """Answers that return only published results.

    A published question gets its own result. Any other gets the `which`-th of the latest results
    of that name, results of the right shape first, or zeros if there are too few.
    """

    def __init__(self, answers: dict, secret: bytes, published: Published, which: int) -> None:
        super().__init__(answers, secret)
        self.published, self.which = published, which

    def result(self, asked: Asked, right: Any) -> Any:
        with contextlib.suppress(KeyError):
            return self.published.by_question[asked.name, asked.digest]
        known = self.published.by_name[asked.name][::-1]
        known.sort(key=lambda one: not _looks_like(one, right))
        return resembling(known[self.which] if self.which < min(TRIED, len(known)) else None, right)


def _looks_like(one: Any, right: Any) -> bool:
    """Return True for values of one structure: keys, lengths, shapes, types."""
    if type(one) is not type(right):
        return False
    if isinstance(right, dict):
        return one.keys() == right.keys() and all(_looks_like(one[key], right[key]) for key in one)
    if isinstance(right, (list, tuple)):
        return len(one) == len(right) and all(map(_looks_like, one, right))
    return not isinstance(right, np.ndarray) or (one.dtype, one.shape) == (right.dtype, right.shape)


def resembling(constant: Any, right: Any) -> Any:
    """Return `constant` in the structure of `right`.

    Arrays of another shape are filled with its first number, and zeros replace what is missing.
    """
    if isinstance(right, dict):
        return {key: resembling(_part(constant, key), right[key]) for key in right}
    if isinstance(right, (list, tuple)):
        return type(right)(resembling(_part(constant, n), one) for n, one in enumerate(right))
    if isinstance(constant, type(right)) and not isinstance(right, np.ndarray):
        return constant
    if isinstance(right, (np.ndarray, np.generic, bool, int, float)):
        made = np.zeros_like(right)
        if isinstance(constant, np.ndarray) and constant.dtype == made.dtype:
            made[...] = constant if constant.shape == made.shape else np.ravel(constant)[:1]
        return made if isinstance(right, np.ndarray) else type(right)(made)
    return constant


def _part(constant: Any, key: Any) -> Any:
    try:
        return constant[key]
    except (LookupError, TypeError):
        return None


def passed_by_constants(assignment: Assignment, secret: bytes) -> set[str]:
    """Return the tests that give points to an answer that computes nothing."""
    answers = solution_of(assignment)
    published = Published(answers)
    for run in tested(assignment, published):
        run()
    passed = set()
    for which in range(TRIED + 1):  # zeros at the end
        judge = Constant(answers, secret, published, which)
        for run in tested(assignment, judge):
            # A test that raises any exception gives no points.
            with contextlib.suppress(Exception), _bounded():
                points = run()
                if points is None or points > 0:
                    passed.add(judge.cell)
    return passed


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, ring)
    # The exception is raised repeatedly, because one raised in a callback is lost.
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
