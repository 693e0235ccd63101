"""Requests from the oracle to the student's code, and messages about its failures.

A :class:`Student` keeps one worker running. If the worker crashes, hangs or sends invalid
messages, only the current request fails. The next request gets a fresh worker, in which the same
cells run again.
"""

from __future__ import annotations

import contextlib
import re

import numpy as np

from gpucourse.adapters.awkward_arguments import EXTENSIONS
from gpucourse.grading.contract import InfrastructureFault, OutOfTestTime, PropertyFailed
from gpucourse.grading.limits import Limits
from gpucourse.grading.oracle import fault_reasons, gate
from gpucourse.grading.oracle.clocks import SubmissionClock, resident_bytes
from gpucourse.grading.oracle.conversation import Conversation
from gpucourse.grading.oracle.device_service import DeviceService
from gpucourse.grading.oracle.jax_runner import JaxProgram, blank, program_of
from gpucourse.grading.oracle.set_up import SetUp
from gpucourse.grading.oracle.words_heard import Heard
from gpucourse.grading.sandbox import cells
from gpucourse.grading.sandbox.jax_programs import operation_in
from gpucourse.grading.sandbox.levels import ForkServer
from gpucourse.grading.sandbox.wire import ProtocolError, encode
from gpucourse.grading.submission.assignment import SETUP, SOLUTION, Assignment, AssignmentCell
from gpucourse.grading.submission.ingest import Ingested
from gpucourse.grading.testing.withheld import COURSES_OWN
from gpucourse.judging.exchange import Exchange
from gpucourse.wording import a_or_an, shortened

UNDEFINED = re.compile(r"name '([A-Za-z_]\w*)'")
# Advice where the compiler's message must not be repeated.
IN_THE_NOTEBOOK = "Run the visible test in your notebook, where Numba says what it cannot compile"
# Numba's message about a name that is defined but that a kernel cannot use.
UNTYPED = re.compile(r"ntyped global name '([A-Za-z_]\w*)'.*?type of <class '([\w.]+)'>")
# Names that a kernel can use only as attributes of the module cuda.
OF_CUDA = frozenset(
    {
        "threadIdx",
        "blockIdx",
        "blockDim",
        "gridDim",
        "laneid",
        "warpsize",
        "shared",
        "local",
        "const",
        "atomic",
        "cg",
        "fp16",
        "libdevice",
    }
)
# A cell that keeps at least this share of a worker's memory counts as filling it.
FILLING = 0.25
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\S\n ]|[\x00-\x09\x0b-\x1f\x7f]")


class Student:
    """One submission's code, which runs in a worker.

    Parameters
    ----------
    clock
        Clock to which the workers' time is charged.
    """

    def __init__(
        self,
        assignment: Assignment,
        ingested: Ingested,
        server: ForkServer,
        limits: Limits,
        clock: SubmissionClock,
    ) -> None:
        self.assignment = assignment
        self.ingested = ingested
        self.server = server
        self.limits = limits
        self.clock = clock
        # grade_id → the cell's lines that are not Python. Only the worker parses a student's
        # source, so it reports them.
        self.magics: dict[str, str] = {}
        # grade_id → the reason why running the cell failed. A cell that ended a worker is not run
        # again.
        self.broken: dict[str, str] = {}
        # Kernel → the undefined name in it that was reported when it was compiled.
        self.unmade: dict[str, str] = {}
        self.fatal: set[str] = set()
        # The cell that uses so much memory that later cells may lack it, or "".
        self.filling = ""
        self._test = ""
        # Until a hidden input has been sent, the message of an exception cannot reveal one.
        self.knows_inputs = False
        known = [*ingested.sources.values(), *assignment.starters.values()]
        self._words = fault_reasons.words(known)
        # The submission's output since then, which reasons must not repeat.
        self.heard = Heard(self._words, (cell.source for cell in assignment.having(SETUP)))
        self._talk = Conversation(server, limits, clock, self._words)
        self._set_up = SetUp(assignment)
        self.remember()

    def remember(self) -> None:
        """Register the sources of this submission's cells, so that messages quote their lines."""
        for cell in self.assignment.solutions:
            cells.remember(cell.grade_id, self.ingested.sources[cell.grade_id])

    @property
    def notices(self) -> list[str]:
        """Return remarks for the student, one sentence each."""
        filling = (
            [
                f"The cell '{self.filling}' fills the memory: the tests above it were graded "
                "without it."
            ]
            if self.filling
            else []
        )
        return filling + [self._of_magics(cell, magics) for cell, magics in self.magics.items()]

    def _of_magics(self, cell: str, magics: str) -> str:
        if not magics.startswith("%%"):
            return (
                f"The cell '{cell}' has lines that are not Python ({magics}): the grader does "
                "not run them."
            )
        if cells.wraps(magics.split(",")[0]):
            return (
                f"The cell '{cell}' has lines that are not Python ({magics}): the grader does "
                "not run them, but runs the lines below them."
            )
        return (
            f"The cell '{cell}' begins with '{magics}': the grader runs nothing in it. "
            "Remove that line if the answer is Python."
        )

    @property
    def service(self) -> DeviceService | None:
        """The device of the current worker."""
        return self._talk.service

    def close(self) -> None:
        """End the worker, if there is one."""
        self._talk.close()

    def _tell_inputs(self) -> None:
        """Record that the worker knows hidden inputs from now on."""
        assert self.service is not None
        self.knows_inputs = self.service.secret = True

    def call(self, name: str, args: tuple, exchange: Exchange | None = None) -> object:
        """Return the result of the student's function `name`. Raises PropertyFailed.

        If a set-up cell defines the function, that cell runs again first, because an answer may
        have replaced the function.
        """
        self.ready()
        for cell in self._set_up.behind(name):
            self._define(cell, None)
        arrays: list[np.ndarray] = []
        encoded = encode(list(args), arrays)
        self._tell_inputs()
        assert self.service is not None
        self.service.begin(exchange)
        reply, received = self._talk.request(
            {"do": "call", "name": name, "args": encoded}, arrays, f"'{name}'"
        )
        try:
            self.service.settle()
        except ProtocolError as error:
            self.close()
            raise PropertyFailed(f"'{name}' answered with {error}") from None
        if self.service.failure is not None:
            raise self.service.failure
        if "error" in reply:
            raise self._explain(reply["error"], name)
        try:
            value = gate.value(reply["done"], received, self.service.device_array)
        except gate.Refused as refused:
            raise PropertyFailed(f"'{name}' returned {refused}") from None
        except (KeyError, ProtocolError, MemoryError):
            self.close()
            raise PropertyFailed(f"'{name}' returned something that is not a result") from None
        self.heard.note(value)
        return value

    def trace(self, name: str, args: tuple, static: tuple) -> JaxProgram:
        """Return JAX's program of the student's function `name`. Raises PropertyFailed.

        The worker receives the values of the arguments at the positions in `static`. Of the others
        it receives only type and shape.
        """
        self.ready()
        arrays: list[np.ndarray] = []
        told = [value if number in static else blank(value) for number, value in enumerate(args)]
        request = {
            "do": "trace",
            "name": name,
            "args": encode(told, arrays),
            "static": list(static),
        }
        if static:
            self._tell_inputs()
        reply, received = self._talk.request(request, arrays, f"tracing '{name}'")
        if "error" in reply:
            raise self._explain(reply["error"], name)
        if "refused" in reply:
            what = _clean(str(reply["refused"]), 100)
            if self.knows_inputs:
                operation = operation_in(what)
                what = f"the operation '{operation}'" if operation else ""
            what = what and f": {what}"
            raise PropertyFailed(f"'{name}' uses an operation that the grader cannot run{what}")
        return program_of(name, reply.get("done"), received)

    def compile(self, name: str, types: list[dict]) -> dict:
        """Return the PTX of the student's kernel `name` for `types`: texts, entry, cooperative."""
        self.ready()
        reply, _ = self._talk.request(
            {"do": "compile", "name": name, "types": types}, [], f"compiling '{name}'"
        )
        if "error" in reply:
            raise self._explain(reply["error"], name, compiling=True)
        if "lacks" in reply:
            raise PropertyFailed(EXTENSIONS.format(name=name))
        if "refused" in reply:
            what = _clean(str(reply.get("what")), 60)
            if self.knows_inputs:
                what = fault_reasons.type_name(what)
            raise PropertyFailed(
                f"'{name}' is not a CUDA kernel but {a_or_an(what)}: decorate the function with "
                "@cuda.jit"
            )
        done = reply.get("done")
        texts = done.get("texts") if isinstance(done, dict) else None
        if (
            not isinstance(done, dict)
            or not isinstance(texts, list)
            or not all(isinstance(text, str) for text in texts)
            or not isinstance(done.get("entry"), str)
        ):
            self.close()
            raise PropertyFailed(f"'{name}' was not compiled to a kernel")
        if sum(map(len, texts)) > self.limits.ptx_bytes:
            raise PropertyFailed(f"the kernel '{name}' is larger than any kernel should be")
        return done

    def begin(self, test: str) -> None:
        """Begin the next test.

        If a cell fills the memory, each test gets a worker that has run only the cells above it.
        """
        self._test = test
        if self.filling:
            self.close()

    def ready(self, seconds: float | None = None) -> None:
        """Start a worker, if there is none, that has run every cell that can run.

        `seconds` is the time limit of each cell, including the launches in it. Without it, the
        time counts towards the running test.
        """
        while self._talk.worker is None:
            self._start()
            self._run_cells(seconds)

    def _run_cells(self, seconds: float | None) -> None:
        """Run the cells; if one must be left out, end the worker."""
        answered = False
        free = self._memory()
        for cell in self.assignment.cells:
            if self.filling and cell.grade_id == self._test:
                return
            if (
                cell.role not in (SETUP, SOLUTION)
                or cell.cell_type != "code"
                or cell.grade_id in self.fatal
            ):
                continue
            answered |= cell.role == SOLUTION
            try:
                error = self._define(cell, seconds)
            except (PropertyFailed, OutOfTestTime) as failed:
                if seconds is None and isinstance(failed, OutOfTestTime):
                    raise  # the running test has used up its time
                # The worker has ended, so start again without this cell.
                self.broken[cell.grade_id] = (
                    failed.reason
                    if isinstance(failed, PropertyFailed)
                    else (
                        f"the cell '{cell.grade_id}' took longer than {seconds:g} s, launches "
                        "included, and was stopped: if you added checks to it, make them smaller"
                    )
                )
                self.fatal.add(cell.grade_id)
                return
            if error is not None:
                explained = self._explain(error, None)
                if cell.role == SETUP and not answered:
                    # No line of the student's code has run yet.
                    raise InfrastructureFault(
                        f"the course's set-up cell '{cell.grade_id}' fails in the sandbox: "
                        f"{explained.reason}"
                    )
                self.broken[cell.grade_id] = explained.reason
                if isinstance(error, dict) and error.get("type") == "MemoryError":
                    # Its memory stays in use, so later cells would have none.
                    self.fatal.add(cell.grade_id)
                    self.close()
                    return
            if (
                not self.filling
                and answered
                and self._memory() - free > (FILLING * self.limits.memory_bytes)
            ):
                self.filling = cell.grade_id
                self.close()
                return

    def _define(self, cell: AssignmentCell, seconds: float | None) -> object:
        """Run one cell; return the worker's message about its error, or None."""
        source = (
            self._set_up.for_answers(cell)
            if cell.role == SETUP
            else self.ingested.sources[cell.grade_id]
        )
        request = {"do": "define", "cell": cell.grade_id, "source": source}
        with contextlib.nullcontext() if seconds is None else self.clock.limit(seconds):
            reply, _ = self._talk.request(request, [], f"the cell '{cell.grade_id}'")
        magics = reply.get("magics")
        if cell.role == SOLUTION and isinstance(magics, list) and magics:
            text = ", ".join(line for line in magics if isinstance(line, str))
            self.magics.setdefault(cell.grade_id, text[:80])
        return reply.get("error")

    def _memory(self) -> int:
        """Return the number of bytes that the worker uses now."""
        worker = self._talk.worker
        return 0 if worker is None or worker.pid is None else resident_bytes(worker.pid)

    def _start(self) -> None:
        self._talk.start()
        self.knows_inputs = False
        assert self.service is not None
        device = self.service.device
        self._talk.request(
            {
                "do": "hello",
                "name": device.name,
                "cc": list(device.compute_capability),
                "memory": device.total_memory,
            },
            [],
            "the start",
        )

    def _explain(self, error: object, name: str | None, compiling: bool = False) -> PropertyFailed:
        """Return the explanation of a worker's exception, which reveals no hidden input."""
        if not isinstance(error, dict):
            return PropertyFailed("the answer failed without an error message")
        kind = _clean(str(error.get("type")), 60)
        if self.knows_inputs:
            kind = fault_reasons.error_name(kind)
        message = _clean(str(error.get("message")), 400)
        line, cell = error.get("line"), error.get("cell")
        lines = self._lines(cell)
        place, near = "", self._words
        if type(line) is int and 0 < line <= len(lines):
            place = f" (cell '{cell}', line {line})"
            near = fault_reasons.words([lines[line - 1]])
        undefined = UNDEFINED.search(message)
        if (
            kind in ("NameError", "TypingError")
            and undefined
            and (not self.knows_inputs or undefined[1] == name or undefined[1] in near)
        ):
            if untyped := UNTYPED.search(message):
                return PropertyFailed(_unusable(untyped[1], untyped[2]) + place)
            if "defined" in message.lower():
                if compiling and name is not None:
                    self.unmade[name] = undefined[1]
                return PropertyFailed(self._undefined(undefined[1]) + place)
        if kind == "NotImplementedError":
            # The worker names the stub; the name is shown only if the course defines it.
            stub = any(f"def {message}(" in text for text in self.assignment.starters.values())
            where = f"in '{message}'" if stub else "here"
            if stub and (stray := self.ingested.strays.get(message)):
                return PropertyFailed(
                    f"raises NotImplementedError{place}: nothing is written {where} yet; "
                    f"'{message}' is defined in {stray} of your notebook, which is not graded: "
                    "move it into the answer cell"
                )
            return PropertyFailed(
                f"raises NotImplementedError{place}: nothing is written {where} yet"
            )
        if self.knows_inputs:
            message = ""
        if kind == "SyntaxError" or kind == "IndentationError":
            return PropertyFailed(f"syntax error{place}" + (f": {message}" if message else ""))
        if compiling:
            return PropertyFailed(
                f"the kernel '{name}' cannot be compiled for the arguments of this test{place}: "
                + kind
                + (f": {message}" if message else f". {IN_THE_NOTEBOOK}")
            )
        told = f": {message}" if message else ""
        if name is None:
            return PropertyFailed(f"raises {kind}{place}{told}")
        if error.get("converting") is True:
            return PropertyFailed(
                f"'{name}' returns something that cannot be read as numbers: {kind}{told}"
            )
        because = ""
        if kind == "TypingError" and not told:
            used = fault_reasons.words(lines)
            because = next(
                (
                    f": it uses '{kernel}', and {self._undefined(missing)}"
                    for kernel, missing in self.unmade.items()
                    if kernel in used
                ),
                "",
            )
        return PropertyFailed(f"'{name}' raises {kind}{place}{told}{because}")

    def _lines(self, cell: object) -> list[str]:
        """Return the lines of a set-up or answer cell as it was run; empty for anything else."""
        for known in self.assignment.cells:
            if known.grade_id == cell and known.role in (SETUP, SOLUTION):
                return self.ingested.sources.get(known.grade_id, known.source).split("\n")
        return []

    def _undefined(self, name: str) -> str:
        """Explain why `name` is missing: its cell failed, it is in the wrong cell, or nowhere."""
        if name in self._set_up.withheld:
            return COURSES_OWN.format(name=name)
        mentions = re.compile(rf"\b{re.escape(name)}\b")
        for cell, reason in self.broken.items():
            texts = self.ingested.sources.get(cell, ""), self.assignment.starters.get(cell, "")
            if any(mentions.search(text) for text in texts):
                return f"'{name}' is not defined, because the cell '{cell}' failed: {reason}"
        if name in self.ingested.strays:
            return (
                f"'{name}' is not defined in an answer cell: it is defined in "
                f"{self.ingested.strays[name]} of your notebook, which is not graded. Move the "
                "definition into the answer cell that uses it"
            )
        return f"'{name}' is not defined: keep the names that the notebook gives"


def _unusable(name: str, kind: str) -> str:
    """Explain why a kernel cannot use `name`, a value of the type `kind`."""
    if name in OF_CUDA:
        return (
            f"'{name}' is known to Numba only as a part of the module cuda: write 'cuda.{name}' in "
            "kernels"
        )
    if kind == "function":
        return (
            f"'{name}' is a Python function, which a kernel cannot call: decorate it with "
            "@cuda.jit(device=True)"
        )
    return (
        f"'{name}' is of a type that kernels cannot use: they take numbers, arrays and the names "
        "of the module cuda, such as cuda.threadIdx"
    )


def _clean(text: str, length: int) -> str:
    """Return plain text of limited length, without control characters and colours."""
    text = CONTROL.sub("", text[: 20 * length])
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    text = "\n".join(lines[:6])
    return shortened(text, length)
