"""A sample of the grader's long checks; ``make evidence`` runs them in full."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.rehearsal


def run(repository, module: str, *options: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", f"lab.evidence.{module}", *options],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_a_killed_grader_loses_nothing_and_grades_nothing_twice(repository):
    """Six submissions, killed once while they are graded, then gone on with."""
    said = run(repository, "grader_kills", "--kills", "1", "--count", "6", "--only", "grader")
    assert "kill 1:" in said
    assert "'lost': 0, 'graded twice': 0" in said
