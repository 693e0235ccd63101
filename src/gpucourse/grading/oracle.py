"""The trusted side: hidden tests, secret seed, expected answers, and the device itself.

One submission is graded by :func:`grade` in a process of its own. Test cells run here, in the
oracle's own namespace; the student's side is reached through the two verbs alone.
"""

from __future__ import annotations

import contextlib
import io
import signal
import time
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

import virtualgpu
from gpucourse.grading import cells, verbs
from gpucourse.grading.arguments import (
    array_parameters,
    describe_type,
    parameter_sizes,
    scalar_parameter,
)
from gpucourse.grading.assignment import SETUP, Assignment, AssignmentCell
from gpucourse.grading.ingest import Ingested
from gpucourse.grading.limits import Limits
from gpucourse.grading.sandbox import ForkServer, SandboxError
from gpucourse.grading.student import TOO_LONG, Student
from gpucourse.grading.verbs import Launched, PropertyFailed, seed_words
from gpucourse.grading.verdict import (
    GRADED,
    INFRASTRUCTURE_FAULT,
    STUDENT_FAULT,
    TestOutcome,
    Verdict,
    clamp,
)
from gpucourse.grading.watching import (
    NOT_ON_DEVICE,
    ORDER_MATTERS,
    InfrastructureFault,
    OutOfTestTime,
    agree,
    explain,
    machine_at_work,
    new_device,
    watched,
)
from virtualgpu import errors, sources
from virtualgpu.device import VirtualDevice


class OracleJudge:
    """Stands behind the verbs while test cells run.

    Parameters
    ----------
    seed
        The run's secret, as hexadecimal text.
    """

    def __init__(self, student: Student, seed: str, limits: Limits) -> None:
        self.student = student
        self.secret = bytes.fromhex(seed)
        self.limits = limits
        self.launched: list[Launched] = []
        self.cell = ""
        self._draws = 0
        self._device = new_device(limits)
        self._kernels: dict[tuple, tuple] = {}

    def begin(self, cell: str) -> None:
        """The next test cell: its own randomness."""
        self.cell = cell
        self._draws = 0
        self.launched = []

    def seed(self, name: str) -> np.ndarray:
        return seed_words(self.secret, self.cell.encode(), name.encode())

    def _schedule_seed(self) -> int:
        self._draws += 1
        words = seed_words(self.secret, self.cell.encode(), b"schedule %d" % self._draws)
        return int(words[0])

    # -- calls ---------------------------------------------------------------------------------

    def call(self, name: str, args: tuple, *, where: str, schedules: int) -> object:
        if where not in ("device", "host"):
            raise ValueError(f"where is 'device' or 'host', not {where!r}")
        with virtualgpu.check() as report, virtualgpu.profile() as profile:
            result = self.student.call(name, args)
        counters = [launch.counters for launch in profile.launches]
        self.launched = [
            Launched(*launched, counted)
            for launched, counted in zip_longest(self.student.service.launched, counters)
        ]
        if not report.ok:
            raise PropertyFailed(f"'{name}': {report.findings[0].message}")
        if where == "device" and not self.student.service.came_from_device(result):
            raise PropertyFailed(NOT_ON_DEVICE.format(name=name))
        for _ in range(schedules if self.launched else 0):
            with virtualgpu.schedule(self._schedule_seed()):
                again = self.student.call(name, args)
            if not agree(result, again):
                raise PropertyFailed(f"'{name}': {ORDER_MATTERS}")
        return result

    def operations(self, name: str, args: tuple, *, static: tuple) -> dict[str, int]:
        return self.student.operations(name, args, static)

    # -- launches ------------------------------------------------------------------------------

    def launch(self, name, grid, block, args, *, shared, schedules) -> Launched:
        module, entry, cooperative = self._kernel(name, args)

        def run(arguments: list) -> None:
            self._run(module, entry, grid, block, arguments, shared, cooperative)

        counters = watched(run, name, args, schedules, self._schedule_seed())
        launched = Launched(name, grid, block, counters)
        self.launched = [launched]
        return launched

    def _kernel(self, name: str, args: tuple) -> tuple:
        """The student's kernel, compiled for `args` and loaded; refused unless it fits them."""
        types = [describe_type(value) for value in args]
        key = (name, *((str(t["dtype"]), t["ndim"]) for t in types))
        if key not in self._kernels:
            compiled = self.student.compile(name, types)
            try:
                with machine_at_work():
                    module = self._device.load(compiled["texts"], {compiled["entry"]: name})
                    module.program(compiled["entry"])
                function = module.function(compiled["entry"])
            except errors.VirtualGPUError as error:
                raise explain(error, name) from None
            given = [parameter.size for parameter in function.parameters]
            wanted = [size for described in types for size in parameter_sizes(described)]
            if given != wanted:
                raise PropertyFailed(
                    f"the kernel '{name}' takes other arguments than the ones it was compiled for"
                )
            self._kernels[key] = module, compiled["entry"], compiled["cooperative"] is True
        return self._kernels[key]

    def _run(self, module, entry, grid, block, arguments, shared, cooperative) -> None:
        """One launch on fresh memory; arrays in `arguments` are updated in place."""
        device = self._device
        addresses: list[int] = []
        parameters: list[bytes] = []
        arrays: list[tuple[int, np.ndarray]] = []
        try:
            for value in arguments:
                if isinstance(value, np.ndarray):
                    array = np.ascontiguousarray(value)
                    address = device.allocate(array.nbytes) if array.nbytes else 0
                    if array.nbytes:
                        addresses.append(address)
                        device.write(address, array)
                        arrays.append((address, value))
                    parameters += array_parameters(array, address)
                else:
                    parameters.append(scalar_parameter(value))
            with machine_at_work():
                device.launch(module, entry, grid, block, parameters, shared, cooperative)
                device.synchronize()
            for address, value in arrays:
                value[...] = device.read(address, value.nbytes).view(value.dtype).reshape(
                    value.shape)
        finally:
            for address in addresses:
                device.free(address)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTestTime in the main thread after `seconds`."""

    def ring(*_) -> None:
        raise OutOfTestTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def grade(assignment: Assignment, ingested: Ingested, server: ForkServer, seed: str,
          limits: Limits | None = None) -> Verdict:
    """Run every test of one submission. Never raises for anything that the student did."""
    limits = limits or server.limits
    began = time.monotonic()
    verdict = Verdict(
        GRADED, assignment.name, seed=seed, notices=list(ingested.notices),
        submission_digest=ingested.digest(assignment), assignment_digest=assignment.digest,
        isolation=server.level, device=VirtualDevice.name,
    )
    if (reason := nothing_to_grade(assignment, ingested)) is not None:
        verdict.kind, verdict.reason = STUDENT_FAULT, reason
        verdict.tests = [TestOutcome(cell.grade_id, cell.points, reason=reason)
                         for cell in assignment.tests]
        return verdict
    virtualgpu.activate(force=True)
    sources.register_namer(cells.namer)
    student = Student(assignment, ingested, server, limits, began + limits.total_seconds)
    judge = OracleJudge(student, seed, limits)
    verbs.use_judge(judge)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            setup = run_setup(assignment)
            for cell in assignment.tests:
                verdict.tests.append(run_test(cell, setup, judge, limits))
    except (InfrastructureFault, SandboxError) as fault:
        verdict.kind, verdict.reason, verdict.tests = INFRASTRUCTURE_FAULT, str(fault), []
    finally:
        verbs.use_judge(None)
        student.close()
    verdict.notices += student.notices
    verdict.notices += [f"The cell '{cell}': {reason}" for cell, reason in student.broken.items()]
    verdict.seconds = round(time.monotonic() - began, 3)
    return verdict


def nothing_to_grade(assignment: Assignment, ingested: Ingested) -> str | None:
    """Why a submission needs no run, in words for the student; None if it needs one."""
    if ingested.fault:
        return ingested.fault
    code = [cell for cell in assignment.solutions if cell.cell_type == "code"]
    if code and len(ingested.unchanged(assignment)) == len(code):
        return ("There is no solution in this notebook: every answer cell is as it was released. "
                "Was it saved before it was submitted?")
    return None


def run_setup(assignment: Assignment) -> dict:
    """The namespace that every test cell starts from."""
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


def run_test(cell: AssignmentCell, setup: dict, judge: OracleJudge, limits: Limits) -> TestOutcome:
    """One test cell, in a copy of the set-up's namespace."""
    began = time.monotonic()
    outcome = TestOutcome(cell.grade_id, cell.points)
    judge.begin(cell.grade_id)
    remaining = judge.student.total_deadline - began
    try:
        if remaining <= 0:
            raise PropertyFailed(TOO_LONG)
        with time_limit(min(limits.test_seconds, remaining)):
            score = cells.run(cell.source, cell.grade_id, dict(setup))
        number = isinstance(score, (int, float, np.number)) and not isinstance(score, bool)
        outcome.earned = clamp(score, cell.points) if number else cell.points
        if not outcome.passed:
            outcome.reason = f"{outcome.earned:g} of {cell.points:g} points"
    except PropertyFailed as failed:
        outcome.reason = failed.reason
    except AssertionError as failed:
        outcome.reason = assertion_text(failed)
    except OutOfTestTime:
        outcome.reason = TOO_LONG if remaining <= limits.test_seconds else (
            f"never finishes: this test took longer than {limits.test_seconds:g} s on the virtual "
            "GPU")
    except (SandboxError, InfrastructureFault):
        raise
    except Exception as error:
        place = cells.line_of(error)
        raise InfrastructureFault(
            f"the course's test '{cell.grade_id}' fails in the grader"
            f"{f' (line {place[1]})' if place else ''}: {type(error).__name__}: {error}"
        ) from error
    outcome.seconds = round(time.monotonic() - began, 3)
    return outcome


def assertion_text(error: AssertionError) -> str:
    """The text of a plain ``assert``. numpy.testing's, which show values, are not passed on."""
    text = str(error).strip()
    if not text or "\n" in text or len(text) > 300:
        return "a check of this test does not hold"
    return text
