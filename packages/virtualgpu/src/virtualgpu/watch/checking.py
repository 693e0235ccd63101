"""Base of the checkers, and the observer that counts launches and notes their errors."""

from __future__ import annotations

import math
from dataclasses import replace

from virtualgpu.errors import Location, VirtualGPUError
from virtualgpu.findings import Finding, Report, from_error
from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.wave import Wave
from virtualgpu.launch.sampling import SampledLaunch
from virtualgpu.memory.global_memory import GlobalMemory
from virtualgpu.ptx import SourceLine

LARGE = 64 << 20  # bytes of device memory above which records are not kept for a later check()


class Recorder(Observer):
    """Observer that counts launches and notes errors that stop them, which still propagate."""

    def __init__(self, report: Report):
        self.report = report
        self._memory: GlobalMemory | None = None

    def launch_started(self, launch) -> None:
        self.report.launches += 1
        if launch.chosen is not None:
            ran = SampledLaunch(launch.kernel, launch.chosen.tolist(), math.prod(launch.grid))
            self.report.notes.append(f"launch {self.report.launches}: {ran}")
        self._memory = launch.memory

    def launch_began_again(self, launch) -> None:
        """Do nothing, because the launch is already counted."""

    def close(self) -> None:
        """Free large records of native code, because no launch will follow."""
        memory = self._memory
        if memory is not None and (memory.allocated > LARGE or memory.huge):
            memory.records = None

    def has_found(self) -> bool:
        return False

    def failed(self, launch, error: VirtualGPUError) -> None:
        self.report.findings.append(from_error(error, launch.kernel, self.report.launches))


class Checker(Observer):
    """Base of the checkers: it adds findings to ``report`` when a launch ends, each only once."""

    def __init__(self, report: Report):
        self.report = report

    def launch_started(self, launch) -> None:
        self.launch = launch
        self.found: dict[tuple, list] = {}  # key → finding, number of times

    def launch_finished(self, launch) -> None:
        self.report.findings += [
            replace(finding, count=count) for finding, count in self.found.values()
        ]
        self.found = {}

    def has_found(self) -> bool:
        return bool(self.found)

    def again(self, key: tuple, count: int) -> bool:
        """Return True and count the finding if its key is known."""
        if known := self.found.get(key):
            known[1] += count
        return known is not None

    def add(
        self,
        key: tuple,
        message: str,
        at: Location,
        other: Location | None,
        count: int,
        advice: str = "",
    ) -> None:
        """Keep a finding under its key. Its kind is the first word of the message.

        ``advice`` is added to the message after a colon.
        """
        if not self.again(key, count):
            self.found[key] = [
                Finding(
                    message.partition(":")[0],
                    f"{message}: {advice}" if advice else message,
                    at.kernel,
                    at.filename,
                    at.line,
                    at.block,
                    at.thread,
                    other,
                    launch=self.report.launches,
                    callers=at.callers,
                    advice=advice,
                ),
                count,
            ]

    def location(self, wave: Wave, source: SourceLine | None, lane: int) -> Location:
        """Return the location of a lane of the wave.

        ``source`` is the source line of an instruction, or None.
        """
        return Location.of(self.launch.kernel, source, *wave.where(lane))


def at_line(at: Location) -> str:
    """Return `` at line 7``, or an empty string if the line is not known."""
    return f" at line {at.line}" if at.line else ""
