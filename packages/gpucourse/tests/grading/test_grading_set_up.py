"""Functions of set-up cells: what answers are graded without, and what they cannot replace."""

from __future__ import annotations

import numpy as np
import pytest

from gpucourse.grading.contract import Call, PropertyFailed
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.oracle.set_up import SetUp
from gpucourse.grading.sandbox import cells
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.testing.notebook_judge import NotebookJudge
from gpucourse.grading.verdict import GRADED
from grading_toy import notebook_of, setup, solution, submitted, test_cell

START = """import numpy as np
from gpucourse import call, expect_equal


def wanted(values):  ### NOT FOR ANSWERS
    return 2 * values


SCALE = 2.0
"""
ASKING = """def twice(values):
    return applied(applied(values))


def applied(values):
    return double(values)
"""
DOUBLE = """def double(values):
    ### BEGIN SOLUTION
    return SCALE * values
    ### END SOLUTION
"""
TEST = """ones = np.ones(3)
expect_equal(call("twice", ones, where="host"), 2 * wanted(ones), "twice is wrong")
"""
TEST_DOUBLE = TEST.replace("twice", "double").replace("2 * wanted", "wanted")


def assignment() -> Assignment:
    return Assignment(
        "small",
        notebook_of(
            [
                setup("start", START),
                setup("asking", ASKING),
                solution("double", DOUBLE),
                test_cell("test-twice", TEST, 1),
                test_cell("test-double", TEST_DOUBLE, 1),
            ]
        ),
    )


def earned(server, double: str) -> tuple[list[float], list[str]]:
    made = assignment()
    verdict = grade(made, submitted(made, double=double), server, "5e" * 16)
    assert verdict.kind == GRADED, verdict.reason
    return [test.earned for test in verdict.tests], [test.reason for test in verdict.tests]


RIGHT = "def double(values):\n    return SCALE * values\n"


def test_an_answer_that_leaves_the_set_up_alone_passes(server):
    assert earned(server, RIGHT)[0] == [1, 1]


def test_an_answer_cannot_replace_what_a_test_calls(server):
    cheat = "def double(values):\n    return values\n\n\ndef {}(values):\n    return {} * values\n"
    for name, factor in (("twice", 4), ("applied", 2)):
        points, reasons = earned(server, cheat.format(name, factor))
        assert points == [0, 0] and "twice is wrong" in reasons[0]


def test_a_name_that_no_test_calls_is_the_answers_to_take(server):
    own = "def wanted(values):\n    return values + values\n\n\nSCALE = 1\n\n\n"
    assert earned(server, own + "def double(values):\n    return wanted(SCALE * values)\n")[0] == [
        1,
        1,
    ]


def test_an_answer_is_graded_without_the_courses_result(server):
    for early in ("", "mine = wanted\n"):
        points, reasons = earned(server, f"{early}def double(values):\n    return wanted(values)\n")
        assert points == [0, 0]
        assert "'wanted' is the course's own" in reasons[1]


def test_lines_keep_their_numbers_without_what_is_withheld():
    made = assignment()
    start = made.cells[0]
    given = SetUp(made).for_answers(start)
    assert "wanted" not in given
    assert given.split("\n").index("SCALE = 2.0") == START.split("\n").index("SCALE = 2.0")


def test_cells_behind_an_answers_own_function_are_none():
    made = assignment()
    assert SetUp(made).behind("double") == []
    assert [cell.grade_id for cell in SetUp(made).behind("twice")] == ["asking"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("return wanted(values)", True),
        ("return list(map(lambda one: wanted(one), values))", True),
        ("return mine(values)", True),
        ("return helper(values)", True),
        ("return 2 * values", False),
        ("return given(values)", False),
        ("return np.sum(values)", False),
    ],
)
def test_notebook_refuses_the_courses_own_result(answer, told):
    namespace: dict = {}
    cells.run(f"{START}\n\ndef given(values):\n    return values\n", "start", namespace)
    helper = "mine = wanted\n\n\ndef helper(values):\n    return wanted(values)\n\n\n"
    cells.run(f"{helper}def double(values):\n    {answer}\n", "double", namespace)
    judge = NotebookJudge(lambda: namespace)
    asked = Call("double", (np.ones(3),), where="host")
    if not told:
        judge.call(asked)
        return
    with pytest.raises(PropertyFailed, match="'wanted' is the course's own"):
        judge.call(asked)
