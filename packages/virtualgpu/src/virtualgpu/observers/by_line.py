"""What observers share that report a mistake once for each line, and count how often it came."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from virtualgpu.errors import Location
from virtualgpu.findings import Finding, Report
from virtualgpu.machine.events import Observer


class ByLine(Observer):
    """Adds a launch's findings to a report when the launch ends."""

    def __init__(self, report: Report):
        self.report = report

    def launch_started(self, launch) -> None:
        self.launch = launch
        self.found: dict[Hashable, list] = {}

    def launch_finished(self, launch) -> None:
        self.report.findings += [
            replace(finding, count=count) for finding, count in self.found.values()]
        self.found = {}

    def has_found(self) -> bool:
        return bool(self.found)

    def again(self, key: Hashable, count: int) -> bool:
        """Whether this finding is there already; it then came ``count`` times more."""
        if key in self.found:
            self.found[key][1] += count
        return key in self.found

    def add(self, key: Hashable, message: str, at: Location, other: Location | None,
            count: int) -> None:
        """A finding, or more of it; the first word of the message, to the colon, is its kind."""
        if not self.again(key, count):
            self.found[key] = [
                Finding(message.partition(":")[0], message, at.kernel, at.filename, at.line,
                        at.block, at.thread, other, launch=self.report.launches), count]

    def location(self, wave, source, lane: int) -> Location:
        """The place of a wave's lane; ``source`` may be None, as where a thread has ended."""
        block, thread = wave.where(lane)
        return Location(self.launch.kernel, source.filename if source else None,
                        source.line if source else None, block, thread)
