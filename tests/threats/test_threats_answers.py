"""Rows 12 to 20 of the list of threats: stealing the answers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from gpucourse.grading.sandbox import levels
from threats import SEED, control, each_attempt, holds
from threats_answers import ATTEMPTS

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal


attempts = partial(each_attempt, ATTEMPTS)


@attempts(12)
def test_threat_12_frames_history_objects(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(13)
def test_threat_13_the_notebook_in_the_working_directory(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(14)
def test_threat_14_the_source_directory(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(15)
def test_threat_15_tests_on_disk(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(16)
def test_threat_16_environments_and_file_descriptors(
    attempt, threat_course, protecting, monkeypatch
):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    holds(attempt, threat_course, protecting)


def test_threat_16_the_sandbox_starts_with_an_empty_environment(monkeypatch, threat_course):
    """Process 1 in it keeps the environment that it was started with."""
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    with levels.Sandbox([threat_course.root]) as running:
        server = Path("/proc", str(running._process.pid), "environ").read_text()
    assert "hunter2" not in server


@attempts(17)
def test_threat_17_the_gradebook(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(18)
def test_threat_18_guessable_seeds(attempt, threat_course, server):
    assert holds(attempt, threat_course, server).seed == SEED


def test_threat_18_every_run_draws_a_seed_of_its_own():
    from gpucourse.grading.classes.batch import new_seed

    seeds = {new_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert {len(seed) for seed in seeds} == {32}


@attempts(19)
def test_threat_19_tracebacks(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert "7f3a" not in verdict.to_json()
    assert "input" not in verdict.first_reason()


@attempts(20)
def test_threat_20_sending_it_out(attempt, threat_course, protecting):
    """What becomes of other files beside the notebook: test_grading_nbgrader.py."""
    holds(attempt, threat_course, protecting)
    for name in (attempt.name, control(attempt).name):
        rebuilt = threat_course.root / "rebuilt" / name / "host"
        files = {path.name for path in rebuilt.iterdir()}
        assert files == {"host.ipynb", "timestamp.txt", "submission_secret.txt"}
        assert "BEGIN HIDDEN" not in (rebuilt / "host.ipynb").read_text()
