"""The observer that keeps a :class:`~virtualgpu.findings.Report`."""

from __future__ import annotations

from virtualgpu.errors import VirtualGPUError
from virtualgpu.findings import Report, from_error
from virtualgpu.machine.events import Observer
from virtualgpu.machine.memory import GlobalMemory

LARGE = 64 << 20  # bytes of device memory whose records are not kept for a later check()


class Recorder(Observer):
    """Counts launches and notes the errors that stop them; they are raised all the same."""

    def __init__(self, report: Report):
        self.report = report
        self._memory: GlobalMemory | None = None

    def launch_started(self, launch) -> None:
        self.report.launches += 1
        self._memory = launch.memory

    def close(self) -> None:
        """No launch will follow: give back records of native code that take much memory."""
        if self._memory is not None and self._memory.allocated > LARGE:
            self._memory.records = None

    def has_found(self) -> bool:
        return False

    def failed(self, launch, error: VirtualGPUError) -> None:
        self.report.findings.append(from_error(error, launch.kernel, self.report.launches))
