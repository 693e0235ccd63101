"""Detection of a kernel that is still the released stub.

On the host, a stub raises NotImplementedError. Compiled for the GPU, it raises nothing: a
``raise`` in a kernel ends the thread silently. A device function that only raises has no return
type, so the compiler reports a long error about its caller. Neither helps a learner, so stubs are
recognised before anything is compiled.
"""

from __future__ import annotations

import dis
from types import CodeType, FunctionType
from typing import Any


def unsolved(function: Any, _seen: frozenset[str] = frozenset()) -> str | None:
    """Return the name of the first stub among `function` and its compiled callees, or None.

    `function` is a Python function or the result of ``@cuda.jit``.
    """
    python = getattr(function, "py_func", function)
    if not isinstance(python, FunctionType):
        return None
    if only_raises(python.__code__):
        return python.__name__
    for name in python.__code__.co_names:
        called = python.__globals__.get(name)
        if name not in _seen and hasattr(called, "py_func"):
            if found := unsolved(called, _seen | {name}):
                return found
    return None


def only_raises(code: CodeType) -> bool:
    """Return True if every call of `code` raises NotImplementedError, before any branch."""
    named = False
    for step in dis.get_instructions(code):
        if step.opname == "RAISE_VARARGS":
            return named
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs or "RETURN" in step.opname:
            return False
        named = named or step.argval == "NotImplementedError"
    return False
