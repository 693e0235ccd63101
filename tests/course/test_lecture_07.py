"""The exercises of "Trees and barriers", beside what tests/course/test_lectures.py asks of all."""

from __future__ import annotations

import pytest
from numba import cuda

from wrong_answers import answers_of

WRONG = answers_of("07_trees_and_barriers")

pytestmark = pytest.mark.slow


@pytest.mark.rehearsal
def test_other_right_answers_are_accepted(lesson):
    """Ways to write them that differ from the source's."""

    @cuda.jit
    def the_latter_of_equals(values, n, target):
        i = cuda.grid(1)
        half = n - n // 2
        if i + half < n:
            a, b = values[i], values[i + half]
            values[i] = b if abs(target - b) <= abs(target - a) else a

    assert lesson.outcome("fold", the_latter_of_equals).passed
    assert lesson.outcome("block-max", WRONG.block_maxima()).passed
