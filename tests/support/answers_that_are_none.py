"""Unusable answers, which a check must survive whatever its exercise asks for.

They are functions that return useless values, never return or end the program, and kernels and
CUDA C++ texts of these kinds if the solution is a kernel. ``python answers_that_are_none.py
LECTURE`` tries them on every exercise of the lecture and writes a line of JSON before and after
each. For puzzles, which share one judge, it tries only the first.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from inspect import signature

import numpy as np

from answers_of_a_kind import solution
from gpucourse.course.puzzles import puzzle_folder, read_puzzles
from gpucourse.exercises import bounds
from gpucourse.exercises.checks import load_lesson
from gpucourse.puzzles.judge import compiled
from wrong_answers import REPOSITORY

#: Useless return values.
VALUES = {
    "None": lambda: None,
    "a text": lambda: "text",
    "not a number": lambda: float("nan"),
    "an array without dimensions": lambda: np.array(1.0),
    "an array of objects": lambda: np.array([None, {}, "x"], object),
    "three dimensions": lambda: np.zeros((2, 3, 4)),
    "an empty array": lambda: np.zeros(0),
    "a generator": lambda: (k for k in range(3)),
    "a dictionary": dict,
    "complex numbers": lambda: np.ones(4, complex),
    "two of no use": lambda: (None, "text"),
    "two numbers that are none": lambda: (float("nan"), float("inf")),
    "a class": lambda: dict,
}


def _recurses(*arguments, **options):
    return _recurses(*arguments, **options)


def _exits(*arguments, **options):
    raise SystemExit("by")


def _interrupts(*arguments, **options):
    raise KeyboardInterrupt


def _never_ends(*arguments, **options):
    while True:
        pass


def _never_ends_and_catches_all(*arguments, **options):
    while True:
        try:
            time.sleep(0.01)
        except:  # noqa: E722
            pass


def _sleeps(*arguments, **options):
    time.sleep(1e6)


def _prints(*arguments, **options):
    print("x" * 1_000_000)


def _asks_for_no_argument():
    return 1


def _empties_what_it_is_given(*arguments, **options):
    for one in arguments:
        if hasattr(one, "clear"):
            one.clear()
    raise NameError("name 'answer' is not defined")


def _gives_itself(*arguments, **options):
    return _gives_itself


FUNCTIONS = (
    _empties_what_it_is_given,
    _gives_itself,
    _recurses,
    _exits,
    _interrupts,
    _never_ends,
    _never_ends_and_catches_all,
    _sleeps,
    _prints,
    _asks_for_no_argument,
)
#: Prefix of the messages about answers that are stopped.
ENDLESS = ("never ends", "sleeps")
#: Values that are not functions.
THINGS = {
    "a number": 3,
    "a float that is none": float("nan"),
    "a text": "text",
    "bytes": b"x",
    "an array": np.zeros(3),
    "a list": [1, None],
    "a class": dict,
    "a module": np,
    "a huge text": "x" * 10_000,
    "a set": {1, "2"},
    "a complex number": 1j,
}


def _never_ends_in_jax(*arguments, **options):
    import jax

    return jax.lax.while_loop(lambda k: k >= 0, lambda k: k * 0, 0)


#: Exercises whose solutions have, or may have, a JAX loop that ends on a condition.
LOOPS_IN_JAX = {("09_jax", "aim"), ("17_jax_in_depth", "until")}


def made_for(lecture: str, exercise: str, right: tuple) -> Iterator[tuple[str, tuple]]:
    """Yield (name, answers) for one exercise, each with one answer of its solution replaced."""
    if (lecture, exercise) in LOOPS_IN_JAX:
        yield "never ends, in JAX", (_never_ends_in_jax, *right[1:])
    for place, good in enumerate(right):
        for name, answer in THINGS.items() if place else _in_place_of(good):
            yield (
                f"{name}, place {place}" if place else name,
                (*right[:place], answer, *right[place + 1 :]),
            )


def _in_place_of(good: object) -> Iterator[tuple[str, object]]:
    yield from THINGS.items()
    for name, value in VALUES.items():
        yield f"gives {name}", _giving(value)
    for function in FUNCTIONS:
        yield function.__name__.strip("_").replace("_", " "), function
    if hasattr(good, "forall"):
        yield from _kernels(good)
    elif isinstance(good, str) and "__global__" in good:
        yield from _texts(good)
    elif hasattr(good, "signatures") or type(good).__name__ == "DUFunc":
        yield from _compiled(good)
    elif type(good).__module__.startswith("cuda.tile"):
        yield from _tiles(good)


def _giving(value: Callable) -> Callable:
    return lambda *arguments, **options: value()


def _kernels(good) -> Iterator[tuple[str, object]]:
    from numba import cuda

    names = ", ".join(signature(good.py_func).parameters)
    scope = {"cuda": cuda, "np": np}
    broken = {"cuda": None}
    for name, head, body, where in (
        ("a kernel that never ends", names, "while True:\n        pass", scope),
        (
            "a kernel that waits for ever",
            names,
            "while cuda.threadIdx.x >= 0:\n        cuda.syncthreads()",
            scope,
        ),
        ("a kernel that does nothing", names, "pass", scope),
        ("a kernel of one argument", "one", "one[0] = 1", scope),
        (
            "a kernel that writes far away",
            names,
            f"for k in range(1 << 40, (1 << 40) + 8):\n        {names.split(',')[0]}[k] = 1",
            scope,
        ),
        ("a kernel that does not compile", names, "unknown(1)", scope),
        ("a kernel whose cuda is None", names, "i = cuda.grid(1)", broken),
        ("a kernel that gives something", names, "return 3", scope),
    ):
        yield name, cuda.jit(_defined(f"def kernel({head}):\n    {body}\n", where))


def _texts(good: str) -> Iterator[tuple[str, object]]:
    head = re.search(r"__global__ void \w+\((.*?)\)\s*\{", good, re.DOTALL)
    assert head is not None
    name = re.search(r"void (\w+)\(", head[0])[1]
    yield "C++ that never ends", f"{good[: head.end()]} volatile int k = 1; while (k); }}"
    yield "C++ that does nothing", f"{good[: head.end()]} }}"
    yield "C++ of no argument", f"__global__ void {name}() {{}}"
    yield "C++ cut off", good[: head.end()]
    yield "C++ of another name", "__global__ void another_name(int k) {}"
    yield "C++ with a huge line", f"{good[: head.end()]} // {'x' * 100_000}\n}}"


def _compiled(good) -> Iterator[tuple[str, object]]:
    from numba import njit, vectorize

    compiler = njit if hasattr(good, "signatures") else vectorize
    source = getattr(good, "py_func", None) or good._dispatcher.py_func
    names = ", ".join(signature(source).parameters)
    first = names.split(",")[0]
    for name, body in (
        ("never ends, compiled", "k = 1\n    while k > 0:\n     k = k % 7 + 1\n    return k"),
        ("compiled, gives None", "return None"),
        ("compiled, gives a text", "return 'text'"),
        ("compiled, gives its argument", f"return {first}"),
        ("compiled, does not compile", "return unknown(1)"),
        ("compiled, raises", "raise ValueError('no')"),
    ):
        yield name, compiler(_defined(f"def function({names}):\n    {body}\n", {}))


def _tiles(good) -> Iterator[tuple[str, object]]:
    import cuda.tile as ct

    names = ", ".join(signature(good._pyfunc).parameters)
    for name, body in (
        ("tiles, does nothing", "pass"),
        ("tiles, unknown name", "unknown(1)"),
        ("tiles, never end", "k = ct.bid(0)\n    while k >= 0:\n     k = k * 0"),
    ):
        yield name, ct.kernel(_defined(f"def kernel({names}):\n    {body}\n", {"ct": ct}))


def _defined(text: str, scope: dict) -> Callable:
    import linecache

    name = f"<an answer that is none {hash(text):x}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names = dict(scope)
    exec(compile(text, name, "exec", dont_inherit=True), names)
    return list(names.values())[-1]


def _exercises(lecture: str) -> Iterator[tuple[str, tuple]]:
    """Yield (name, the solution's answers) for each exercise."""
    names = load_lesson(lecture).exercises
    folder = REPOSITORY / "course" / "lectures" / lecture
    if (folder / "puzzles").is_dir():
        puzzle = next(iter(read_puzzles(puzzle_folder(folder / "checks.py")).values()))
        assert puzzle.name in names
        yield puzzle.name, (compiled(puzzle.solution, puzzle.name),)
        return
    for name in names:
        yield name, solution(lecture, name)


def _main(lecture: str) -> None:
    to, sys.stdout = sys.stdout, sys.stderr

    def tell(**said: object) -> None:
        print(json.dumps(said), file=to, flush=True)

    patience, bounds.TICK = bounds.SECONDS, 0.1
    for exercise, right in _exercises(lecture):
        for name, answers in made_for(lecture, exercise, right):
            tell(exercise=exercise, answer=name)
            # An interrupt of Numba's first compilation would leave it half initialised.
            bounds.SECONDS = 0.3 if name.startswith(ENDLESS) else patience
            try:
                heard = load_lesson(lecture).outcome(exercise, *answers)
                found = {"passed": heard.passed, "says": heard.message, "look": heard.look}
            except BaseException as error:
                found = {"raised": f"{type(error).__name__}: {error}"}
            tell(exercise=exercise, answer=name, **found)


if __name__ == "__main__":
    _main(*sys.argv[1:])
