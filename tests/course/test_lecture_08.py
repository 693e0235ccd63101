"""What the text of "Random numbers in parallel" says is what its cells show."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from gpucourse.exercises.checks import load_lesson
from wrong_answers import answers_of

WRONG = answers_of("08_random_numbers")
pytestmark = pytest.mark.rehearsal


def test_one_seed_misses_by_ten_to_a_hundred_times_the_error(shown):
    text = shown["the-estimates"].text
    off = [float(number) for number in re.findall(r"by +([\d.]+) errors", text)]
    assert len(off) == 5
    assert min(off) > 10 and max(off) > 100
    assert "different values: 1\n" in shown["same"].text


def test_seeds_side_by_side_are_related(shown):
    names = shown["autopsy"].names
    assert names["numbers_of"](names["side_by_side"], 1).max() < 1e-6
    stripes = shown["neighbours-picture"].names["numbers_of"](names["side_by_side"], 2)[:, 1]
    assert np.unique((stripes * 64).astype(int)).size < 40
    scrambled = names["numbers_of"](names["spread_out"], 2)[:, 1]
    assert np.unique((scrambled * 64).astype(int)).size == 64


def test_states_move_on_and_counters_do_not_care(shown):
    first, second = shown["xoroshiro"].text.splitlines()
    assert first.split("[")[1] != second.split("[")[1]
    for line in (first, second):
        assert abs(float(re.search(r"π = ([\d.]+)", line)[1]) - math.pi) < 3 * 0.0032
    assert shown["counter"].text.count("True") == 3


def test_the_last_two_pass_both_tests_and_the_others_fail_across(shown):
    rows = [line.split()[-2:] for line in shown["autopsy"].text.splitlines()[1:]]
    across = [abs(float(row[1])) for row in rows]
    assert min(across[:2]) > 100
    assert max(across[2:]) < 3
    assert max(abs(float(row[0])) for row in rows[2:]) < 3


def test_the_error_falls_as_the_root_only_with_good_streams(shown):
    names = shown["convergence"].names
    good, same = names["errors"]["scrambled seeds"], names["errors"]["the same seed"]
    slope = np.polyfit(np.log(names["sizes"]), np.log(good), 1)[0]
    assert -0.65 < slope < -0.35
    assert np.allclose(same, same[0])


def test_jax_sees_a_key_that_is_used_twice(shown):
    assert "already consumed" in str(shown["key-reuse"].error)
    x, y = shown["key-reuse"].text.split(":")[1].split()
    assert x == y
    pi = float(re.search(r"π = ([\d.]+)", shown["keys"].text)[1])
    assert abs(pi - math.pi) < 3 * 0.0032


@pytest.mark.parametrize("name", WRONG.OTHER_COUNTERS)
def test_any_counters_will_do_as_long_as_none_comes_twice(name):
    outcome = load_lesson("08_random_numbers").outcome("counter", WRONG.OTHER_COUNTERS[name])
    assert outcome.passed, outcome.message
