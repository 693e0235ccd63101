"""The observer that keeps a :class:`~virtualgpu.findings.Report`."""

from __future__ import annotations

from virtualgpu.errors import VirtualGPUError
from virtualgpu.findings import Report, from_error
from virtualgpu.machine.events import Observer


class Recorder(Observer):
    """Counts launches and notes the errors that stop them; they are raised all the same."""

    def __init__(self, report: Report):
        self.report = report

    def launch_started(self, launch) -> None:
        self.report.launches += 1

    def failed(self, launch, error: VirtualGPUError) -> None:
        self.report.findings.append(from_error(error, launch.kernel, self.report.launches))
