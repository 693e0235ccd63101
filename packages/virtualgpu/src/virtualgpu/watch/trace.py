"""Trace of a small launch, step by step, for pictures and listings.

>>> with instruments.trace() as trace:
...     kernel[1, 8](x)
>>> print(trace.launches[0])              # one line per step: source line, threads, what
>>> trace.launches[0].of_thread(3)        # the steps in which thread 3 took part

A step is what some threads did together with one instruction: an access to memory, a branch, a
barrier, a fence, or simply ``run``, the other instructions of one source line in a row (jumps
and returns, which do nothing by themselves, are left out). The threads of a step ran in the same
instruction, so steps show where a warp parted and met again.

Of a large launch, ask for some threads only: ``instruments.trace(threads=64)`` keeps the first 64
of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from virtualgpu import sources
from virtualgpu.lanes.events import Access, Observer
from virtualgpu.ptx.opcodes import JUMPS, traits
from virtualgpu.wording import many

LIMIT = 200_000  # steps of threads that are kept for a launch, about 10 MB


class ThreadStep(NamedTuple):
    """Step that some threads took together.

    Attributes
    ----------
    kind : str
        run, load, store, atomic, branch, barrier (arrived), released (from a barrier), syncwarp,
        fence or exit.
    filename : str or None
    line : int or None
        Line in the kernel's source.
    threads : ndarray, int64, shape (n,)
        Block number × threads per block + thread number.
    space : str
        Memory of an access: global, shared or local.
    addresses : ndarray, uint64, shape (n,), or None
        Addresses of an access: device addresses, or offsets into the block's shared or thread's
        local memory.
    size : int
        Bytes of an access.
    taken : ndarray, bool, shape (n,), or None
        For a branch, True for each thread that jumped.
    values : ndarray, uint8, shape (n, size), or None
        The bytes at each address after the access, if ``trace()`` records values. If several
        threads store to one address in one step, all show what the last of them stored.
    """

    kind: str
    filename: str | None
    line: int | None
    threads: np.ndarray
    space: str = ""
    addresses: np.ndarray | None = None
    size: int = 0
    taken: np.ndarray | None = None
    values: np.ndarray | None = None


@dataclass
class LaunchTrace:
    """The steps of one launch, in the order in which they ran.

    ``complete`` is False if the launch exceeded the limit, so that its end is missing. ``shared``
    holds (start, end, name) of each array in the shared memory of a block, in bytes.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    steps: list[ThreadStep] = field(default_factory=list)
    complete: bool = True
    shared: tuple[tuple[int, int, str], ...] = ()

    def of_thread(self, thread: int) -> list[ThreadStep]:
        """Return the steps in which a thread took part."""
        return [step for step in self.steps if (step.threads == thread).any()]

    def accesses(self, space: str = "global") -> list[ThreadStep]:
        return [step for step in self.steps if step.space == space]

    def __str__(self) -> str:
        lines = [f"{self.kernel}[{self.grid}, {self.block}]"]
        for step in self.steps:
            where = f"line {step.line}" if step.line else ""
            what = f"{step.kind} {step.space}".strip()
            lines.append(
                f"{where:10}{what:16}{_ranges(step.threads):24}"
                f"{sources.text(step.filename, step.line)}".rstrip()
            )
        if not self.complete:
            lines.append("(the launch is too large: the trace ends here, and the launch continued)")
        return "\n".join(lines)


@dataclass
class Trace:
    """The launches inside a ``with instruments.trace()``, in order."""

    launches: list[LaunchTrace] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.launches)) or "no kernel was launched inside trace()"


class Tracer(Observer):
    """Recorder of threads' steps, up to a number of them for each launch.

    Parameters
    ----------
    trace : Trace
        The trace to which launches are added.
    limit : int
        Number of threads' steps to keep for each launch.
    threads : int or array of int, optional
        Number of threads from the start of the grid whose steps are kept, or the thread numbers.
    values : bool
        True to keep also the values that were read and written.
    """

    def __init__(self, trace: Trace, limit: int = LIMIT, threads=None, values: bool = False):
        self.trace, self.limit, self.values = trace, limit, values
        self.first = threads if isinstance(threads, int) else None
        self.chosen = None if threads is None or self.first else np.unique(threads)

    def launch_started(self, launch) -> None:
        extents = tuple(tuple(extent) for extent in launch.shared_layout.extents)
        self.current = LaunchTrace(launch.kernel, launch.grid, launch.block, shared=extents)
        self.trace.launches.append(self.current)
        self.left = self.limit
        self._queue: list = []  # instructions that a group is about to run
        self._runner: tuple | None = None  # their (wave, lanes)
        self._unread: list[tuple[int, Access, np.ndarray]] = []  # accesses whose values are to come

    def failed(self, launch, error) -> None:
        """In the block that failed, drop the lines after the faulty one, which did not run."""
        at = error.location.line if error.location else None
        reached = next(
            (
                i
                for i, known in enumerate(self._queue)
                if known.source and known.source.line == at and traits(known).fails
            ),
            -1,
        )
        del self._queue[reached + 1 :]

    def launch_finished(self, launch) -> None:
        self._run_on()
        self._read_values()
        self._runner = None

    def _add(self, kind: str, source, wave, lanes, keep=None, **more) -> bool:
        """Add a step and return True if it was recorded.

        ``keep`` are the positions of the selected threads.
        """
        threads = wave.first * wave.threads + np.asarray(lanes)
        keep = self._kept(threads) if keep is None else keep
        if keep is not Ellipsis:
            threads = threads[keep]
            more = {
                name: part[keep] if isinstance(part, np.ndarray) else part
                for name, part in more.items()
            }
        if not len(threads):
            return False
        if self.left <= 0:
            self.current.complete = False
            return False
        self.left -= len(threads)
        self.current.steps.append(
            ThreadStep(
                kind,
                source.filename if source else None,
                source.line if source else None,
                threads,
                **more,
            )
        )
        return True

    def _kept(self, threads: np.ndarray):
        if self.first is not None:
            return threads < self.first
        return ... if self.chosen is None else np.isin(threads, self.chosen)

    # -- instructions between events -----------------------------------------------------------

    def executed(self, group, instructions) -> None:
        self._run_on()
        self._queue, self._runner = list(instructions), (group.wave, group.lanes)

    def _run_on(self, until=None) -> None:
        """Record the instructions before ``until`` (or all) as runs of source lines."""
        self._read_values()
        if not self._queue:
            return
        ahead = len(self._queue)
        if until is not None:
            ahead = next((i for i, known in enumerate(self._queue) if known is until), 0)
        before = None
        for instruction in self._queue[:ahead]:
            if (
                instruction.source
                and instruction.source != before
                and instruction.opcode not in JUMPS
            ):
                before = instruction.source
                assert self._runner is not None
                self._add("run", before, *self._runner)
        del self._queue[: ahead + (until is not None and self._queue[ahead] is until)]

    # -- events --------------------------------------------------------------------------------

    def accessed(self, access: Access) -> None:
        self._run_on(access.instruction)
        wave, lanes = access.group.wave, np.array(access.lanes)
        keep = self._kept(wave.first * wave.threads + lanes)
        added = self._add(
            access.kind,
            access.instruction.source,
            wave,
            lanes,
            keep,
            space=access.space,
            addresses=np.array(access.addresses),
            size=access.size,
        )
        if added and self.values:
            number = len(self.current.steps) - 1
            self._unread.append((number, access, lanes if keep is ... else lanes[keep]))
            if access.kind == "load":
                self._read_values()

    def _read_values(self) -> None:
        """Read the stored values, which are in memory by the time of the next event."""
        for number, access, lanes in self._unread:
            step = self.current.steps[number]
            assert step.addresses is not None
            self.current.steps[number] = step._replace(
                values=access.bytes_at(step.addresses, lanes)
            )
        self._unread = []

    def branched(self, group, instruction, taken) -> None:
        self._run_on(instruction)
        self._add("branch", instruction.source, group.wave, group.lanes, taken=np.array(taken))

    def arrived(self, group, instruction, barrier) -> None:
        self._run_on(instruction)
        self._add("barrier", instruction.source, group.wave, group.lanes)

    def released(self, barrier, lanes, groups, missing) -> None:
        self._run_on()
        first = groups[0]
        self._add("released", first.basic_block.source, first.wave, lanes)

    def warp_synchronised(self, group, instruction, mask) -> None:
        self._run_on(instruction)
        self._add("syncwarp", instruction.source, group.wave, group.lanes)

    def fenced(self, group, instruction, scope) -> None:
        self._run_on(instruction)
        self._add("fence", instruction.source, group.wave, group.lanes)

    def exited(self, group) -> None:
        self._run_on()
        self._add("exit", None, group.wave, group.lanes)


def _ranges(threads: np.ndarray) -> str:
    """Return ``0-31, 40`` for the threads in a step."""
    ordered = np.sort(threads)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    parts = [
        f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in np.split(ordered, breaks)
    ]
    if len(parts) > 4:
        parts = [*parts[:3], f"… ({many(len(ordered), 'thread')})"]
    return ", ".join(parts)
