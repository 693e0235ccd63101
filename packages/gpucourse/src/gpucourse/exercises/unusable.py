"""Messages for an answer whose type or result a check cannot use.

A check computes with the value that the learner's function returns. If this is None, a string or
an array of a wrong shape, NumPy or the check's own code fails, far from any line that the learner
wrote. Then the check runs once more, and the return values of the learner's functions are recorded
for the message.
"""

from __future__ import annotations

import ast
import dis
import inspect
import reprlib
import sys
import textwrap
import traceback
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from gpucourse.exercises.reasons import is_compilers, places, reason
from gpucourse.system.language import _

#: Exceptions that code of a check raises for an unexpected value.
_ABOUT_VALUES = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    AssertionError,
    ArithmeticError,
)
_LENGTH = 200


def said(
    error: BaseException, check: Callable[..., object], answers: tuple
) -> tuple[str, str | None] | None:
    """Return the fault and the place to look at, or None if the learner's code raised ``error``."""
    if not isinstance(error, _ABOUT_VALUES) or is_compilers(error) or places(error):
        return None
    why = reason(error)
    other = next((one for one in answers if isinstance(one, type)), None)
    if why.endswith("object is not callable"):
        other = next((one for one in answers if not callable(one)), other)
    if other is not None:
        return (
            _("this is {what}, not a function").format(what=described(other)),
            _("pass the name of your function, without quotes or parentheses"),
        )
    first = f"{type(error).__name__}: {why}".splitlines()[0][:_LENGTH]
    if handed := [described(one) for one in answers if not callable(one)]:
        return _("the check cannot use what you passed to it: {what} ({why})").format(
            what=", ".join(handed), why=first
        ), None
    codes = {code for one in answers if (code := _code(one))}
    # The source of the function is not available; in compiled code only its name and file remain.
    where = {(code.co_filename, code.co_name) for code in codes}
    if any(
        (frame.f_code.co_filename, frame.f_code.co_name) in where
        for frame, _line in traceback.walk_tb(error.__traceback__)
    ):
        return _("your function raises {why}").format(why=first), None
    given = _given(check, answers, codes)
    if not given:
        return None
    return (
        _("your function returns {what}, which the check cannot use ({why})").format(
            what=described(given[-1]), why=first
        ),
        _("the `return` of your function: what should it return?"),
    )


def only_compares(answers: tuple) -> str | None:
    """Return a message about a line ``out[i] == …`` in an answer, which writes nothing."""
    for answer in answers:
        try:
            text = textwrap.dedent(inspect.getsource(getattr(answer, "py_func", answer)))
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Compare)
                and isinstance(node.value.left, ast.Subscript)
                and isinstance(node.value.ops[0], ast.Eq)
            ):
                left, right = map(ast.unparse, (node.value.left, node.value.comparators[0]))
                return _(
                    "`{left} == {right}` only compares the two and writes nothing. Write "
                    "`{left} = {right}`"
                ).format(left=left, right=right)
    return None


def described(value: object) -> str:
    """Describe a value by its type and shape, or by itself if it is short."""
    if value is None:
        return "None"
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return _("an array of {dtype} with the shape {shape}").format(
            dtype=value.dtype, shape=value.shape
        )
    return f"{reprlib.repr(value)} ({kind})"


def _given(check: Callable[..., object], answers: tuple, codes: set[CodeType]) -> list:
    """Run the check again and return the results of the learner's functions."""
    found: list = []

    def heard(frame: FrameType, event: str, argument: Any) -> None:
        if event == "return" and frame.f_code in codes and _returns(frame):
            found.append(argument)

    if not codes:
        return found
    before, jax = sys.getprofile(), sys.modules.get("jax")
    if jax is not None:
        jax.clear_caches()  # JAX does not call a function again if its trace is cached
    sys.setprofile(heard)
    try:
        check(*answers)
    except Exception:
        pass  # the same exception as in the first run
    finally:
        sys.setprofile(before)
    return found


def _returns(frame: FrameType) -> bool:
    """Return True if the function returns here instead of raising an exception."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _code(answer: object) -> CodeType | None:
    answer = getattr(answer, "__wrapped__", answer)  # a function wrapped by jax.jit
    return getattr(answer, "__code__", None)
