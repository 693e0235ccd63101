"""What the threads of a small launch did, step by step: for pictures and for reading.

>>> with instruments.trace() as trace:
...     kernel[1, 8](x)
>>> print(trace.launches[0])              # one line per step: source line, threads, what
>>> trace.launches[0].of_thread(3)        # the steps in which thread 3 took part

A step is what some threads did together with one instruction: an access to memory, a branch, a
barrier, a fence, or simply ``run``, the other instructions of one source line in a row. The
threads of a step ran in the same instruction, so steps show where a warp parted and met again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from virtualgpu import sources
from virtualgpu.machine.events import Access, Observer

LIMIT = 200_000  # threads' steps that are kept of a launch, about 10 MB


class Step(NamedTuple):
    """What some threads did together.

    Attributes
    ----------
    kind : str
        run, load, store, atomic, branch, barrier (arrived), released (from a barrier), syncwarp,
        fence or exit.
    filename : str or None
    line : int or None
        In the kernel's source.
    threads : ndarray, int64, shape (n,)
        Block number × threads per block + thread number.
    space : str
        Of an access: global, shared or local.
    addresses : ndarray, uint64, shape (n,), or None
        Of an access: device addresses, or offsets into the block's shared or thread's local
        memory.
    size : int
        Bytes of an access.
    taken : ndarray, bool, shape (n,), or None
        Of a branch: which threads jumped.
    """

    kind: str
    filename: str | None
    line: int | None
    threads: np.ndarray
    space: str = ""
    addresses: np.ndarray | None = None
    size: int = 0
    taken: np.ndarray | None = None


@dataclass
class LaunchTrace:
    """The steps of one launch in the order in which they ran.

    ``complete`` is False where the launch was larger than the limit and its end is missing.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    steps: list[Step] = field(default_factory=list)
    complete: bool = True

    def of_thread(self, thread: int) -> list[Step]:
        """The steps in which a thread took part."""
        return [step for step in self.steps if (step.threads == thread).any()]

    def accesses(self, space: str = "global") -> list[Step]:
        return [step for step in self.steps if step.space == space]

    def __str__(self) -> str:
        lines = [f"{self.kernel}[{self.grid}, {self.block}]"]
        for step in self.steps:
            where = f"line {step.line}" if step.line else ""
            what = f"{step.kind} {step.space}".strip()
            lines.append(f"{where:10}{what:16}{_ranges(step.threads):24}"
                         f"{sources.text(step.filename, step.line)}".rstrip())
        if not self.complete:
            lines.append("(the launch went on; it is too large to be traced to its end)")
        return "\n".join(lines)


@dataclass
class Trace:
    """The launches inside a ``with instruments.trace()``, in order."""

    launches: list[LaunchTrace] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.launches)) or "no kernel was launched inside trace()"


class Tracer(Observer):
    """Writes down what happens, up to a number of threads' steps for each launch."""

    def __init__(self, trace: Trace, limit: int = LIMIT):
        self.trace, self.limit = trace, limit

    def launch_started(self, launch) -> None:
        self.current = LaunchTrace(launch.kernel, launch.grid, launch.block)
        self.trace.launches.append(self.current)
        self.left = self.limit

    def _add(self, kind: str, source, group, lanes, **more) -> None:
        if self.left <= 0:
            self.current.complete = False
            return
        self.left -= len(lanes)
        wave = group.wave
        threads = wave.first * wave.threads + np.asarray(lanes)
        self.current.steps.append(Step(
            kind, source.filename if source else None, source.line if source else None, threads,
            **more))

    def executed(self, group, instructions) -> None:
        before = None
        for instruction in instructions:
            if instruction.source and instruction.source != before:
                before = instruction.source
                self._add("run", before, group, group.lanes)

    def accessed(self, access: Access) -> None:
        self._add(access.kind, access.instruction.source, access.group, access.lanes,
                  space=access.space, addresses=np.array(access.addresses), size=access.size)

    def branched(self, group, instruction, taken) -> None:
        self._add("branch", instruction.source, group, group.lanes, taken=np.array(taken))

    def arrived(self, group, instruction, barrier) -> None:
        self._add("barrier", instruction.source, group, group.lanes)

    def released(self, barrier, lanes, groups, missing) -> None:
        block = groups[0].wave.launch.program.blocks[groups[0].block]
        self._add("released", block.source, groups[0], lanes)

    def warp_synchronised(self, group, instruction, mask) -> None:
        self._add("syncwarp", instruction.source, group, group.lanes)

    def fenced(self, group, instruction, scope) -> None:
        self._add("fence", instruction.source, group, group.lanes)

    def exited(self, group) -> None:
        self._add("exit", None, group, group.lanes)


def _ranges(threads: np.ndarray) -> str:
    """``0-31, 40`` for the threads in a step."""
    ordered = np.sort(threads)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"
             for run in np.split(ordered, breaks)]
    if len(parts) > 4:
        parts = [*parts[:3], f"… ({len(ordered)} threads)"]
    return ", ".join(parts)
