"""How the files of wrong answers to a lecture's exercises are written: ``lecture_NN_wrong.py``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import virtualgpu

virtualgpu.activate(force=True)


def collection() -> tuple[list, Callable]:
    """A list of test parameters, and the decorator that adds an answer to it.

    ``@wrong("bounds-guard", "illegal address")`` registers a plausible answer to the exercise with
    a pattern for what the check must say of it: its message and its "where to look". For answers
    that are no functions: ``wrong("lost-update", "ends at 12", "name")(answer, another)``.
    """
    cases: list = []

    def wrong(exercise: str, says: str, name: str | None = None):
        def register(*answers):
            known = name or getattr(answers[0], "py_func", answers[0]).__name__
            cases.append(pytest.param(exercise, answers, says, id=f"{exercise}:{known}"))
            return answers[0]

        return register

    return cases, wrong
