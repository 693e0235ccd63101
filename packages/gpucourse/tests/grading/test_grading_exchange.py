"""Results depend on the input through kernels: the device gets other values than the host has."""

from __future__ import annotations

import numpy as np
import pytest

from gpucourse import call
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.verdict import GRADED
from gpucourse.judging.exchange import Diverged, Exchange
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
COURSE = Assignment(
    "exchange",
    notebook_of(
        [setup("start", START), solution("double", DOUBLE), test_cell("test-double", TEST, 3)]
    ),
)

CHECKED = DOUBLE.replace(
    "    return out.copy_to_host()",
    """    result = out.copy_to_host()
    assert (result == 2 * values).all()
    return result""",
)
HONEST = {
    "reference": DOUBLE,
    "stays on the device": DOUBLE.replace("return out.copy_to_host()", "return out"),
    "without to_device": DOUBLE.replace("cuda.to_device(values)", "values"),
    "padded": DOUBLE.replace("cuda.to_device(values)", "cuda.to_device(np.pad(values, (0, 12)))"),
    "in two parts": DOUBLE.replace(
        "    double[8, 64](cuda.to_device(values), out)",
        "    for part in (slice(0, 300), slice(300, None)):\n"
        "        double[8, 64](cuda.to_device(values[part]), out[part])",
    ),
    "looked at on the way": DOUBLE.replace(
        "    double[8, 64](cuda.to_device(values), out)",
        "    there = cuda.to_device(values)\n    double[8, 64](there, out)\n"
        "    assert (out.copy_to_host() == 2 * there.copy_to_host()).all()\n"
        "    double[8, 64](there, out)",
    ).replace(
        "return out", "assert (out.copy_to_host() == 2 * values).all() or True\n    return out"
    ),
    "checked against NumPy": CHECKED,
    "checked, and a part of it": CHECKED.replace("values.size, np", "values.size + 12, np")
    .replace("to_host()", "to_host()[:values.size]")
    .replace("i < out.size", "i < values.size"),
    "checked, as a list": CHECKED.replace("return result", "return result.tolist()"),
    "checked, on the device": CHECKED.replace("return result", "return out"),
    "checked by NumPy's own test": CHECKED.replace(
        "assert (result == 2 * values).all()", "np.testing.assert_allclose(result, 2 * values)"
    ),
    "compared with numpy's": DOUBLE.replace(
        "    return out.copy_to_host()",
        "    result = out.copy_to_host()\n    assert (result == 2 * values).all()\n"
        "    return result",
    ),
    "managed and mapped": DOUBLE.replace("cuda.to_device(values)", "there")
    .replace(
        "    out = cuda.device_array(",
        "    there = cuda.managed_array(values.shape, values.dtype)\n    there[:] = values\n"
        "    out = cuda.mapped_array(",
    )
    .replace("return out.copy_to_host()", "cuda.synchronize()\n    return np.array(out)"),
    "backwards": DOUBLE.replace(
        "cuda.to_device(values)", "cuda.to_device(values[::-1].copy())"
    ).replace("out[i] = 2", "out[out.size - 1 - i] = 2"),
}
COPY = DOUBLE.replace("2 * values[i]", "values[i]")
ANOTHER_FORM = """@cuda.jit
def copy(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = values[i]

""" + DOUBLE.replace(
    "    return",
    "    twice = out.copy_to_host()\n    copy[8, 64](cuda.to_device(twice), out)\n    return",
)
COPIED = CHECKED.replace("2 * values[i]", "values[i]").replace(
    "to_device(values)", "to_device(2 * values)"
)
SERVE = {
    "numpy, then a copy, and a check": (COPIED, "unchanged: the host copies as many other numbers"),
    "the values too, and a check": (
        COPIED.replace("    out =", "    cuda.to_device(values)\n    out ="),
        "does not follow the device",
    ),
    "a check that fails for other values than the first": (
        COPIED.replace(
            "    out =",
            "    there = cuda.to_device(values)\n"
            "    double[8, 64](there, cuda.device_array(500, np.float64))\n    out =",
        ),
        "does not follow the device",
    ),
    "an exception whatever is read": (
        DOUBLE.replace("def doubled", "calls = []\n\ndef doubled").replace(
            "    return", "    calls.append(1)\n    assert len(calls) < 3\n    return"
        ),
        "raises AssertionError",
    ),
    "numpy, then a copy": (
        COPY.replace("to_device(values)", "to_device(2 * values)"),
        "never reaches the device",
    ),
    "numpy on what comes back": (
        COPY.replace(
            "    out =",
            "    there = cuda.to_device(values)\n    double[8, 64](there, "
            "cuda.device_array(500, np.float64))\n    values = there.copy_to_host()\n"
            "    out =",
        ).replace("to_device(values), out", "to_device(2 * values), out"),
        "does not follow the device",
    ),
    "numpy on what a kernel copied": (
        COPY.replace(
            "    out =",
            "    there = cuda.device_array(500, np.float64)\n"
            "    double[8, 64](cuda.to_device(values), there)\n"
            "    values = there.copy_to_host()\n    out =",
        ).replace("to_device(values), out", "to_device(2 * values), out"),
        "does not follow the device",
    ),
    "numpy on values in another form": (ANOTHER_FORM, "does not follow the device"),
    # Calls 1 and 2 are those without exchange, call 3 is that which is written down.
    "the same from the fourth call on": (
        ANOTHER_FORM.replace("def doubled", "calls = []\n\ndef doubled").replace(
            "    twice =",
            "    calls.append(1)\n    if len(calls) < 4:\n"
            "        return out.copy_to_host()\n    twice =",
        ),
        "did not read the first time",
    ),
}

# Whole numbers below 50: a table of them all, which a kernel writes, is small.
COUNT = """@cuda.jit
def tally(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, int(values[i] * counts.size), 1)

def count(values, bins):
    ### BEGIN SOLUTION
    counts = cuda.to_device(np.zeros(bins, np.int64))
    tally[8, 64](cuda.to_device(values), counts)
    return counts.copy_to_host()
    ### END SOLUTION
"""
TEST_COUNT = """def reference(values, bins):
    return np.bincount((values * bins).astype(int), minlength=bins)

values, others = (secret_rng(name).uniform(size=500) for name in ("given", "exchanged"))
expect_equal(np.ravel(call("count", values, BINS)), reference(values, BINS), "wrong")
expect_equal(np.ravel(call("count", values, BINS, exchanged=[(values, others)], schedules=1)),
             reference(others, BINS), "does not follow the device")
"""
BACK = "return counts.copy_to_host()"
HONEST_COUNTS = {
    "reference": COUNT,
    "a list": COUNT.replace(BACK, "return counts.copy_to_host().tolist()"),
    "floats": COUNT.replace(BACK, "return [float(n) for n in counts.copy_to_host()]"),
    "numbers of numpy": COUNT.replace(
        BACK, "return tuple(np.int32(n) for n in counts.copy_to_host())"
    ),
    "cast": COUNT.replace(BACK, "return counts.copy_to_host().astype(np.float32)"),
    "one by one": COUNT.replace(
        BACK, "return [int(counts[n:n + 1].copy_to_host()[0]) for n in range(bins)]"
    ),
    "one by one, with more around each": COUNT.replace(
        BACK, "return [int(counts[max(n - 1, 0):n + 1].copy_to_host()[-1]) for n in range(bins)]"
    ),
    "by index": COUNT.replace(BACK, "return [counts[n] for n in range(bins)]"),
    "joined": COUNT.replace(
        BACK, "return np.concatenate([part.copy_to_host() for part in (counts[:3], counts[3:])])"
    ),
    "looked at before": COUNT.replace(
        BACK,
        "numbers = cuda.to_device(np.arange(bins))\n"
        "    tally[1, 1](cuda.to_device(values[:1]), numbers)\n"
        "    numbers.copy_to_host()\n    " + BACK,
    ),
    "compared with numpy's": COUNT.replace(
        BACK,
        "found = counts.copy_to_host()\n"
        "    assert (found == np.bincount((values * bins).astype(int), minlength=bins)).all()\n"
        "    return list(found)",
    ),
}
TABLE = """@cuda.jit
def tabulate(values, table):
    i = cuda.grid(1)
    for j in range(i, table.size, cuda.gridsize(1)):
        table[j] = j
    if i < values.size and values[i] > 2.0:
        table[0] = 1

def count(values, bins):
    there, table = cuda.to_device(values), cuda.device_array(1000, np.int64)
    tabulate[8, 64](there, table)
    counts = np.bincount((there.copy_to_host() * bins).astype(int), minlength=bins)
    TAKE
"""
PICKED = {
    "as a list": "table.copy_to_host()\n    return counts.tolist()",
    "as floats": "table.copy_to_host()\n    return [float(n) for n in counts]",
    "as an array": "table.copy_to_host()\n    return counts",
    "read one by one": "return [int(table[n:n + 1].copy_to_host()[0]) for n in counts]",
    "as arrays in a list": "table.copy_to_host()\n    return [np.array(n) for n in counts]",
    "left on the device": "return [table[n:n + 1] for n in counts]",
}


def counted(server, source: str, bins: int) -> str:
    course = Assignment(
        "counts",
        notebook_of(
            [
                setup("start", START),
                solution("count", COUNT),
                test_cell("test-count", TEST_COUNT.replace("BINS", str(bins)), 3),
            ]
        ),
    )
    verdict = grade(course, submitted(course, count=source), server, "5eed" * 8)
    assert verdict.kind == GRADED, verdict.reason
    return verdict.tests[0].reason


@pytest.mark.parametrize("bins", [1, 40])
@pytest.mark.parametrize("name", HONEST_COUNTS)
def test_numbers_follow_the_device_in_whatever_form_they_come(server, name, bins):
    assert counted(server, HONEST_COUNTS[name], bins) == ""


@pytest.mark.parametrize("name", PICKED)
def test_threat_92_numbers_picked_from_a_table(server, name):
    """The host computes with what it reads of the values, after the last launch."""
    answer = TABLE.replace("TAKE", PICKED[name])
    assert counted(server, answer, 40) in (
        "does not follow the device",
        "the result of 'count' was computed on the host, not by a kernel: return what a kernel "
        "wrote into device memory",
    )


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


MIX = """@cuda.jit
def mix(seed, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = (seed * 7919 + i * 104729) % 10007

def mixed(seed):
    ### BEGIN SOLUTION
    out = cuda.device_array(40, np.int64)
    mix[2, 32](seed, out)
    return out.copy_to_host()
    ### END SOLUTION
"""
# A launch takes half a second where a bit of the seed is set: so the host learns it.
TIMED = """import time

@cuda.jit
def wait(seed, bit, out):
    if seed >> bit & 1:
        for n in range(6000):
            out[0] = (out[0] * 5 + n) % 101

@cuda.jit
def copy(values, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = values[i]

def mixed(seed):
    nowhere, times = cuda.to_device(np.zeros(1, np.int64)), []
    for bit in range(-1, 8):
        began = time.perf_counter()
        wait[1, 1](seed, max(bit, 0), nowhere)
        cuda.synchronize()
        times.append(time.perf_counter() - began)
    slow = np.array(times[1:]) > (min(times[1:]) + max(times[1:])) / 2
    heard = int(slow @ (1 << np.arange(8)))
    out = cuda.device_array(40, np.int64)
    copy[2, 32](cuda.to_device((heard * 7919 + np.arange(40) * 104729) % 10007), out)
    return out.copy_to_host()
"""
MIXED = Assignment(
    "mixed",
    notebook_of(
        [
            setup("start", START),
            solution("mix", MIX),
            test_cell(
                "test-mix",
                """seed, other = 0b01011001, 0b10100110
found = call("mixed", seed, exchanged=[(seed, other)], schedules=0)
expect_equal(found, (other * 7919 + np.arange(40) * 104729) % 10007, "does not follow the device")
""",
                3,
            ),
        ]
    ),
)


@pytest.mark.parametrize(
    ("source", "told"), [(MIX, ""), (TIMED, "does not follow the device")], ids=["honest", "timed"]
)
def test_threat_117_the_time_of_a_launch_tells_the_host_what_the_device_was_given(
    server, source, told
):
    verdict = grade(MIXED, submitted(MIXED, mix=source), server, "5eed" * 8)
    assert verdict.kind == GRADED, verdict.reason
    assert verdict.tests[0].reason == told


def test_in_a_notebook_the_function_gets_the_other_values():
    globals()["sums"] = lambda values: float(values.sum())
    values, others = np.ones(3), np.full(3, 2.0)
    assert call("sums", values, where="host", exchanged=[(values, others)]) == 6.0


# -- bytes ----------------------------------------------------------------------------------------

VALUES, OTHERS = np.random.default_rng(1).uniform(size=(2, 40))


def raw(array) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a,
        lambda a: a[5:9],
        lambda a: a[::-1],
        lambda a: a.astype(np.float32),
        lambda a: np.append(a, np.zeros(20)),
        lambda a: np.repeat(a, 3),
        lambda a: a.reshape(8, 5),
    ],
)
def test_elements_are_known_wherever_they_stand(change):
    exchange = Exchange([(VALUES, OTHERS)])
    np.testing.assert_array_equal(exchange.to_device(raw(change(VALUES))), raw(change(OTHERS)))
    assert exchange.done == 1


@pytest.mark.parametrize(
    "data", [np.zeros(40), np.arange(40), np.sqrt(VALUES), np.zeros(0), np.zeros(3, np.uint8)]
)
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


def test_equal_elements_of_a_whole_array_become_those_at_their_own_places():
    ones, numbers = np.ones(20, np.int64), np.arange(20)
    np.testing.assert_array_equal(Exchange([(ones, numbers)]).to_device(raw(ones)), raw(numbers))


def test_a_table_is_sorted_once_and_not_for_a_few(monkeypatch):
    sorts, argsort = [], np.argsort
    monkeypatch.setattr(np, "argsort", lambda known: sorts.append(len(known)) or argsort(known))
    exchange = Exchange([(VALUES, OTHERS)])
    for _ in range(3):
        exchange.parameter(VALUES[7].tobytes())
        exchange.to_device(raw(VALUES))
    assert sorts == []
    for _ in range(3):
        exchange.to_device(raw(VALUES[::-1]))
    assert sorts == [40]


def test_what_is_known_by_chance_stays():
    # 8.0 has the bytes of the float32 0.0 and 2.5: project 1's solution lost points with 2 seeds
    # of 25.
    many, others = np.random.default_rng(2).uniform(0, 8, (2, 400_000))
    many[17] = 2.5
    exchange = Exchange([(many, others)])
    for plain in (8.0, np.float32(2.5), np.array([8.0]), np.zeros(42, np.int32), 40, 0.2):
        np.testing.assert_array_equal(exchange.to_device(raw(plain)), raw(plain))
    assert exchange.done == 0
    for part in (many[:5], many[3], many[:9].astype(np.float32)):
        assert (exchange.to_device(raw(part)) != raw(part)).any()


def test_zeros_are_nothing_that_is_known():
    numbers, others = np.arange(40), np.arange(40) + 100
    for plain in (np.zeros(42, np.int64), np.zeros(1), np.arange(5), 7):
        exchange = Exchange([(numbers, others)])
        np.testing.assert_array_equal(exchange.to_device(raw(plain)), raw(plain))
    exchange = Exchange([(1 << 39, 77)])  # whose lower half is zero
    assert exchange.parameter(bytes(4)) == bytes(4)
    padded = np.append(numbers, np.zeros(90, np.int64))
    exchange = Exchange([(numbers[::-1], others[::-1])])
    np.testing.assert_array_equal(exchange.to_device(raw(padded))[:320], raw(others))


def test_the_host_reads_what_it_read_without_exchange():
    first = Exchange(room=1000)
    for data in (VALUES, 2 * VALUES):
        first.to_host(raw(data))
    second = Exchange([(VALUES, OTHERS)], first.heard)
    for number in (1, 2):
        np.testing.assert_array_equal(second.to_host(raw(number * OTHERS)), raw(number * VALUES))
    with pytest.raises(Diverged):
        second.to_host(raw(3 * OTHERS))
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
