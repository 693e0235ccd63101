"""Checks of an answer's method, for exercises that prescribe one.

The checks observe the running code and not the text of the source: the Python lines that run, the
JAX program of the function, or the calls that it makes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any
from unittest import mock

from gpucourse.exercises.checks import require


def lines_run(function: Callable, *arguments: Any) -> int:
    """Count the lines that run in the file or cell of the function.

    Lines of functions that it calls by name count as well.
    """
    files = {code.co_filename for code in _codes(function)}
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in files:
            return None
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return count


def as_python(function: Any) -> Callable:
    """Return a Numba function as Python, including the Numba functions that it calls."""
    made: dict[int, Callable] = {}

    def plain(one: Any) -> Callable:
        one = getattr(one, "_dispatcher", one)  # a ufunc keeps its compiled function here
        source = getattr(one, "py_func", one)
        if id(source) not in made:
            names = dict(source.__globals__)
            made[id(source)] = FunctionType(
                source.__code__, names, source.__name__, source.__defaults__, source.__closure__
            )
            for name in source.__code__.co_names:
                value = names.get(name)
                if hasattr(getattr(value, "_dispatcher", value), "py_func"):
                    names[name] = plain(value)
        return made[id(source)]

    return plain(function)


def _codes(function: Any) -> Iterator[CodeType]:
    """Yield the code of the function and of all functions that it calls by name."""
    waiting, seen = [function], set()
    while waiting:
        one = waiting.pop()
        seen.add(id(one))
        code = _code(one)
        yield code
        names = getattr(one, "__globals__", {})
        called = (names.get(name) for inner in inner_codes(code) for name in inner.co_names)
        waiting += [
            value for value in called if isinstance(value, FunctionType) and id(value) not in seen
        ]


def inner_codes(code: CodeType | None) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions defined inside it; nothing for None."""
    if code is None:
        return
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from inner_codes(one)


def _code(function: Any) -> CodeType:
    function = getattr(function, "func", function)  # a functools.partial
    function = getattr(function, "__wrapped__", function)
    return getattr(function, "py_func", function).__code__


def equations(jaxpr: Any, into: Callable[[Any], bool] = lambda equation: True) -> Iterator:
    """Yield the equations of a jaxpr, and inner ones where ``into(equation)`` is true."""
    for equation in jaxpr.eqns:
        yield equation
        if not into(equation):
            continue
        for value in equation.params.values():
            for one in value if isinstance(value, tuple | list) else (value,):
                one = getattr(one, "jaxpr", one)
                if hasattr(one, "eqns"):
                    yield from equations(one, into)


def primitives(function: Callable, *arguments: Any, static: tuple[int, ...] = ()) -> Counter[str]:
    """Count each primitive in the JAX program of the function."""
    import jax

    closed = jax.make_jaxpr(function, static_argnums=static)(*arguments)
    return Counter(equation.primitive.name for equation in equations(closed.jaxpr, _is_own))


def _is_own(equation: Any) -> bool:
    """Return False for a call of a JAX library function that contains a loop of its own.

    ``jnp.searchsorted``, for example, bisects in a loop.
    """
    return equation.params.get("name") != "searchsorted"


def require_all_at_once(
    function: Callable, *arguments: Any, look: str, static: tuple[int, ...] = (), allowed: int = 0
) -> Counter[str]:
    """Return a JAX program's primitives, and require at most ``allowed`` loops.

    The program must not call back into Python.
    """
    found = primitives(function, *arguments, static=static)
    require_no_callback(found, look)
    require(
        found["scan"] + found["while"] <= allowed,
        "the answer is right, but one element comes after the other, in a loop, so only one "
        "thread of a GPU would work",
        look=look,
    )
    return found


def require_no_callback(found: Collection[str], look: str) -> None:
    """Require that no primitive of a program passes its values to Python.

    ``jax.debug.print``, which only prints them, is allowed.
    """
    require(
        not {"pure_callback", "io_callback"} & set(found),
        "the answer is right, but the program calls back into Python: the host computes it",
        look=look,
    )


@contextmanager
def without(
    function: Any,
    *forbidden: tuple[Any, str],
    message: str,
    look: str,
    when: Callable[..., bool] = lambda *arguments: True,
) -> Iterator[None]:
    """Fail the check if ``function`` calls a forbidden ``(module, name)``, under any name.

    ``when`` takes the arguments of a call and returns True if the call counts.
    """
    scope = getattr(getattr(function, "__wrapped__", function), "__globals__", {})
    with ExitStack() as patches:
        for owner, name in forbidden:
            original = getattr(owner, name, None)
            if original is None:
                continue

            def called(*arguments: Any, original: Any = original, **options: Any) -> Any:
                require(not when(*arguments), message, look=look)
                return original(*arguments, **options)

            patches.enter_context(mock.patch.object(owner, name, called))
            known = {one: called for one, value in scope.items() if value is original}
            patches.enter_context(mock.patch.dict(scope, known))
        yield
