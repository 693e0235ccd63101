"""Wrong answers of four kinds, made from the solution of each exercise.

The kinds are an ignored argument, work on the host, all work by one thread, and a result that fits
only the example. Other answers of these kinds are among the lecture's wrong answers.
``tests/course/kinds_of_wrong_answers.toml`` names them, or gives the reason why a kind makes no
sense for an exercise.
"""

from __future__ import annotations

import copy
import dis
import linecache
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import wraps
from inspect import getsource, signature

from lab.benchmarks.gpu_cells import code_cells, file_name
from puzzle_answers import alone
from wrong_answers import REPOSITORY, Edited, answers_of

IGNORES, HOST, ALONE, EXAMPLE = KINDS = "ignores", "host", "alone", "example"
#: A number that no trial of a check passes.
_ANOTHER = 3


def solution(lecture: str, exercise: str) -> tuple:
    """Return the answers that the solved lecture passes to the check."""
    for cell, text in code_cells(lecture).items():  # the kernels are read from this shell
        lines = text.splitlines(keepends=True)
        linecache.cache[file_name(cell)] = len(text), None, lines, file_name(cell)
    answers_of(lecture)  # registers Awkward's types, as the lecture's first cell does
    if "pycuda" in lecture:
        import pycuda.autoinit  # noqa: F401
    return Edited(lecture, exercise, "solution", ()).answers()


def declared(lecture: str) -> dict[str, dict[str, str]]:
    """Return, by exercise and kind, the name of a wrong answer or a reason in parentheses."""
    path = REPOSITORY / "tests" / "course" / "kinds_of_wrong_answers.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")).get(lecture, {})


def made_of(lecture: str, exercise: str) -> Iterator[tuple[str, str, tuple]]:
    """Yield (kind, name, answers) for each kind that can be made from the exercise's solution."""
    first, *others = solution(lecture, exercise)
    if hasattr(first, "forall"):
        found = _of_a_kernel(first)
    elif isinstance(first, str) and "__global__" in first:
        found = _of_cpp(first)
    elif callable(first) and hasattr(first, "__code__"):
        found = _of_a_function(first)
    else:
        found = iter(())
    for kind, name, answer in found:
        yield kind, name, (answer, *others)


def needless(lecture: str, exercise: str) -> set[str]:
    """Return the kinds that need an argument besides the data, for a kernel that has none."""
    first = solution(lecture, exercise)[0]
    if hasattr(first, "forall"):
        return set() if _numbers(first) else {IGNORES}
    if isinstance(first, str) and "__global__" in first:
        return set() if any(kind == IGNORES for kind, *_ in _of_cpp(first)) else {IGNORES}
    return set()


def _numbers(kernel) -> list[str]:
    """Return the parameters of a kernel that it neither indexes nor passes on."""
    body = getsource(kernel.py_func).partition(":\n")[2]
    return [
        name
        for name in signature(kernel.py_func).parameters
        if not re.search(rf"\b{name}(\[|\.\w)|\({name}\b", body)
    ]


def _of_a_kernel(kernel) -> Iterator[tuple[str, str, object]]:
    source = getsource(kernel.py_func)
    scope = kernel.py_func.__globals__
    yield HOST, "not compiled for the GPU", kernel.py_func
    for name in _numbers(kernel):
        text = re.sub(r"(def .*:\n)", rf"\1    {name} = {_ANOTHER}\n", source, count=1)
        yield IGNORES, f"ignores {name}", _kernel(text, scope)
    if text := alone(source):
        yield ALONE, "one thread", _kernel(text, scope)
    numbered = "cuda.blockIdx.x * 32 + cuda.threadIdx.x"
    if (text := source.replace("cuda.grid(1)", numbered)) != source:
        yield EXAMPLE, "blocks of 32", _kernel(text, scope)


def _kernel(text: str, scope: dict):
    text = text[text.index("@cuda.jit") :]
    name = f"<made of a solution {hash(text):x}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names = dict(scope)
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return next(value for value in reversed(names.values()) if hasattr(value, "forall"))


def _of_cpp(source: str) -> Iterator[tuple[str, str, object]]:
    yield HOST, "a function of NumPy", lambda *arrays: arrays
    head = re.search(r"__global__ void \w+\((.*?)\)\s*\{", source, re.DOTALL)
    assert head is not None
    for parameter in head[1].split(","):
        if "*" not in parameter and (name := parameter.split()[-1]) != "n":
            text = f"{source[: head.end()]} {name} = {_ANOTHER}; {source[head.end() :]}"
            yield IGNORES, f"ignores {name}", text
    if (text := source.replace("blockDim.x", "32")) != source:
        yield EXAMPLE, "blocks of 32", text


def _of_a_function(function: Callable) -> Iterator[tuple[str, str, object]]:
    for place, name in enumerate(signature(function).parameters):
        if _reads(function, name):  # a caller may pass an argument that the function does not need
            yield IGNORES, f"ignores {name}", _frozen(function, place)
    yield EXAMPLE, "the first answer by heart", _by_heart(function)


def _reads(function: Callable, name: str) -> bool:
    """Return True if the function's own code, or a function inside it, loads this argument."""
    return any(
        step.opname.startswith("LOAD_")
        and name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))
        for step in dis.get_instructions(function)
    )


def _frozen(function: Callable, place: int) -> Callable:
    """Return the function with one argument fixed to its value in the first call."""
    first: list = []

    @wraps(function)
    def ignoring(*arguments, **options):
        if not first:
            first.append(copy.deepcopy(arguments[place]))
        before, after = arguments[:place], arguments[place + 1 :]
        return function(*before, first[0], *after, **options)

    return ignoring


def _by_heart(function: Callable) -> Callable:
    known: list = []

    @wraps(function)
    def always(*arguments, **options):
        if not known:
            known.append(function(*arguments, **options))
        return known[0]

    return always
