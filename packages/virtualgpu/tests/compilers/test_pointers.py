"""Where the elements of an array start, read from its object."""

from __future__ import annotations

import numpy as np
import pytest

from virtualgpu.compilers.llvm import pointer

WHOLE = np.arange(24, dtype=np.int32).reshape(4, 6)
READ_ONLY = WHOLE.copy()
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    "array",
    [
        WHOLE,
        WHOLE[1:, 2:],
        WHOLE[::-1],
        WHOLE.T,
        READ_ONLY,
        np.zeros(0),
        np.array(3.0),
        np.frombuffer(b"12345678", np.uint8, offset=3),
        np.rec.array([(1, 2.0)], "i4,f8"),
    ],
)
def test_it_is_what_the_array_says_of_itself(array):
    assert pointer(array) == array.__array_interface__["data"][0]
