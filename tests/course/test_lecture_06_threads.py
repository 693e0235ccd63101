"""The exercises of "Thinking in threads", beside what tests/course/test_lectures.py asks of all."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from numba import cuda

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
    outcome = lesson.outcome("bounds-guard", answer)
    assert not outcome.passed
    assert re.search("nothing here yet|not a kernel", outcome.message)


@pytest.mark.rehearsal
def test_other_right_answers_are_accepted(lesson):
    """Ways to write them that differ from the source's."""

    @cuda.jit
    def gaps_by_return(values, out):
        i = cuda.grid(1)
        if i >= out.size:
            return
        out[i] = values[i + 1] - values[i]

    @cuda.jit
    def counts_with_while(values, cut, counts):
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        counts[i] = 0
        k = i
        while k < values.size:
            if cut < values[k]:
                counts[i] += 1
            k += cuda.gridDim.x * cuda.blockDim.x

    assert lesson.outcome("launch-shape", lambda n, t: (math.ceil(n / t), -n % t)).passed
    assert lesson.outcome("launch-shape", lambda n, t: (np.int64(-(-n // t)), -n % t)).passed
    assert lesson.outcome("launch-shape", lambda n, t: [-(-n // t), -n % t]).passed
    assert lesson.outcome("bounds-guard", gaps_by_return).passed
    assert lesson.outcome("grid-stride", counts_with_while).passed
    assert lesson.outcome("lost-update", "ABBBAA", [13, 12, 11]).passed
