"""Run of the hidden tests on one submission.

:func:`grade` grades one submission, in a process that grades nothing else. Test cells run here, in
the oracle's own namespace, and reach the student's code only through the functions of
:mod:`gpucourse.grading.testing.verbs`.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback

import numpy as np

import virtualgpu
from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime, PropertyFailed
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import fault_reasons
from gpucourse.grading.oracle.clocks import SubmissionClock
from gpucourse.grading.oracle.conversation import TOO_LONG
from gpucourse.grading.oracle.judge import OracleJudge
from gpucourse.grading.oracle.student import Student
from gpucourse.grading.oracle.words_heard import NOT_HELD
from gpucourse.grading.sandbox import cells
from gpucourse.grading.sandbox.file_system import SandboxError
from gpucourse.grading.sandbox.levels import ForkServer
from gpucourse.grading.submission.assignment import SETUP, SOLUTION, Assignment, AssignmentCell
from gpucourse.grading.submission.ingest import Ingested
from gpucourse.grading.testing import verbs
from gpucourse.grading.verdict import (
    GRADED,
    INFRASTRUCTURE_FAULT,
    LONGEST,
    STUDENT_FAULT,
    TestOutcome,
    Verdict,
    clamp,
)
from gpucourse.wording import shortened
from virtualgpu.api import VirtualDevice

# Modules that work with a test's values, which may be results of a student's function.
REASON_SECONDS = 2.0
ASKED_BY_TESTS = ("gpucourse.grading.testing.verbs", "gpucourse.grading.arguments")


def grade(
    assignment: Assignment,
    ingested: Ingested,
    server: ForkServer,
    seed: str,
    limits: Limits | None = None,
    *,
    detailed: bool = False,
    last_attempt: bool = False,
) -> Verdict:
    """Run every test of one submission and return the verdict.

    Nothing that the student did raises an exception. `detailed` adds hidden values and the failed
    line of the test, for the instructor only. With `last_attempt`, the machine is no longer blamed
    for exceeded times.
    """
    limits = limits or server.limits
    began = time.monotonic()
    verdict = Verdict(
        GRADED,
        assignment.name,
        seed=seed,
        notices=list(ingested.notices),
        submission_digest=ingested.digest(assignment),
        assignment_digest=assignment.digest,
        isolation=server.level,
        device=VirtualDevice.name,
    )
    if ingested.failed:
        verdict.kind, verdict.reason = INFRASTRUCTURE_FAULT, ingested.failed
        return verdict
    if (reason := nothing_to_grade(assignment, ingested)) is not None:
        verdict.kind, verdict.reason = STUDENT_FAULT, reason
        verdict.tests = [
            TestOutcome(cell.grade_id, cell.points, reason=reason) for cell in assignment.tests
        ]
        return verdict
    if limits.gpu:
        from gpucourse.grading.oracle import checked_device

        try:
            verdict.device = checked_device.name()
        except InfrastructureFault as fault:
            verdict.kind, verdict.reason = INFRASTRUCTURE_FAULT, str(fault)
            return verdict
    virtualgpu.activate(force=True)
    known = frozenset(
        cell.grade_id for role in (SETUP, SOLUTION) for cell in assignment.having(role)
    )
    clock = SubmissionClock(limits, last_attempt=last_attempt)
    student = Student(assignment, ingested, server, limits, clock)
    judge = OracleJudge(student, seed, limits)
    verbs.use_judge(judge)
    try:
        # Discard what kernels print, because nobody reads it.
        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
            fault_reasons.naming(known),
        ):
            setup = run_setup(assignment)
            for cell in assignment.tests:
                verdict.tests.append(run_test(cell, setup, judge, limits, detailed))
    except (InfrastructureFault, SandboxError) as fault:
        verdict.kind, verdict.reason, verdict.tests = INFRASTRUCTURE_FAULT, str(fault), []
    finally:
        verbs.use_judge(None)
        judge.close()
    verdict.notices += student.notices
    verdict.notices += [f"The cell '{cell}': {reason}" for cell, reason in student.broken.items()]
    verdict.seconds = round(time.monotonic() - began, 3)
    return verdict


def nothing_to_grade(assignment: Assignment, ingested: Ingested) -> str | None:
    """Return the reason, for the student, why no test needs to run; otherwise None."""
    if ingested.fault:
        return ingested.fault
    code = [cell for cell in assignment.solutions if cell.cell_type == "code"]
    if code and len(ingested.unchanged(assignment)) == len(code):
        return (
            "There is no solution in this notebook: every answer cell is as it was released. "
            "Save the notebook after you have written your answers."
        )
    return None


def run_setup(assignment: Assignment) -> dict:
    """Return the namespace with which every test cell starts."""
    namespace: dict = {"__name__": "__main__"}
    for cell in assignment.having(SETUP):
        try:
            cells.run(cell.source, cell.grade_id, namespace)
        except Exception as error:
            raise InfrastructureFault(
                f"the course's set-up cell '{cell.grade_id}' fails in the grader: "
                f"{type(error).__name__}: {error}"
            ) from error
    return namespace


def run_test(
    cell: AssignmentCell, setup: dict, judge: OracleJudge, limits: Limits, detailed: bool = False
) -> TestOutcome:
    """Run one test cell in a copy of the set-up's namespace."""
    began = time.monotonic()
    outcome = TestOutcome(cell.grade_id, cell.points)
    judge.begin(cell.grade_id)
    judge.student.heard.forget()
    clock = judge.student.clock
    remaining = clock.left
    try:
        if remaining <= 0:
            raise PropertyFailed(TOO_LONG)
        judge.student.ready(min(limits.test_seconds, remaining))
        remaining = clock.left
        with clock.limit(min(limits.test_seconds, remaining)):
            score = cells.run(cell.source, cell.grade_id, dict(setup))
        number = isinstance(score, (int, float, np.number)) and not isinstance(score, bool)
        outcome.earned = clamp(score, cell.points) if number else cell.points
        if not outcome.passed:
            outcome.reason = f"{outcome.earned:g} of {cell.points:g} points" + (
                f": {judge.remark}" if judge.remark else ""
            )
    except AssertionError as failed:
        outcome.reason = (
            failed.reason if isinstance(failed, PropertyFailed) else (assertion_text(failed))
        )
        if detailed:
            outcome.detail = detail_of(failed, cell)
    except OutOfTestTime:
        outcome.reason = (
            TOO_LONG
            if remaining <= limits.test_seconds or clock.left <= 0
            else (
                f"never finishes: this test took longer than {limits.test_seconds:g} s on the "
                f"virtual "
                "GPU"
            )
        )
    except (SandboxError, InfrastructureFault):
        raise
    except Exception as error:
        if not reference_passes(cell, setup, judge, limits, error):
            place = cells.line_of(error)
            raise InfrastructureFault(
                f"the course's test '{cell.grade_id}' fails in the grader"
                f"{f' (line {place[1]})' if place else ''}: {type(error).__name__}: {error}"
            ) from error
        outcome.reason = (
            "needs more memory than a test may use"
            if (isinstance(error, MemoryError))
            else (
                "this test cannot work with the result "
                f"({type(error).__name__}): check its type, and how many values it has"
            )
        )
        if detailed:
            outcome.detail = detail_of(error, cell)
    try:
        # The submission made the strings that are searched for, so limit the time of the search.
        with clock.limit(REASON_SECONDS):
            outcome.reason = judge.student.heard.told(shortened(outcome.reason, LONGEST))
    except OutOfTestTime:
        outcome.reason = NOT_HELD
    outcome.near = judge.near
    outcome.seconds = round(time.monotonic() - began, 3)
    return outcome


def reference_passes(
    cell: AssignmentCell, setup: dict, judge: OracleJudge, limits: Limits, error: Exception
) -> bool:
    """Return True if the reference solution passes a test that raised `error` for an answer.

    In that case the answer is at fault, for example because it returned a string where the test
    computes with a number, or because it was too large. An error that was raised in the grader's
    own code is the grader's fault, whatever the reference solution does.
    """
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "")
    if (
        module.split(".")[0] in ("gpucourse", "virtualgpu")
        and module not in ASKED_BY_TESTS
        and not isinstance(error, MemoryError)
    ):
        return False
    # The test's copies of the answer's results may be large and are no longer needed.
    traceback.clear_frames(error.__traceback__)
    judge.begin(cell.grade_id)
    try:
        with judge.reference(), judge.student.clock.limit(limits.test_seconds):
            cells.run(cell.source, cell.grade_id, dict(setup))
    except Exception:
        return False
    return True


def detail_of(error: BaseException, cell: AssignmentCell) -> str:
    """Return the line of the hidden test that failed, and its values."""
    place = cells.line_of(error)
    lines = cell.source.splitlines()
    where = ""
    if place and place[0] == cell.grade_id and 0 < place[1] <= len(lines):
        where = f"line {place[1]}: {lines[place[1] - 1].strip()}"
    values = getattr(error, "detail", "") or (
        "" if isinstance(error, PropertyFailed) else f"{type(error).__name__}: {error}"
    )
    return "\n".join(part for part in (where, values) if part)


def assertion_text(error: AssertionError) -> str:
    """Return the message of a plain ``assert``, but not of numpy.testing, which shows values."""
    text = str(error).strip()
    if not text or "\n" in text or len(text) > 300:
        return "a check of this test does not hold"
    return text
