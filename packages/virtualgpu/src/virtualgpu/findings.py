"""What the checkers found, and the report that collects it."""

from __future__ import annotations

from dataclasses import dataclass, field

from virtualgpu.errors import Index, Location, VirtualGPUError

KINDS = ("race", "barrier", "uninitialised", "memory", "deadlock", "arguments", "stream", "other")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a kernel.

    Attributes
    ----------
    kind : str
        ``race``, ``barrier``, ``uninitialised``, ``memory`` (bad address), ``deadlock``, ``stream``
        (missing synchronisation of streams or the host: the second line is in ``other``),
        ``arguments`` (not what the kernel declares), or ``other`` (any other error that stopped
        the launch).
    message : str
        What happened and what to do, for a person.
    kernel : str
    filename : str or None
    line : int or None
        In the kernel's own source.
    block, thread : Index or None
        Tuples (x, y, z), written as the launch counts them.
    other : Location or None
        The other party: of a race the other access.
    count : int
        How often it happened in this launch; this is the first time.
    launch : int
        Number of the launch within the report, from 1.
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

    @property
    def location(self) -> Location:
        return Location(self.kernel, self.filename, self.line, self.block, self.thread)

    def __str__(self) -> str:
        text = f"{self.message}\n  at {self.location}"
        if self.other is not None and self.other.line:
            text += f"\n  and {self.other.place()}"
        if self.count > 1:
            text += f"\n  ({self.count:,} times in this launch)"
        return text


@dataclass
class Report:
    """Findings of all launches inside a ``with virtualgpu.check()``, in the order found.

    Attributes
    ----------
    findings : list of Finding
    launches : int
        Kernels that were watched.
    notes : list of str
        What was not looked at, and why.
    """

    findings: list[Finding] = field(default_factory=list)
    launches: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.findings

    def of_kind(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]

    def __str__(self) -> str:
        launches = f"{self.launches} launch{'' if self.launches == 1 else 'es'}"
        if not self.launches and not self.findings:
            return "no kernel was launched inside check()"
        lines = [f"{number}. {finding}" for number, finding in enumerate(self.findings, 1)]
        many = len(self.findings)
        head = f"{launches}: " + (
            "nothing found" if not many else f"{many} finding{'' if many == 1 else 's'}")
        return "\n".join([head, *lines, *self.notes])


def from_error(error: VirtualGPUError, kernel: str, launch: int) -> Finding:
    """An error that stopped a launch, as a finding."""
    from virtualgpu.errors import BarrierError, DeadlockError, MemoryAccessError

    kind = "other"
    if isinstance(error, MemoryAccessError):
        kind = "memory"
    elif isinstance(error, DeadlockError):
        kind = "deadlock"
    elif isinstance(error, BarrierError):
        kind = "barrier"
    at = error.location or Location(kernel)
    return Finding(kind, error.message, at.kernel, at.filename, at.line, at.block, at.thread,
                   launch=launch)
