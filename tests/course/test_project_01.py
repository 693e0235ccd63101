"""Project 1: its specification against a trusted library, its known-wrong answers, fresh seeds."""

from __future__ import annotations

import math

import hist
import numpy as np
import pytest

# What people get wrong: each kind has to be among the known-wrong answers.
KINDS = {
    "race",
    "missing barrier",
    "out of bounds",
    "divergent barrier",
    "power-of-two only",
    "off-by-one bin",
    "everything in bin 0",
    "NaN put in bin 0",
    "last edge",
    "hard-coded size",
    "NumPy in place of a kernel",
    "one block only",
    "shared histogram not zeroed",
    "uninitialised private rows",
    "correct but with one global atomic per event",
    "correct but uncoalesced",
    "changes its input",
    "endless loop",
    "histogram not zeroed between runs",
    "negative weights",
    "sums in float32",
    "one thread does everything",
    "one thread of each block does everything",
    "one thread of each warp does everything",
    "threads take turns at a barrier",
    "NumPy, then a kernel that copies",
    "NumPy, and a table from a kernel",
    "blocks of a few threads",
    "a queue of shuffles in place of a tree",
    "one lane does its warp's work",
    "a decoy is launched beside what works",
}


@pytest.fixture(scope="module")
def setup(project) -> dict:
    """`reference` and `values_in`, which every test leans on."""
    return project.setup()


# --- the specification ----------------------------------------------------------------------------


RANGES = [(0.0, 16.0, 8), (-8.0, 8.0, 64), (-0.5, 0.5, 1)]


@pytest.mark.parametrize(("low", "high", "bins"), RANGES)
def test_reference_is_the_rule_of_hist_and_root(setup, low, high, bins):
    edges = np.linspace(low, high, bins + 1)
    between = np.random.default_rng(1).uniform(low - 1, high + 1, 999)
    odd = [-math.inf, math.inf, math.nan, -math.nan, 1e300, -1e300]
    values = np.concatenate([edges, between, odd])
    counts = setup["reference"](values, low, high, bins)
    assert counts.dtype == np.int32
    trusted = hist.Hist(hist.axis.Regular(bins, low, high)).fill(values)
    np.testing.assert_array_equal(counts, trusted.values(flow=True))
    assert counts.sum() == values.size


def test_numpy_differs_from_the_rule_as_the_text_says(setup):
    values = [-1.0, 0.0, 16.0, 17.0]
    counts = setup["reference"](values, 0.0, 16.0, 8)
    assert list(counts) == [1, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert list(np.histogram(values, 8, (0.0, 16.0))[0]) == [1, 0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("low", "high", "bins"), [(0.0, 10.0, 10), (60.0, 120.0, 101), (-1e6, 1e3, 3)]
)
def test_values_are_where_they_were_asked_to_be(setup, low, high, bins):
    rng = np.random.default_rng(2)
    wanted = rng.integers(0, bins + 2, 10_000)
    values = setup["values_in"](wanted, low, high, bins, rng)
    edges = np.linspace(low, high, bins + 1)
    np.testing.assert_array_equal(np.searchsorted(edges, values, side="right"), wanted)
    # Far from every edge: no way to round the position can part two right answers.
    distance = np.abs(values[:, None] - edges).min(axis=1)
    assert distance.min() > 0.009 * (high - low) / bins


def test_reference_of_nothing_is_zeros(setup):
    assert list(setup["reference"](np.zeros(0), 0.0, 1.0, 3)) == [0] * 5


# --- known-wrong answers --------------------------------------------------------------------------


def test_wrong_answers_cover_what_people_get_wrong(project):
    project.check_entries(KINDS)
