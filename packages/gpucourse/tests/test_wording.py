"""Tests of number and article agreement in messages."""

from __future__ import annotations

import pytest

from gpucourse.wording import a_or_an, many


@pytest.mark.parametrize(
    "phrase",
    "an int, an ndarray, an np.int64, an f32, an s8, an mbarrier, an 8, an 11, a float32, "
    "a uint8, a ufunc, a u32, a numpy.ndarray, a 16, a user".split(", "),
)
def test_article_follows_the_sound(phrase: str):
    assert a_or_an(phrase.partition(" ")[2]) == phrase


def test_noun_agrees_with_its_number():
    assert many(1, "byte") == "1 byte"
    assert many(2048, "byte") == "2,048 bytes"
    assert many(2, "launch", "launches") == "2 launches"
