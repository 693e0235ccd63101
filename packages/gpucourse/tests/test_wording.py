"""Tests of number and article agreement in messages."""

from __future__ import annotations

import pytest

from gpucourse.wording import a_or_an, is_not, many, number, seconds


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


def test_unequal_numbers_are_printed_apart():
    assert is_not(0.312749, 0.317) == "is 0.3127, not 0.317"
    assert is_not(124.9680001, 124.968) == "is 124.9680001, not 124.968"
    assert is_not(9.81, float("nan"), "m") == "is 9.81 m, not nan m"
    assert is_not(10_000, 12_500) == "is 10,000, not 12,500"


def test_numbers_are_written_as_a_person_writes_them():
    assert number(125) == "125" and number(float("inf")) == "inf"
    assert number(2.0e-7) == "2 × 10⁻⁷" and number(3.35e12) == "3.35 × 10¹²"
    assert [seconds(value) for value in (2, 0.0041, 5.3e-7)] == ["2 s", "4.1 ms", "530 ns"]
