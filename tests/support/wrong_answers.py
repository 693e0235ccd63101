"""How wrong answers to a lecture's exercises are written: ``wrong.py`` in the lecture's folder."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType

import pytest

import virtualgpu
from conftest import REPOSITORY

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


@cache
def answers_of(lecture: str) -> ModuleType:
    """The module of a lecture's wrong answers, its ``wrong.py``, imported once."""
    path = REPOSITORY / "course" / "lectures" / lecture / "wrong.py"
    name = f"wrong_answers_{lecture}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
