"""A learner's own checks in an answer cell: launches, looks and prints outside of functions."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.verdict import GRADED
from grading_toy import submitted
from kernel_answers import SEED, kernels
from threats import COUNT, SCALE

LAUNCH_SCALE = "_out = cuda.device_array(40)\nscale[2, 32](np.arange(40.0), 3.0, _out)\n"
LAUNCH_TALLY = """_counts = cuda.to_device(np.zeros(9, np.int32))
tally[1, 64](np.arange(9), _counts)
"""
CALL = "_own = histogram(np.arange(50) % 7, 7)\nprint(_own)\n"
LOOK = "_there = cuda.to_device(np.arange(5))\nprint(_there.copy_to_host(), _there)\n"
WAIT = "cuda.synchronize()\n"
# A race of the learner's own, which no test asks about.
RACE = """@cuda.jit
def _everybody(out):
    out[0] = cuda.threadIdx.x

_everybody[1, 64](np.zeros(1, np.int64))
"""
IN_SCALE, IN_COUNT = [LAUNCH_SCALE, LOOK, WAIT, RACE], [LAUNCH_TALLY, CALL, LOOK, WAIT, RACE]


def told(server, limits: Limits | None = None, first: str = "", **changed: str):
    """The verdict; `first` is the test cell that comes first."""
    assignment = kernels()
    if first:
        assignment.cells.sort(key=lambda cell: cell.role == "test" and cell.grade_id != first)
    return grade(assignment, submitted(assignment, **changed), server, SEED, limits)


@pytest.mark.parametrize("first", ["test-scale", "test-count"])
@pytest.mark.parametrize("number", range(4))
def test_threat_87_launches_of_cells_are_none_of_a_tests(server, number, first):
    """In any order, and whichever verb asks first."""
    draw = random.Random(number)
    scale = SCALE + "\n" + "\n".join(draw.choices(IN_SCALE, k=3))
    count = COUNT + "\n" + "\n".join(draw.choices(IN_COUNT, k=3))
    verdict = told(server, first=first, scale=scale, count=count)
    assert verdict.kind == GRADED, verdict.reason
    assert verdict.earned == verdict.points, verdict.to_json()


def test_a_race_in_the_answer_itself_is_found_beside_ones_own_checks(server):
    wrong = COUNT.replace("cuda.atomic.add(counts, values[i], 1)", "counts[values[i]] += 1")
    verdict = told(server, first="test-count", count=f"{wrong}\n{LAUNCH_TALLY}")
    assert "race" in verdict.tests[0].reason


SLOW = """@cuda.jit
def _slow(out):
    for i in range(3000):
        out[cuda.threadIdx.x] += i * out[cuda.threadIdx.x]

_there = cuda.to_device(np.zeros(32))
while True:
    _slow[1, 32](_there)
"""


def test_a_check_of_ones_own_that_takes_too_long_costs_its_own_cell(server):
    """The tests of other cells have all of their time; and it is said which cell took too long."""
    limits = replace(server.limits, test_seconds=4.0, launch_seconds=3.0)
    verdict = told(server, limits, scale=f"{SCALE}\n", count=f"{COUNT}\n{SLOW}")
    assert verdict.kind == GRADED, verdict.reason
    scale, count = verdict.tests
    assert scale.passed, scale.reason
    assert "cell 'count'" in count.reason and "longer than" in count.reason


FILLS = "_rubbish = []\nwhile True:\n    _rubbish.append('x' * 100_000)\n"
KEEPS = """_rubbish = []
try:
    while True:
        _rubbish.append('x' * 100_000)
except MemoryError:
    del _rubbish[-200:]
"""


@pytest.mark.parametrize("loop", [FILLS, KEEPS])
def test_threat_99_memory_that_a_later_cell_fills(server, loop):
    """What came before keeps its points, and it is said which cell takes the memory."""
    verdict = told(server, count=f"{COUNT}\n{loop}")
    assert verdict.kind == GRADED, verdict.reason
    scale, count = verdict.tests
    assert scale.passed, scale.reason
    assert any("'count'" in notice and "emory" in notice for notice in verdict.notices)
    if loop is FILLS:
        assert "cell 'count' failed" in count.reason and "MemoryError" in count.reason


def test_a_cell_between_two_tests_does_not_cost_the_second_when_it_can_do_without(server):
    """The worker of the second test runs the filling cell too: only the memory that is left."""
    verdict = told(server, scale=f"{SCALE}\n_rubbish = ['x' * 100_000 for _ in range(7000)]\n")
    assert verdict.earned == verdict.points, verdict.to_json()
    assert any("fills the memory" in notice for notice in verdict.notices)
