"""Rows 69, 70, 73, 74 and 80 of the threats: what the student's process answers and takes."""

from __future__ import annotations

import multiprocessing
import re
import resource
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gpucourse.grading.classes.batch import Job
from gpucourse.grading.commands.grade_class import repeated
from gpucourse.grading.verdict import GRADED, Verdict
from threats import (
    SEED,
    Attempt,
    assert_as_told,
    each_attempt,
    holds,
    honest_work_is_unharmed,
)
from threats_replies import ATTEMPTS

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal

# What an attempt may add to the memory of the process that judges it; one that may succeed is
# stopped at the second.
MEGABYTES, STOP = 1500, 6000


attempts = partial(each_attempt, ATTEMPTS)


def private_bytes() -> int:
    """What this process has mapped for itself: of it RLIMIT_DATA is a bound."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmData:\s+(\d+) kB", status)[1]) << 10


def measured(connection, attempt, course, server) -> None:
    """Grade in this process; send the verdict's JSON and what was added to its memory, in MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most = private_bytes() + (STOP << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        text = course.grade(attempt, server).to_json()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection.send((text, (after - before) / 1024))


@attempts(69)
def test_threat_69_memory_that_no_limit_counts(attempt, threat_course, protecting):
    holds(attempt, threat_course, protecting)


@attempts(70, ["kept-reads", "many-claims"])
def test_threat_70_claims_and_copies_that_are_kept(attempt, threat_course, server):
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=measured, args=(theirs, attempt, threat_course, server))
    process.start()
    text, megabytes = ours.recv() if ours.poll(300) else ("no answer", 0.0)
    process.join(10)
    assert megabytes < MEGABYTES, (megabytes, text)
    verdict = Verdict.from_json(text)
    assert verdict.kind == GRADED, text
    assert_as_told(attempt, verdict)
    honest_work_is_unharmed(attempt, threat_course, server)


@attempts(73)
def test_threat_73_replies_that_nobody_expects(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    assert verdict.kind == GRADED
    assert Verdict.from_json(verdict.to_json().encode().decode()).earned == verdict.earned


@attempts(74)
def test_threat_74_hidden_inputs_told(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    for word in ("7f3a", "told"):
        assert word not in verdict.to_json().replace(attempt.name, "").replace("not told", "")


def test_threat_74_an_honest_mistake_is_still_named(threat_course, server):
    """A name that stands on the line, or in a cell that is not graded."""
    verdict = threat_course.grade(
        Attempt(
            74,
            "honest-mistake",
            "",
            {"double": "def double(values):\n    return helper_7f3a(values)\n"},
        ),
        server,
    )
    assert verdict.first_reason().startswith("'helper_7f3a' is not defined")
    assert "line 2" in verdict.first_reason()


def test_threat_75_changed_work_gets_another_seed(threat_course, server):
    """`gpucourse regrade` repeats a seed for identical work only."""
    job = threat_course.ingest(Attempt(74, "again", ""))
    digest = job.ingested.digest(job.assignment)
    stored = Verdict(GRADED, "host", seed=SEED, submission_digest=digest)
    assert repeated(job, stored) == replace(job, seed=SEED)
    changed = threat_course.ingest(Attempt(74, "again", "", {"double": "double = 2"}))
    assert repeated(changed, stored) == Job(job.student, job.source, changed.ingested)


@attempts(80)
def test_threat_80_accesses_that_no_checker_hears(attempt, threat_course, server):
    """More of it: packages/virtualgpu/tests/observers/test_constants.py."""
    holds(attempt, threat_course, server)
