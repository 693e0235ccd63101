"""Recognising a stub that a kernel still is, or still calls."""

from __future__ import annotations

import pytest

from gpucourse.grading.testing.unsolved import only_raises, unsolved

STUB = '''
def {name}(values, counts):
    """What it should do."""
    # YOUR CODE HERE
    raise NotImplementedError()
'''


class Compiled:
    """Stands for what @cuda.jit makes of a function."""

    def __init__(self, function):
        self.py_func = function


def define(*sources: str) -> dict:
    namespace: dict = {}
    for source in sources:
        exec(source, namespace)
    for name, value in list(namespace.items()):
        if callable(value):
            namespace[name] = Compiled(value)
    return namespace


def test_a_released_stub_is_recognised():
    assert unsolved(define(STUB.format(name="fill"))["fill"]) == "fill"


def test_so_is_one_that_a_finished_kernel_calls():
    caller = "def fill(values, counts):\n    for value in values:\n        slot(value, counts)\n"
    found = define(STUB.format(name="slot"), caller)
    assert unsolved(found["fill"]) == "slot"
    assert unsolved(found["slot"]) == "slot"


def test_lines_given_before_the_stub_change_nothing():
    given = "def fill(values, counts):\n    n = values.size\n    raise NotImplementedError()\n"
    assert unsolved(define(given)["fill"]) == "fill"


@pytest.mark.parametrize(
    "body",
    [
        "counts[0] = values.size",
        "if values.size < 0:\n        raise NotImplementedError()",
        "for i in range(3):\n        counts[i] = 0\n    raise NotImplementedError()",
        "raise ValueError(NotImplementedErrors)",
    ],
)
def test_what_somebody_wrote_is_left_to_the_tests(body):
    source = f"def fill(values, counts):\n    {body}\n"
    assert unsolved(define(source)["fill"]) is None


def test_functions_that_call_each_other_end_the_search():
    found = define("def one(n):\n    two(n)\n", "def two(n):\n    one(n)\n")
    assert unsolved(found["one"]) is None


def test_what_is_no_function_has_no_stub():
    assert unsolved(print) is None
    assert not only_raises(compile("x = 1", "cell", "exec"))
