"""Messages read as English, whatever they are filled with."""

from __future__ import annotations

import pytest

from virtualgpu.wording import a_or_an, many


@pytest.mark.parametrize(
    "said",
    "an int, an int64, an ndarray, an np.int64, an object, an Array, an ElementwiseKernel, an f32, "
    "an s8, an f16x2, an mbarrier, an unknown, an 8, an 11, an 18, a float32, a str, a list, "
    "a uint8, a ufunc, a u32, a b16, a pred, a NoneType, a numpy.ndarray, a CUDADispatcher, a 16, "
    "a 180, a user, a module".split(", "),
)
def test_the_article_follows_the_sound(said: str):
    assert a_or_an(said.partition(" ")[2]) == said


def test_a_number_and_its_noun():
    assert [many(0, "byte"), many(1, "byte"), many(2048, "byte")] == [
        "0 bytes", "1 byte", "2,048 bytes"
    ]  # fmt: skip
    assert [many(1, "launch", "launches"), many(2, "launch", "launches")] == [
        "1 launch", "2 launches"
    ]  # fmt: skip
