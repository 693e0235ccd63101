"""Rows 1 to 11 of the list of threats: changing the verdict."""

from __future__ import annotations

from functools import partial

from threats import each_attempt, holds
from threats_verdict import ATTEMPTS

pytest_plugins = ("threats_fixtures",)


attempts = partial(each_attempt, ATTEMPTS)


@attempts(1)
def test_threat_01_stripping_asserts(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(2)
def test_threat_02_blanking_cells(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(3)
def test_threat_03_patching_what_runs_cells(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(4)
def test_threat_04_patching_comparisons(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(5)
def test_threat_05_objects_that_equal_everything(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(6)
def test_threat_06_printing_a_score(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(7)
def test_threat_07_scores_that_are_no_numbers(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(8)
def test_threat_08_warnings_cost_nothing(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert verdict.notices == []


@attempts(9)
def test_threat_09_pickles(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(10)
def test_threat_10_forged_messages(attempt, threat_course, server):
    holds(attempt, threat_course, server)


@attempts(11)
def test_threat_11_ending_the_process(attempt, threat_course, server):
    """The test that meets it fails; the other goes on in a fresh process."""
    holds(attempt, threat_course, server)
