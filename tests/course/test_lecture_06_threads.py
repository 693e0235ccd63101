"""The exercises on races of "Numba CUDA", beside what tests/course/test_lectures.py asks of all."""

from __future__ import annotations

import itertools
import re

import pytest

from wrong_answers import answers_of

WRONG = answers_of("06_numba_cuda")

pytestmark = pytest.mark.slow


def test_every_order_ends_at_a_possible_total(lesson):
    """The set that the check demands is what all 20 orders give."""
    check = lesson.exercises["lost-update"].function
    replay = check.__globals__["_interleaved"]
    orders = {"".join(order) for order in itertools.permutations("AAABBB")}
    assert len(orders) == 20
    assert {replay(order) for order in orders} == WRONG.ALL


@pytest.mark.parametrize("answer", [None, ..., len, 3.5, "kernel"], ids=repr)
def test_what_is_no_kernel_is_told_so(lesson, answer):
    outcome = lesson.outcome("check-then-act", answer)
    assert not outcome.passed
    assert re.search("there is no answer yet|not a kernel", outcome.message)


def test_another_order_and_a_list_are_accepted(lesson):
    assert lesson.outcome("lost-update", "ABBBAA", [13, 12, 11]).passed
