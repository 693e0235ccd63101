"""Results depend on the input through kernels: the device gets other values than the host has."""

from __future__ import annotations

import numpy as np
import pytest

from gpucourse import call
from gpucourse.exercises.exchange import Diverged, Exchange
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell
from threats import START

DOUBLE = """@cuda.jit
def double(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * values[i]

def doubled(values):
    ### BEGIN SOLUTION
    out = cuda.device_array(values.size, np.float64)
    double[8, 64](cuda.to_device(values), out)
    return out.copy_to_host()
    ### END SOLUTION
"""
TEST = """values, others = (secret_rng(name).uniform(size=500) for name in ("given", "exchanged"))
expect_equal(call("doubled", values), 2 * values, "wrong")
expect_equal(call("doubled", values, exchanged=[(values, others)], schedules=0), 2 * others,
             "does not follow the device")
"""
COURSE = Assignment("exchange", notebook_of([
    setup("start", START), solution("double", DOUBLE), test_cell("test-double", TEST, 3)]))

HONEST = {
    "reference": DOUBLE,
    "stays on the device": DOUBLE.replace("return out.copy_to_host()", "return out"),
    "without to_device": DOUBLE.replace("cuda.to_device(values)", "values"),
    "padded": DOUBLE.replace("cuda.to_device(values)", "cuda.to_device(np.pad(values, (0, 12)))"),
    "in two parts": DOUBLE.replace(
        "    double[8, 64](cuda.to_device(values), out)",
        "    for part in (slice(0, 300), slice(300, None)):\n"
        "        double[8, 64](cuda.to_device(values[part]), out[part])"),
    "looked at on the way": DOUBLE.replace(
        "    double[8, 64](cuda.to_device(values), out)",
        "    there = cuda.to_device(values)\n    double[8, 64](there, out)\n"
        "    assert (out.copy_to_host() == 2 * there.copy_to_host()).all()\n"
        "    double[8, 64](there, out)").replace(
        "return out", "assert (out.copy_to_host() == 2 * values).all() or True\n    return out"),
    "backwards": DOUBLE.replace("cuda.to_device(values)", "cuda.to_device(values[::-1].copy())")
    .replace("out[i] = 2", "out[out.size - 1 - i] = 2"),
}
COPY = DOUBLE.replace("2 * values[i]", "values[i]")
ANOTHER_FORM = """@cuda.jit
def copy(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = values[i]

""" + DOUBLE.replace("    return", "    twice = out.copy_to_host()\n"
                     "    copy[8, 64](cuda.to_device(twice), out)\n    return")
SERVE = {
    "numpy, then a copy": (
        COPY.replace("to_device(values)", "to_device(2 * values)"), "never reaches the device"),
    "numpy on what comes back": (
        COPY.replace("    out =", "    there = cuda.to_device(values)\n    double[8, 64](there, "
                     "cuda.device_array(500, np.float64))\n    values = there.copy_to_host()\n"
                     "    out =").replace("to_device(values), out", "to_device(2 * values), out"),
        "does not follow the device"),
    "numpy on what a kernel copied": (
        COPY.replace("    out =", "    there = cuda.device_array(500, np.float64)\n"
                     "    double[8, 64](cuda.to_device(values), there)\n"
                     "    values = there.copy_to_host()\n    out =")
        .replace("to_device(values), out", "to_device(2 * values), out"),
        "does not follow the device"),
    "numpy on values in another form": (ANOTHER_FORM, "does not follow the device"),
    # Calls 1 and 2 are those without exchange, call 3 is that which is written down.
    "the same from the fourth call on": (
        ANOTHER_FORM.replace("def doubled", "calls = []\n\ndef doubled").replace(
            "    twice =", "    calls.append(1)\n    if len(calls) < 4:\n"
            "        return out.copy_to_host()\n    twice ="),
        "what it did not the first time"),
}


def reason(server, source: str) -> str:
    verdict = grade(COURSE, submitted(COURSE, double=source), server, "5eed" * 8)
    assert verdict.kind == GRADED, verdict.reason
    return verdict.tests[0].reason


@pytest.mark.parametrize("name", HONEST)
def test_what_kernels_compute_follows_the_device(server, name):
    assert reason(server, HONEST[name]) == ""


@pytest.mark.parametrize("name", SERVE)
def test_threat_76_what_numpy_computed_does_not(server, name):
    source, told = SERVE[name]
    assert told in reason(server, source)


def test_in_a_notebook_the_function_gets_the_other_values():
    globals()["sums"] = lambda values: float(values.sum())
    values, others = np.ones(3), np.full(3, 2.0)
    assert call("sums", values, where="host", exchanged=[(values, others)]) == 6.0


# -- bytes ----------------------------------------------------------------------------------------

VALUES, OTHERS = np.random.default_rng(1).uniform(size=(2, 40))


def raw(array) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("change", [
    lambda a: a, lambda a: a[5:9], lambda a: a[::-1], lambda a: a.astype(np.float32),
    lambda a: np.append(a, np.zeros(20)), lambda a: np.repeat(a, 3), lambda a: a.reshape(8, 5),
])
def test_elements_are_known_wherever_they_stand(change):
    exchange = Exchange([(VALUES, OTHERS)])
    np.testing.assert_array_equal(exchange.to_device(raw(change(VALUES))), raw(change(OTHERS)))
    assert exchange.done == 1


@pytest.mark.parametrize("data", [np.zeros(40), np.arange(40), np.sqrt(VALUES), np.zeros(0),
                                  np.zeros(3, np.uint8)])
def test_anything_else_stays(data):
    exchange = Exchange([(VALUES, OTHERS)])
    np.testing.assert_array_equal(exchange.to_device(raw(data)), raw(data))
    assert exchange.done == 0


def test_numbers_in_arguments_and_arrays():
    exchange = Exchange([(1 << 39, 77)])
    assert exchange.parameter((1 << 39).to_bytes(8, "little")) == (77).to_bytes(8, "little")
    assert exchange.parameter(b"\1\0\0\0") == b"\1\0\0\0"
    np.testing.assert_array_equal(exchange.to_device(raw(np.array([1 << 39]))), raw(np.array([77])))
    assert exchange.done == 2


def test_the_host_reads_what_it_read_without_exchange_until_its_last_launch():
    first = Exchange(room=1000)
    for data in (VALUES, 2 * VALUES):
        first.to_host(raw(data))
        first.launched()
    first.to_host(raw(3 * VALUES))
    second = Exchange([(VALUES, OTHERS)], first.heard)
    for number in (1, 2):
        np.testing.assert_array_equal(second.to_host(raw(number * OTHERS)), raw(number * VALUES))
        second.launched()
    np.testing.assert_array_equal(second.to_host(raw(3 * OTHERS)), raw(3 * OTHERS))
    with pytest.raises(Diverged):
        second.launched()
    with pytest.raises(Diverged):
        Exchange([(VALUES, OTHERS)], first.heard).to_host(raw(VALUES[1:]))
    with pytest.raises(MemoryError):
        Exchange(room=300).to_host(raw(VALUES))


def test_an_array_for_any_other_of_its_size():
    states = np.arange(1, 9, dtype=np.uint64)
    exchange = Exchange([(None, states)])
    np.testing.assert_array_equal(exchange.to_device(raw(states + 5)), raw(states))
    for other in (np.zeros(8), np.ones(9)):
        np.testing.assert_array_equal(exchange.to_device(raw(other)), raw(other))
    assert exchange.done == 1
    assert exchange.parameter(b"12345678") == b"12345678"
