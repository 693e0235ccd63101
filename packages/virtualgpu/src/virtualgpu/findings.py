"""Findings of the checkers, and the report that collects them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from virtualgpu.errors import Index, Location, VirtualGPUError
from virtualgpu.wording import many

KINDS = (
    *("race", "barrier", "uninitialised", "memory", "overflow", "deadlock", "arguments", "stream"),
    "other",
)

_NUMBER = re.compile(r"\d[\d,]*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a kernel.

    Attributes
    ----------
    kind : str
        ``race``, ``barrier``, ``uninitialised``, ``memory`` (bad address), ``overflow`` (an
        index that wrapped at 32 bits), ``deadlock``, ``stream`` (missing synchronisation between
        streams or with the host; ``other`` has the second line), ``arguments`` (they do not match
        the kernel's parameters), or ``other`` (any other error that stopped the launch).
    message : str
        Description of the fault, and advice.
    kernel : str
    filename : str or None
    line : int or None
        Line of the kernel's source.
    block, thread : Index or None
        Tuples (x, y, z), printed with the dimensions of the launch.
    other : Location or None
        The second place of the fault, for example the other access of a race.
    count : int
        Number of occurrences; the other fields describe the first one.
    launch : int
        Number of the first launch within the report in which it happened, from 1.
    launches : set of int
        Numbers of all launches within the report in which it happened.
    callers : tuple of (str, int)
        File and line of the calls at which ``line`` was inlined, innermost first.
    advice : str
        The last part of ``message``, which says what to do, if it is known separately.
    """

    kind: str
    message: str
    kernel: str
    filename: str | None = None
    line: int | None = None
    block: Index | None = None
    thread: Index | None = None
    other: Location | None = None
    count: int = 1
    launch: int = 0
    launches: set[int] = field(default_factory=set, compare=False, repr=False)
    callers: tuple[tuple[str, int], ...] = ()
    advice: str = ""

    def __post_init__(self) -> None:
        self.launches.add(self.launch)

    @property
    def place(self) -> tuple:
        """Return a key that is equal for the same fault in several launches.

        The key consists of the kind, the kernel, the lines, and the message without its numbers
        (such as the thread or the element).
        """
        other = (self.other.filename, self.other.line) if self.other else ()
        return (
            self.kind,
            self.kernel,
            self.filename,
            self.line,
            other,
            _NUMBER.sub("0", self.message),
        )

    @property
    def location(self) -> Location:
        return Location(
            self.kernel, self.filename, self.line, self.block, self.thread, self.callers
        )

    def __str__(self) -> str:
        text = f"{self.message}\n  at {self.location}"
        if self.other is not None and self.other.line:
            text += f"\n  and {self.other.place()}"
        if (launches := len(self.launches)) > 1:
            text += f"\n  ({self.count:,} times in {many(launches, 'launch', 'launches')})"
        elif self.count > 1:
            text += f"\n  ({self.count:,} times in this launch)"
        return text


class Findings(list[Finding]):
    """List of findings in the order found; repeats are counted in the first finding of a fault."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple, int] = {}

    def append(self, finding: Finding) -> None:
        at = self._places.get(finding.place)
        if at is None or finding.launch in self[at].launches:
            self._places[finding.place] = len(self)
            super().append(finding)
            return
        self[at].launches.update(finding.launches)
        self[at] = replace(self[at], count=self[at].count + finding.count)

    def extend(self, more: Iterable[Finding]) -> None:
        for finding in more:
            self.append(finding)

    def __iadd__(self, more: Iterable[Finding]) -> Findings:  # type: ignore[override, misc]
        self.extend(more)
        return self

    def clear(self) -> None:
        super().clear()
        self._places.clear()


@dataclass
class Report:
    """Findings of all launches inside a ``with virtualgpu.check()``.

    They are in the order found, with one entry for each fault.

    Attributes
    ----------
    findings : list of Finding
    launches : int
        Number of launches that were checked.
    notes : list of str
        Parts that were not checked, with the reason.
    """

    findings: list[Finding] = field(default_factory=Findings)
    launches: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return True if nothing was found."""
        return not self.findings

    def of_kind(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]

    def __str__(self) -> str:
        launches = f"{self.launches} launch{'' if self.launches == 1 else 'es'}"
        if not self.launches and not self.findings:
            return (
                "no kernel was launched inside check(): a launch has brackets and "
                "parentheses, kernel[blocks, threads](x)"
            )
        lines = [f"{number}. {finding}" for number, finding in enumerate(self.findings, 1)]
        many = len(self.findings)
        head = f"{launches}: " + (
            "nothing found" if not many else f"{many} finding{'' if many == 1 else 's'}"
        )
        return "\n".join([head, *lines, *self.notes])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the report's text, not its fields, if it is the last value of a notebook cell."""
        printer.text(str(self))


def from_error(error: VirtualGPUError, kernel: str, launch: int) -> Finding:
    """Return a finding for an error that stopped a launch."""
    from virtualgpu.errors import BarrierError, DeadlockError, MemoryAccessError

    kind = "other"
    if isinstance(error, MemoryAccessError):
        kind = "memory"
    elif isinstance(error, DeadlockError):
        kind = "deadlock"
    elif isinstance(error, BarrierError):
        kind = "barrier"
    at = error.location or Location(kernel)
    return Finding(
        kind,
        error.message,
        at.kernel,
        at.filename,
        at.line,
        at.block,
        at.thread,
        launch=launch,
        callers=at.callers,
    )
