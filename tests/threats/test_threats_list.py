"""The list of threats as a whole: every row has a test, the published table is the measured one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import threats_answers
import threats_class
import threats_files
import threats_kernels
import threats_neighbours
import threats_replies
import threats_time
import threats_verdict

# 65 is tried in a browser: what happens in one is no matter of points.
IN_A_BROWSER = 65
ROWS = [*range(1, 75), 80]
# These are no submissions that could win points in the small course of this folder: they are about
# the grader's seeds, its limits, JAX, right answers, or single exercises of the projects.
NO_ATTEMPTS = [
    75,
    76,
    77,
    78,
    79,
    81,
    82,
    83,
    84,
    85,
    86,
    90,
    91,
    92,
    93,
    94,
    95,
    96,
    # What honest work meets, and what stops a class.
    87,
    88,
    89,
    97,
    98,
    99,
    100,
    # What a launch's time tells.
    101,
]
ATTEMPTS = [
    attempt
    for module in (
        threats_verdict,
        threats_answers,
        threats_neighbours,
        threats_files,
        threats_kernels,
        threats_class,
        threats_replies,
        threats_time,
    )
    for attempt in module.ATTEMPTS
]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_a_test_named_for_it_and_an_attempt(row):
    here = Path(__file__).parent
    paths = [
        *here.glob("test_threats_*.py"),
        here.parent / "browser" / "test_browser_formgrader.py",
    ]
    tests = "".join(path.read_text() for path in paths)
    assert re.search(rf"^def test_threat_{row:02}_\w+\(", tests, re.MULTILINE)
    assert row == IN_A_BROWSER or any(attempt.row == row for attempt in ATTEMPTS)


@pytest.mark.parametrize("row", NO_ATTEMPTS)
def test_every_row_without_an_attempt_has_a_test_named_for_it(row, repository):
    paths = [
        *Path(__file__).parent.glob("test_threats_*.py"),
        *repository.glob("packages/gpucourse/tests/grading/test_grading_*.py"),
    ]
    tests = "".join(path.read_text() for path in paths)
    assert re.search(rf"^def test_threat_{row}_\w+\(", tests, re.MULTILINE)


def test_the_list_is_whole():
    assert sorted([*ROWS, *NO_ATTEMPTS]) == [*range(1, 102)]


def test_names_are_students_of_their_own():
    names = [attempt.name for attempt in ATTEMPTS]
    assert len(set(names)) == len(names)


def test_the_table_of_the_documentation_is_made_from_the_results(repository):
    """And from results of the attempts that there are."""
    results = repository / "lab" / "results" / "grader_threats.json"
    rows = json.loads(results.read_text())["results"]["rows"]
    assert [row["name"].split("-", 1)[1] for row in rows] == [a.name for a in ATTEMPTS]
    assert all(row["ours"]["as expected"] for row in rows)
    ran = subprocess.run(
        [sys.executable, "-m", "lab.evidence.grader_threats", "--check"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document = (repository / "docs" / "grader.md").read_text()
    assert f"{len(ATTEMPTS)} submissions" in document
