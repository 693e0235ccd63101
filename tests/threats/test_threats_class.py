"""Rows 66 to 68 and 72 of the list of threats: one submission against the class."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from functools import partial

import nbformat
import pytest
from rich.console import Console

from gpucourse.grading.classes import classroom, report
from gpucourse.grading.classes.classroom import Classroom
from gpucourse.grading.oracle.grader import grade
from gpucourse.grading.verdict import INFRASTRUCTURE_FAULT
from threats import Attempt, Course, each_attempt, holds
from threats_class import ATTEMPTS

pytest_plugins = ("threats_fixtures",)

pytestmark = pytest.mark.rehearsal

# What ingest may take of the trusted process: Python and nbformat alone take 0.1 GB.
MEGABYTES, SECONDS = 500, 20
# The peak as proc(5) has it: that of getrusage() begins with the parent's.
INGEST = """import json, re, resource, sys, time
from pathlib import Path
from gpucourse.grading.submission.assignment import Assignment
from gpucourse.grading.submission.ingest import ingest_file
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
assignment = Assignment.load(Path(sys.argv[1]))
began = time.process_time()
ingested = ingest_file(Path(sys.argv[2]), assignment)
seconds = time.process_time() - began
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(json.dumps([seconds, int(peak) / 1024,
                  len(json.dumps(ingested.strays))]))
"""
UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


attempts = partial(each_attempt, ATTEMPTS)


def ingested_with_a_classmate(course: Course, attempt: Attempt) -> dict:
    """Jobs by student, of a class in which an honest classmate comes later."""
    course.hand_in(attempt)
    course.hand_in(Attempt(0, "z-honest", ""))
    jobs = course.classroom.ingest("host", [attempt.name, "z-honest"])
    return {job.student: job for job in jobs}


@attempts(66)
def test_threat_66_a_name_that_is_not_utf_8(attempt, threat_course, server):
    jobs = ingested_with_a_classmate(threat_course, attempt)
    assert jobs["z-honest"].ingested.fault is None
    holds(attempt, threat_course, server)


def test_threat_66_whatever_stops_one_submission_leaves_the_others(tmp_path, server, monkeypatch):
    """A fault that nobody thought of: the grader's, with the name of who met it."""
    course = Course(tmp_path / "course")
    whole = classroom.ingest_file

    def stumbles(path, *rest):
        if "a-stumbles" in path.parts:
            raise LookupError("never thought of")
        return whole(path, *rest)

    monkeypatch.setattr(classroom, "ingest_file", stumbles)
    jobs = ingested_with_a_classmate(course, Attempt(66, "a-stumbles", ""))
    assert jobs["z-honest"].ingested.fault is None
    job = jobs["a-stumbles"]
    verdict = grade(job.assignment, job.ingested, server, "00" * 16)
    assert verdict.kind == INFRASTRUCTURE_FAULT and verdict.earned is None
    assert "LookupError: never thought of" in verdict.reason
    assert Classroom(course.root).missing("host", [job]) == [job]


@attempts(67)
def test_threat_67_times_that_no_parser_expects(attempt, threat_course, server):
    jobs = ingested_with_a_classmate(threat_course, attempt)
    assert jobs["z-honest"].ingested.fault is None
    holds(attempt, threat_course, server)
    time = threat_course.root / "rebuilt" / attempt.name / "host" / "timestamp.txt"
    assert time.read_text() == ""  # which nbgrader reads as no time


@attempts(68)
def test_threat_68_megabytes_for_the_trusted_process(attempt, threat_course, request):
    path = threat_course.hand_in(attempt)
    source = threat_course.root / "source" / "host" / "host.ipynb"
    ran = subprocess.run(
        [sys.executable, "-c", INGEST, str(source), str(path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    seconds, megabytes, strays = json.loads(ran.stdout)
    assert (megabytes < MEGABYTES, seconds < SECONDS, strays < 200_000) == (True,) * 3, ran.stdout
    holds(attempt, threat_course, request.getfixturevalue("server"))


@attempts(72)
def test_threat_72_text_that_acts_on_a_terminal(attempt, threat_course, server):
    verdict = holds(attempt, threat_course, server)
    console = Console(record=True, width=200, file=io.StringIO())
    report.show(attempt.assignment, [verdict], console)
    rebuilt = nbformat.read(
        threat_course.root
        / "rebuilt"
        / attempt.name
        / attempt.assignment
        / f"{attempt.assignment}.ipynb",
        as_version=4,
    )
    shown = [
        verdict.to_json(),
        console.export_text(),
        report.as_csv([verdict]),
        *(cell.source for cell in rebuilt.cells if cell.cell_type == "markdown"),
    ]
    assert not [character for text in shown for character in UNSHOWABLE.findall(text)]
    # Where JSON would write them as numbers.
    assert not re.search(r"\\u[0-9a-f]{4}", verdict.to_json())
