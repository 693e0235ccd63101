"""What a submission says enters the oracle as plain values, or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import gpucourse.grading.oracle as oracle
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import gate
from gpucourse.grading.oracle.device_service import DeviceService
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.sandbox import wire
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.testing import verbs
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell

START = """%load_ext gpucourse
import numpy as np
from numba import cuda
from gpucourse import call, expect_equal, launch, launch_source, secret_rng, unwritten
"""

TEXT = '''def text(unused):
    ### BEGIN SOLUTION
    source = """extern "C" __global__ void copy(const long long *x, long long *out) {
        out[threadIdx.x] = x[threadIdx.x]; }"""
    return source, [np.arange(2)]
    ### END SOLUTION
'''
# As project 4 does with constants, and project 3 with the counts of a model.
TEST_TEXT = """source, found = call("text", 1, where="host")
inputs = [np.array(value) for value in found]
out = unwritten(2, np.int64)
launch_source(source, "copy", 1, 2, *inputs, out, schedules=0)
expect_equal(out, [0, 1], "wrong numbers")
"""
KERNEL = """@cuda.jit
def copy(x, out):
    ### BEGIN SOLUTION
    out[cuda.grid(1)] = x[cuda.grid(1)]
    ### END SOLUTION
"""
TEST_KERNEL = """inputs = np.array(call("text", 1, where="host")[1][0])
out = unwritten(2, np.int64)
launch("copy", 1, 2, inputs, out, schedules=0)
expect_equal(out, [0, 1], "wrong numbers")
"""
TEST_ARGUMENT = """found = np.asarray(call("text", 1, where="host")[1][0])
expect_equal(call("twice", found, where="host"), [0, 2], "wrong numbers")
"""
TWICE = """def twice(values):
    ### BEGIN SOLUTION
    return 2 * values
    ### END SOLUTION
"""
SMALL = Assignment(
    "small",
    notebook_of(
        [
            setup("start", START),
            solution("text", TEXT),
            solution("copy", KERNEL),
            solution("twice", TWICE),
            test_cell("test-text", TEST_TEXT, 1),
            test_cell("test-copy", TEST_KERNEL, 2),
            test_cell("test-argument", TEST_ARGUMENT, 3),
        ]
    ),
)
SOURCE = TEXT[TEXT.index("    source") : TEXT.index("    return")]


def answered(server, constants: str):
    """The verdict on an answer whose constants are an expression."""
    body = f"def text(unused):\n{SOURCE}    return source, {constants}\n"
    return grade(SMALL, submitted(SMALL, text=body), server, "5eed" * 8, Limits())


@pytest.mark.parametrize(
    "constants",
    [
        "[None]",
        "[[None, None]]",
        "[[1, None]]",
        "[{'a': 1}]",
        "[['ab', 'cd']]",
        "'ab'",
        "[True]",
        "[2**64]",
        "[[2**70, 1]]",
        "[-2**63 - 1]",
        "[[[1], [1, 2]]]",
        "[b'12345678']",
        "[{1, 2}]",
        "[np.array(None)]",
        "[np.array([2**70])]",
        "[np.zeros(2, [('a', 'O')])]",
        "[np.longdouble(1)]",
        "[np.array(['a', 'b'], np.dtypes.StringDType())]",
        "[np.zeros(2, [('a', 'i8')])]",
        "[type('Own', (int,), {})(1)]",
        "[np.zeros(2, 'M8[s]')]",
        "[np.matrix([1, 2])]",
    ],
)
def test_threat_85_no_python_object_reaches_the_device(server, constants):
    """None, ragged lists, text and huge numbers: what a test's NumPy makes of them stays there."""
    verdict = answered(server, constants)
    assert verdict.kind == GRADED, verdict.reason
    assert [test.earned for test in verdict.tests] == [0, 0, 0]


@pytest.mark.parametrize(
    "constants",
    ["[np.arange(2)]", "[[0, 1]]", "[(np.int64(0), 1)]", "([False, True],)", "[np.arange(2.0)]"],
)
def test_threat_85_numbers_in_any_form_are_taken(server, constants):
    verdict = answered(server, constants)
    assert verdict.kind == GRADED, verdict.reason
    assert verdict.tests[2].passed
    assert verdict.tests[0].passed == ("2.0" not in constants and "False" not in constants)
    assert answered(server, "[np.arange(2)]").tests[1].passed


def test_threat_85_the_reason_names_what_was_returned(server):
    reasons = [test.reason for test in answered(server, "[2**64]").tests]
    assert reasons == ["'text' returned an integer that does not fit in 64 bits"] * 3
    reasons = [test.reason for test in answered(server, "[[None, None]]").tests]
    assert all("this test cannot work with the result (TypeError)" in text for text in reasons)


DEEP = """found = call("text", 1, where="host")[1]
expect_equal(call("twice", found, where="host"), [0, 2], "wrong numbers")
"""
PASSED_ON = Assignment(
    "passed",
    notebook_of(
        [
            setup("start", START),
            solution("text", TEXT.replace("[np.arange(2)]", "[0, 1]")),
            solution("twice", TWICE.replace("2 * values", "2 * np.array(values)")),
            test_cell("test-deep", DEEP, 1),
        ]
    ),
)


@pytest.mark.parametrize("levels", [2, 7, 8, 9, 30])
def test_threat_85_lists_that_are_passed_on_are_the_answers_affair(server, levels):
    """What a function returned may be too deep to be sent again inside of the arguments."""
    deep = "[" * levels + "0" + "]" * levels
    body = f"def text(unused):\n    return 'x', {deep}\n"
    verdict = grade(PASSED_ON, submitted(PASSED_ON, text=body), server, "5eed" * 8, Limits())
    assert verdict.kind == GRADED, verdict.reason
    assert not verdict.tests[0].passed
    assert grade(PASSED_ON, submitted(PASSED_ON), server, "5eed" * 8, Limits()).tests[0].passed


def test_threat_85_arguments_of_every_verb_are_numbers():
    """Before anybody is asked: also pairs that are to be exchanged."""
    odd, numbers = np.array([None, 1]), np.arange(2)
    for verb, number in (
        (lambda: verbs.call("f", odd), 1),
        (lambda: verbs.call("f", numbers, exchanged=[(numbers, odd)]), 1),
        (lambda: verbs.call("f", numbers, {"a": [odd]}, where="jax"), 2),
        (lambda: verbs.launch("f", 1, 1, numbers, odd), 2),
        (lambda: verbs.launch_source("text", "f", 1, 1, odd), 1),
        (lambda: verbs.operations("f", odd), 1),
    ):
        with pytest.raises(TypeError, match=rf"argument {number} of .* array of object"):
            verb()


class Loud(np.ndarray):
    """An array with ideas of its own."""


@pytest.mark.parametrize(
    "found",
    [
        np.array(None),
        np.zeros(1, [("a", "O")]),
        np.zeros(1, [("a", "i8")]),
        np.array("text"),
        np.longdouble(1),
        np.zeros(2).view(Loud),
        np.ma.masked_array([1]),
        b"bytes",
        1j,
        {1},
        {1: 2},
        object(),
        [[object()]],
        {"a": {"b": (object(),)}},
        1 << 64,
        -(1 << 63) - 1,
        print,
        int,
        [0] * wire.MAX_ITEMS,
        np.zeros(1, "M8[s]"),
    ],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:20]}",
)
def test_threat_85_the_gate_refuses_by_name(monkeypatch, found):
    """Whatever the wire should let through one day."""
    monkeypatch.setattr(gate, "decode", lambda *arguments: found)
    with pytest.raises(gate.Refused, match=r"^an? "):
        gate.value({}, [])


def nested(depth: int) -> dict:
    tree = {"t": "plain", "v": None}
    for _ in range(depth):
        tree = {"t": "list", "v": [tree]}
    return tree


def test_threat_85_lists_are_so_deep_and_no_deeper():
    assert gate.value(nested(wire.MAX_DEPTH), []) is not None
    for depth in (wire.MAX_DEPTH + 2, 500):
        with pytest.raises((wire.ProtocolError, gate.Refused)):
            gate.value(nested(depth), [])


@pytest.mark.parametrize(
    "dtype",
    [
        "|O",
        "O",
        "<O8",
        "|V8",
        "<U4",
        "|S4",
        "<M8[s]",
        "<f16",
        "<c32",
        "<f1",
        "<i3",
        "T",
        "<u16",
        "|b8",
        ["<f8"],
        {"names": ["a"]},
    ],
)
def test_threat_85_no_other_type_is_announced(dtype):
    described = {"dtype": dtype, "shape": [1]}
    with pytest.raises(wire.ProtocolError):
        wire.announced(described)
    service = DeviceService(Limits())
    address = service.handle({"device": "allocate", "nbytes": 64}, [])[0]["address"]
    with pytest.raises(wire.ProtocolError):
        service.device_array(described | {"address": address, "strides": None})


def test_threat_85_truth_values_are_0_or_1():
    found = wire.numbers(np.array([0, 1, 2, 0xFE], np.uint8), np.dtype(bool), (2, 2))
    assert found.view(np.uint8).tolist() == [[0, 1], [1, 1]]
    service = DeviceService(Limits())
    address = service.handle({"device": "allocate", "nbytes": 4}, [])[0]["address"]
    service.handle({"device": "write", "address": address}, [np.array([0, 1, 2, 0xFE], np.uint8)])
    described = {"dtype": "|b1", "shape": [4], "strides": None, "address": address}
    assert service.device_array(described).view(np.uint8).tolist() == [0, 1, 1, 1]


def test_threat_85_a_scalar_is_one_number():
    with pytest.raises(wire.ProtocolError):
        gate.value({"t": "scalar", "v": 0}, [np.zeros(3)])


@pytest.mark.parametrize(
    "told", [None, [], {"add": "1"}, {"add": 1.5}, {"add": -1}, {"add": 1 << 64}, {"add": True}]
)
def test_threat_85_counts_are_numbers(told):
    with pytest.raises(wire.ProtocolError):
        gate.counts(told)
    assert gate.counts({"add": 3}) == {"add": 3}


def test_threat_85_there_is_no_other_way_in():
    """Of the oracle's modules the gate alone makes values of what a worker describes."""
    users = [
        path.name
        for path in Path(oracle.__file__).parent.glob("*.py")
        if re.search(r"\bdecode\b", re.sub(r"\.decode\([^)]*\)", "", path.read_text()))
    ]
    assert users == ["gate.py"]
