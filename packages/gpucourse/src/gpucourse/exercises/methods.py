"""Checks of the method of an answer, where an exercise prescribes one.

Asked of what runs, and not of the words of the source: of the lines of Python that run, of the
program that JAX makes of the function, or of what is called on the way.
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
    """Count the lines that run in the function's own file or cell.

    Lines of functions that it calls by name count too.
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
    """Return the Python function that Numba compiled; those that it calls are Python's too."""
    made: dict[int, Callable] = {}

    def plain(one: Any) -> Callable:
        one = getattr(one, "_dispatcher", one)  # of a ufunc
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
    """Yield the code of the function, and of those that it calls by name, directly or not."""
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
    """Yield the code of the function, and of the functions that it defines; of None, none."""
    if code is None:
        return
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from inner_codes(one)


def _code(function: Any) -> CodeType:
    function = getattr(function, "func", function)  # of a partial
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
    """Count each primitive in the program that JAX makes of the function."""
    import jax

    closed = jax.make_jaxpr(function, static_argnums=static)(*arguments)
    return Counter(equation.primitive.name for equation in equations(closed.jaxpr, _is_own))


def _is_own(equation: Any) -> bool:
    """Return True if no whole-array function of JAX's library is called here.

    ``jnp.searchsorted`` halves in a loop, for example.
    """
    return equation.params.get("name") != "searchsorted"


def require_all_at_once(
    function: Callable, *arguments: Any, look: str, static: tuple[int, ...] = (), allowed: int = 0
) -> Counter[str]:
    """Return a JAX program's primitives, and require one without more loops than allowed.

    It must not call back into Python either.
    """
    found = primitives(function, *arguments, static=static)
    require_no_callback(found, look)
    require(
        found["scan"] + found["while"] <= allowed,
        "right, but one element comes after the other, in a loop: a GPU would have one thread "
        "at work",
        look=look,
    )
    return found


def require_no_callback(found: Collection[str], look: str) -> None:
    """Require that none of the primitives of a program hands its values to Python.

    What prints them, ``jax.debug.print``, may stand there.
    """
    require(
        not {"pure_callback", "io_callback"} & set(found),
        "right, but the program calls back into Python: the host computes",
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
    """Fail the check if ``function`` calls one of (module, name), also under another name.

    ``when`` says, of the arguments of a call, whether it counts.
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
