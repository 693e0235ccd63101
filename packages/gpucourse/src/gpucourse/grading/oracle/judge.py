"""Judge for test cells in the grader: student code in a worker, the device in this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

import virtualgpu
from gpucourse.grading.arguments import describe_type, parameter_sizes, scalar_parameter
from gpucourse.grading.contract import (
    Call,
    InfrastructureFault,
    Launch,
    Launched,
    OutOfTestTime,
    PropertyFailed,
    seed_words,
)
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import fault_reasons
from gpucourse.grading.oracle.clocks import SubmissionClock, resident_bytes
from gpucourse.grading.oracle.conversation import Conversation
from gpucourse.grading.oracle.cuda_source import compile_source
from gpucourse.grading.oracle.devices import new_device
from gpucourse.grading.oracle.jax_runner import JaxProgram, JaxRunner
from gpucourse.grading.oracle.provenance import NotMade
from gpucourse.grading.oracle.student import Student
from gpucourse.grading.submission.ingest import Ingested
from gpucourse.grading.testing import economy
from gpucourse.grading.testing.judge import Judge
from gpucourse.grading.testing.watching import (
    DIFFERS,
    NOT_AS_IT_IS,
    NOT_HANDED_OVER,
    NOT_ON_DEVICE,
    agree,
    explain,
    machine_at_work,
    watched,
)
from gpucourse.judging.exchange import Exchange
from gpucourse.judging.orders import checked, order_matters
from virtualgpu import errors
from virtualgpu.api import MachineArray, awkward_parameters, is_awkward


class _Side:
    """A solution, the student's or the reference, with its workers and its device."""

    def __init__(self, student: Student, limits: Limits) -> None:
        self.student = student
        # The worker of this conversation runs no student's code, only traced programs and the
        # compiler.
        self.apart = Conversation(student.server, limits, student.clock)
        self.runner = JaxRunner(self.apart)
        self.device = new_device(limits)
        self.kernels: dict[tuple, tuple] = {}

    def close(self) -> None:
        self.student.close()
        self.apart.close()


class OracleJudge(Judge):
    """Implementation of the test functions while the grader runs test cells.

    Parameters
    ----------
    seed
        The run's secret in hexadecimal.
    """

    def __init__(self, student: Student, seed: str, limits: Limits) -> None:
        super().__init__()
        self._side = _Side(student, limits)
        self.secret = bytes.fromhex(seed)
        self.limits = limits
        self.cell = ""
        # Reason for points that were lost although no check failed.
        self.remark = ""
        # For the instructor: the limit that a correct answer nearly exceeded.
        self.near = ""
        self._draws = 0
        self._reference: _Side | None = None
        self._programs: dict[tuple, JaxProgram] = {}

    @property
    def student(self) -> Student:
        """Return the solution under test: the student's, or temporarily the reference solution."""
        return self._side.student

    def begin(self, cell: str) -> None:
        """Begin the next test cell, with separate random numbers."""
        self.cell = cell
        self.student.begin(cell)
        self._draws = 0
        self.launched = []
        self.remark = self.near = ""
        self._programs.clear()

    def close(self) -> None:
        """End the workers."""
        self._side.close()
        if self._reference is not None:
            self._reference.close()

    def seed(self, name: str) -> np.ndarray:
        return seed_words(self.secret, self.cell.encode(), name.encode())

    def came_near(self, what: str) -> None:
        self.near = self.near or what

    def _schedule_seed(self) -> int:
        self._draws += 1
        words = seed_words(self.secret, self.cell.encode(), b"schedule %d" % self._draws)
        return int(words[0])

    # -- the reference solution ----------------------------------------------------------------

    @contextlib.contextmanager
    def reference(self) -> Iterator[None]:
        """Make the test functions use the reference solution instead of the student's.

        It has separate workers, a separate device and a separate clock, so that it cannot fail
        because of resources that an answer has used up.
        """
        own = self.student
        if self._reference is None:
            answers = {cell.grade_id: cell.source for cell in own.assignment.solutions}
            self._reference = _Side(
                Student(
                    own.assignment,
                    Ingested(answers),
                    own.server,
                    self.limits,
                    SubmissionClock(self.limits),
                ),
                self.limits,
            )
        before = self._side, self.launched, self._draws
        self._side = self._reference
        self.student.clock.restart(resident_bytes())
        self.student.heard.forget()
        try:
            with own.clock.aside():
                yield
        finally:
            self._side, self.launched, self._draws = before
            # Both define cells of the same names, and messages must quote the student's.
            self.student.remember()

    def economy(self, work: Callable[[], object], bounds: dict) -> float:
        """See :func:`gpucourse.grading.testing.verbs.economy`."""
        unknown = set(bounds) - set(economy.COUNTS)
        if unknown:
            raise InfrastructureFault(
                f"economy() counts {', '.join(economy.COUNTS)}, not {', '.join(sorted(unknown))}"
            )
        work()
        answer = self.launched
        with self.reference():
            try:
                with self.student.clock.limit(self.limits.test_seconds):
                    work()
            except (PropertyFailed, OutOfTestTime, MemoryError) as failed:
                why = failed.reason if isinstance(failed, PropertyFailed) else repr(failed)
                raise InfrastructureFault(
                    f"the reference solution fails in '{self.cell}': {why}"
                ) from None
            best = self.launched
        share, self.remark = economy.earned_share(answer, best, bounds)
        return share

    # -- calls ---------------------------------------------------------------------------------

    def call(self, asked: Call) -> object:
        name, exchanged = asked.name, asked.exchanged
        if asked.where == "jax":
            given = [
                np.asarray(value)
                for number, value in enumerate(asked.args)
                if number not in asked.static
            ]
            found = self._side.runner.run(self._program(asked), given, asked.squeezed)
            self.student.heard.note(found)
            return found
        # Run the cells first, because they may contain launches, which must not be counted.
        self.student.ready()
        first = Exchange(room=self.limits.array_bytes)
        if exchanged:
            self.student.call(name, asked.args, first)
        exchange = Exchange()

        def once() -> object:
            nonlocal exchange
            exchange = Exchange(exchanged, first.heard)
            return self.student.call(name, asked.args, exchange)

        def left_by_kernels(result: object) -> object:
            """Return the result as it is on the device; see :mod:`.provenance`."""
            if asked.where == "host":
                return result
            assert self.student.service is not None
            try:
                return self.student.service.left_by_kernels(result)
            except NotMade:
                raise PropertyFailed(NOT_ON_DEVICE.format(name=name)) from None

        with virtualgpu.profile() as profile:
            result, found, orderless = checked(once)
        service = self.student.service
        assert service is not None  # it answered the call
        # Use the counters of the last call; an earlier attempt that failed may have launched too.
        counters = [launch.counters for launch in profile.launches][-len(service.launched) :]
        self.launched = [
            Launched(kernel, grid, block, counted)
            for (kernel, grid, block), counted in zip_longest(
                service.launched, counters if service.launched else ()
            )
        ]
        if found is not None:
            raise PropertyFailed(f"'{name}': {found.message}")
        there = left_by_kernels(result)
        if exchanged and not exchange.done:
            raise PropertyFailed(
                (NOT_AS_IT_IS if exchange.as_many else NOT_HANDED_OVER).format(name=name)
            )
        seeds = (self._schedule_seed() for _ in range(asked.schedules if self.launched else 0))
        if order_matters(lambda: left_by_kernels(once()), there, seeds, agree, orderless):
            raise PropertyFailed(f"'{name}': {DIFFERS[orderless]}")
        return there

    def operations(self, asked: Call, elements: str) -> dict[str, int]:
        return self._side.runner.operations(self._program(asked), elements)

    def _program(self, asked: Call) -> JaxProgram:
        """Return JAX's program; within a test, the same types are traced only once.

        The counted program is therefore the one that runs.
        """
        name, args, static = asked.name, asked.args, asked.static
        types = [
            repr(value) if number in static else (np.shape(value), np.asarray(value).dtype.str)
            for number, value in enumerate(args)
        ]
        key = self.student, name, static, *types
        if key not in self._programs:
            self._programs[key] = self.student.trace(name, args, static)
        return self._programs[key]

    # -- launches ------------------------------------------------------------------------------

    def launch(self, asked: Launch) -> Launched:
        module, entry, cooperative = self._kernel(asked.kernel, asked.args)
        return self._watched(
            asked, lambda arguments: self._run(module, entry, asked, arguments, cooperative)
        )

    def launch_source(self, source: str, asked: Launch) -> Launched:
        module = self._module(source, asked.kernel, len(asked.args))
        try:
            return self._watched(
                asked,
                lambda arguments: self._run(module, asked.kernel, asked, arguments, pointers=True),
            )
        finally:
            self._side.device.unload(module)  # its variables take memory of the device

    def _watched(self, asked: Launch, run: Callable[[list], None]) -> Launched:
        seed = self._schedule_seed()
        return self.note(asked, watched(run, asked.kernel, asked.args, asked.schedules, seed))

    def _module(self, source: str, kernel: str, pointers: int) -> Any:
        """Compile CUDA C++ to a module whose `kernel` takes this number of pointers."""
        ptx = compile_source(
            self._side.apart, source, kernel, self.limits, told=not self.student.knows_inputs
        )
        try:
            with fault_reasons.quietly(lambda: self.student.knows_inputs), machine_at_work():
                module = self._side.device.load([ptx], {kernel: kernel})
                function = module.function(kernel)
                if function is not None:
                    module.program(kernel)
        except errors.VirtualGPUError as error:
            raise explain(error, kernel) from None
        if function is None:
            raise PropertyFailed(f"the source has no kernel '{kernel}': declare it extern \"C\"")
        if [parameter.size for parameter in function.parameters] != [8] * pointers:
            raise PropertyFailed(
                f"the kernel '{kernel}' must take {pointers} pointers: one "
                "for each array, constants first, outputs last"
            )
        return module

    def _kernel(self, name: str, args: tuple) -> tuple:
        """Compile and load the student's kernel; raise PropertyFailed unless it fits `args`."""
        types = [describe_type(value) for value in args]
        key = (name, json.dumps(types))
        if key not in self._side.kernels:
            compiled = self.student.compile(name, types)
            try:
                with fault_reasons.quietly(lambda: self.student.knows_inputs), machine_at_work():
                    module = self._side.device.load(compiled["texts"], {compiled["entry"]: name})
                    module.program(compiled["entry"])
                function = module.function(compiled["entry"])
            except errors.VirtualGPUError as error:
                raise explain(error, name) from None
            assert function is not None  # otherwise there would be no program
            given = [parameter.size for parameter in function.parameters]
            wanted = [size for described in types for size in parameter_sizes(described)]
            if given != wanted:
                raise PropertyFailed(
                    f"the kernel '{name}' takes different arguments from those it was compiled for"
                )
            self._side.kernels[key] = module, compiled["entry"], compiled.get("cooperative") is True
        return self._side.kernels[key]

    def _run(
        self,
        module: Any,
        entry: str,
        asked: Launch,
        arguments: list,
        cooperative: bool = False,
        pointers: bool = False,
    ) -> None:
        """Launch once on fresh memory, and update the arrays in `arguments` in place.

        With `pointers`, an array is passed as its address only, as in C++.
        """
        device = self._side.device
        parameters: list[bytes] = []
        stored: list[MachineArray] = []
        arrays: list[tuple[np.ndarray, MachineArray]] = []

        def store(array: np.ndarray) -> int:
            stored.append(MachineArray(array, device))
            return stored[-1].address

        try:
            for value in arguments:
                if isinstance(value, np.ndarray):
                    store(np.ascontiguousarray(value))
                    arrays.append((value, stored[-1]))
                    parameters += (
                        [scalar_parameter(stored[-1].address)]
                        if pointers
                        else stored[-1].parameters()
                    )
                elif is_awkward(value):
                    parameters += awkward_parameters(value, store)
                else:
                    parameters.append(scalar_parameter(value))
            with fault_reasons.quietly(lambda: self.student.knows_inputs), machine_at_work():
                device.launch(
                    module, entry, asked.grid, asked.block, parameters, asked.shared, cooperative
                )
                device.synchronize()
            for value, there in arrays:
                value[...] = there.copy_to_host()
        finally:
            # Free the arrays' memory even if an error's traceback keeps this frame alive.
            arrays.clear()
            stored.clear()
