"""Course functions that an answer may be compared with but must not use."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

#: Marker at the end of the ``def`` line of a function that is removed when answers are graded.
NOT_FOR_ANSWERS = "### NOT FOR ANSWERS"
#: Message for an answer that uses such a function.
COURSES_OWN = (
    "'{name}' is the course's own function, only for comparing answers: the grader runs answers "
    "without it, so compute the result yourself"
)


def withheld_in(function: Any, _seen: frozenset[str] = frozenset()) -> str | None:
    """Return the name of the first withheld function that `function` or a callee uses, or None.

    These functions exist in a notebook but not in the grader's worker. The test in the notebook
    reports their use, so that the learner learns of it before submitting.
    """
    if not isinstance(function, FunctionType):
        return None
    for name in _names(function.__code__):
        used = function.__globals__.get(name)
        if name in _seen or not isinstance(used, FunctionType):
            continue
        if used.__globals__ is not function.__globals__:
            continue  # a library's function
        if _first_line(used).rstrip().endswith(NOT_FOR_ANSWERS):
            return used.__name__
        if found := withheld_in(used, _seen | {name}):
            return found
    return None


def _names(code: CodeType) -> Iterator[str]:
    """Return the names that a function reads, including those in nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _first_line(function: FunctionType) -> str:
    try:
        return inspect.getsource(function).split("\n")[0]
    except (OSError, TypeError):  # its source is not available
        return ""
