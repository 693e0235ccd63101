"""The register of labelled kernels, and what it means to find a fault."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

import virtualgpu

virtualgpu.activate(force=True)

from numba import cuda  # noqa: E402

from virtualgpu.errors import VirtualGPUError  # noqa: E402
from virtualgpu.findings import Report  # noqa: E402

KINDS = ("clean", "race", "memory", "uninitialised", "barrier", "deadlock")

CASES: dict[str, Case] = {}


@dataclass(frozen=True)
class Empty:
    """An argument: device memory that was never written."""

    shape: int
    dtype: str = "i4"


@dataclass(frozen=True)
class Case:
    """A kernel and its label.

    ``also`` are kinds that the fault may show itself as besides (a missing barrier lets a
    thread read what is not written yet), at the faulty lines. ``result`` maps the arguments
    after the launch to whether a clean kernel did its work. ``instead`` is a kind as which the
    fault may come out in some orders.
    """

    name: str
    kind: str
    lines: frozenset[int]
    launch: Callable[[list], None]
    arguments: tuple
    also: tuple[str, ...] = ()
    result: Callable[..., bool] | None = None
    instead: str = ""

    def run(self, seed: int | None) -> tuple[Report, list[np.ndarray], str]:
        """The report, the arguments after the launch, and the error's text if there was one."""
        arguments = [_on_device(value) for value in self.arguments]
        schedule = nullcontext() if seed is None else virtualgpu.schedule(seed)
        error = ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numba's advice on small grids
            with virtualgpu.check() as report, schedule:
                try:
                    self.launch(arguments)
                except VirtualGPUError as raised:
                    error = str(raised)
        after = [a.copy_to_host() if hasattr(a, "copy_to_host") else a for a in arguments]
        return report, after, error

    def same_in_native_code(self, device, setenv: Callable[[str, str], None]) -> str:
        """How the report differs where native code may run the launch; empty if it does not."""
        answers = []
        before = device.compiles
        for native in (False, True):
            setenv("VIRTUALGPU_NATIVE", "always" if native else "0")
            device.compiles = native
            report, after, error = self.run(None)
            # Arrays lie elsewhere in each run.
            text = re.sub("0x[0-9a-f]+", "0x", f"{report}{error}")
            answers.append(
                (
                    text,
                    [f.count for f in report.findings],
                    [np.asarray(one).tobytes() for one in after],
                )
            )
        device.compiles = before
        return "" if answers[0] == answers[1] else f"{answers[0]} but in native code {answers[1]}"

    def problem(self, seed: int | None) -> str:
        """What is wrong with the check's answer; empty if it is right."""
        report, after, error = self.run(seed)
        if self.kind == "clean":
            if not report.ok or error:
                return f"false alarm: {report}\n{error}"
            if self.result is not None and not self.result(*after):
                return f"wrong result: {after}"
            return ""
        found = [
            f
            for f in report.findings
            if f.kind in (self.kind, self.instead)
            and {f.line, _other_line(f)} - {None} <= self.lines
        ]
        if not found:
            return f"not found: {self.kind} at {sorted(self.lines)}; instead: {report}"
        if self.kind == "race" and not any(
            f.kind == self.instead or {f.line, _other_line(f)} - {None} == set(self.lines)
            for f in found
        ):
            return f"not all of {sorted(self.lines)} found: {report}"
        for finding in report.findings:
            known = (self.kind, self.instead, *self.also)
            if finding.kind not in known or finding.line not in self.lines:
                return f"besides the fault: {finding}"
        return ""


def case(
    kind: str,
    arguments: Sequence,
    *,
    grid: Any = 1,
    block: Any = 64,
    also: Sequence[str] = (),
    result: Callable[..., bool] | None = None,
    times: int = 1,
    shared: int = 0,
    instead: str = "",
) -> Callable:
    """Decorator: register a numba kernel with its label.

    ``arguments`` are NumPy arrays (copied to the device), scalars and :class:`Empty`.
    """

    def register(function):
        kernel = cuda.jit(function)

        def launch(values):
            for _ in range(times):
                kernel[grid, block, 0, shared](*values)

        source, first = inspect.getsourcelines(function)
        _add(
            Case(
                function.__name__,
                kind,
                _marked(source, first),
                launch,
                tuple(arguments),
                tuple(also),
                result,
                instead,
            )
        )
        return kernel

    return register


def cuda_case(
    name: str,
    kind: str,
    source: str,
    arguments: Sequence,
    *,
    grid: Any = 1,
    block: Any = 64,
    also: Sequence[str] = (),
    result: Callable[..., bool] | None = None,
    instead: str = "",
) -> None:
    """Register a kernel in CUDA C++, for what Numba cannot say."""
    module: list = []

    def launch(values):
        if not module:
            module.append(virtualgpu.Module.from_cuda(source, name=f"{name}.cu"))
        module[0].launch("k", grid, block, values)

    _add(
        Case(
            name,
            kind,
            _marked(source.splitlines(), 1),
            launch,
            tuple(arguments),
            tuple(also),
            result,
            instead,
        )
    )


def _add(one: Case) -> None:
    assert one.kind in KINDS
    assert one.name not in CASES, f"two cases called {one.name}"
    assert bool(one.lines) == (one.kind != "clean"), f"{one.name}: mark the faulty lines"
    CASES[one.name] = one


def _marked(source: Sequence[str], first: int) -> frozenset[int]:
    return frozenset(
        number
        for number, text in enumerate(source, first)
        if text.rstrip().endswith("# fault") or text.rstrip().endswith("// fault")
    )


def _on_device(value: Any) -> Any:
    if isinstance(value, Empty):
        return cuda.device_array(value.shape, value.dtype)
    return cuda.to_device(value) if isinstance(value, np.ndarray) else value


def _other_line(finding) -> int | None:
    return finding.other.line if finding.other is not None else None
