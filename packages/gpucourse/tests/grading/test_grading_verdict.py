"""The verdict document: scores are finite and within bounds, and what is written comes back."""

from __future__ import annotations

import numpy as np
import pytest

from gpucourse.grading.verdict import (
    GRADED,
    INFRASTRUCTURE_FAULT,
    TestOutcome,
    Verdict,
    clamp,
    digest,
)


@pytest.mark.parametrize(
    ("score", "earned"),
    [
        (2, 2.0),
        (1.5, 1.5),
        (np.float64(0.0), 0.0),
        (np.int32(1), 1.0),
        (float("nan"), 0.0),
        (float("inf"), 0.0),
        (-1, 0.0),
        (99, 3.0),
        (True, 0.0),
        ("3", 0.0),
        (None, 0.0),
        (np.float64("nan"), 0.0),
        (2j, 0.0),
        ([3], 0.0),
    ],
)
def test_threat_07_a_score_is_a_finite_number_within_bounds(score, earned):
    assert clamp(score, 3.0) == earned


def test_a_verdict_survives_its_file(tmp_path):
    outcomes = [TestOutcome("a", 3, 3), TestOutcome("b", 2, 0, "wrong for n = 0", 1.5)]
    verdict = Verdict(GRADED, "toy", "alice", tests=outcomes, notices=["é"], seed="00")
    verdict.write(tmp_path / "deep" / "v.json")
    again = Verdict.read(tmp_path / "deep" / "v.json")
    assert again == verdict
    assert (again.earned, again.points, again.first_reason()) == (3.0, 5.0, "wrong for n = 0")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["v.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 0}', '{"format": 1, "tests": [1]}'])
def test_what_is_not_a_verdict_is_not_read(text, tmp_path):
    (tmp_path / "v.json").write_text(text)
    assert Verdict.read(tmp_path / "v.json") is None
    assert Verdict.read(tmp_path / "missing.json") is None


def test_the_graders_fault_is_not_a_zero():
    assert Verdict(INFRASTRUCTURE_FAULT, "toy").earned is None
    with pytest.raises(ValueError, match="one of"):
        Verdict("fine", "toy")


def test_digests_do_not_run_together():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a", "") != digest("a")
