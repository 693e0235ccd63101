"""Measurements on a real GPU: the rows of ``gpu_bench.json``, and their ratios.

``make bench-gpu`` writes the file; the lectures draw from it (:mod:`gpucourse.views.measured`). It
is looked for in the course's checkout around the working directory, in the checkout that this
package is imported from, and in the package itself (``gpucourse/recorded``), where an installation
puts a copy. Before the first run there is no such file, and what would show a time says so.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from gpucourse.course.checkout import result_files

NAME = "gpu_bench.json"

#: The clocks of a row, the most exact first; ``lab/benchmarks/gpu_measuring.py`` says what each is.
CLOCKS = ("device", "queue", "call")
IN_WORDS = {
    "device": "time on the GPU, by CUDA events",
    "queue": "time for each of many calls in a row, by the host's clock",
    "call": "time of one call until it is done, by the host's clock",
}

NOT_YET = (
    "Not yet measured on a GPU: make bench-gpu, on a machine that has one, writes the "
    "file that this is drawn from."
)


class NotMeasured(LookupError):
    """A row that the recorded run does not have; the message says so and what to do."""


@dataclass(frozen=True)
class Row:
    """One contender in one size, checked and timed, or with the error that it ended in.

    ``items`` counts what ``unit`` names. ``bytes`` and ``flops`` are the least that the work needs,
    or None. Times are in milliseconds.
    """

    id: str
    group: str
    title: str
    size: int
    contender: str = ""
    label: str = ""
    made_by: str = ""
    items: int | None = None
    unit: str = ""
    bytes: int | None = None
    flops: int | None = None
    error: str = ""
    device_ms: tuple[float, ...] = ()
    queue_ms: tuple[float, ...] = ()
    call_ms: tuple[float, ...] = ()

    @classmethod
    def of(cls, record: dict) -> Row:
        """Return a row from the benchmark's record; unknown keys are ignored."""
        known = {k: v for k, v in record.items() if k in cls.__dataclass_fields__}
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()})

    @property
    def measured(self) -> bool:
        """Return True if there are times."""
        return not self.error and bool(self.call_ms)

    @property
    def clocks(self) -> tuple[str, ...]:
        """The clocks that it was timed by, the most exact first."""
        return tuple(clock for clock in CLOCKS if self.samples(clock))

    def samples(self, clock: str) -> tuple[float, ...]:
        """Return all times by one clock [ms]."""
        return getattr(self, f"{clock}_ms")

    def median(self, clock: str) -> float:
        """Return the median by one clock [ms]."""
        return statistics.median(self.samples(clock))

    def quartiles(self, clock: str) -> tuple[float, float]:
        """Return the lower and upper quartile of the samples [ms]."""
        values = self.samples(clock)
        if len(values) < 2:
            return values[0], values[0]
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return low, high

    def bandwidth(self, clock: str) -> float:
        """Return the bytes that the work needs, per second."""
        return self.bytes / (1e-3 * self.median(clock))


def common_clock(*rows: Row) -> str:
    """Return the most exact clock that timed all of these."""
    for clock in CLOCKS:
        if all(row.samples(clock) for row in rows):
            return clock
    raise NotMeasured("no clock timed all of " + ", ".join(row.id for row in rows))


class Results:
    """A recorded run: ``document`` as written, ``rows`` by their ids."""

    def __init__(self, document: dict):
        self.document = document
        self.rows = {record["id"]: Row.of(record) for record in document["rows"]}

    @property
    def example(self) -> str:
        """Not empty for data made up in a test, and why."""
        return self.document.get("example", "")

    @property
    def where(self) -> str:
        """Return GPU, driver and date in one line; say so plainly if it is an example."""
        gpu = self.document.get("gpu") or {}
        driver = f", driver {gpu['driver']}" if gpu.get("driver") else ""
        told = f"{gpu.get('name', 'an unnamed GPU')}{driver}, {self.document['date'][:10]}"
        return f"EXAMPLE, NOT MEASURED ({self.example})" if self.example else told

    def of(self, group: str, size: int | None = None) -> list[Row]:
        """Return the measured rows of a group, in one size (by default its largest)."""
        rows = [row for row in self.rows.values() if row.group == group and row.measured]
        if not rows:
            raise NotMeasured(f"the recorded run has no times of {group!r}")
        size = max(row.size for row in rows) if size is None else size
        return [row for row in rows if row.size == size]

    def row(self, group: str, contender: str, size: int | None = None) -> Row:
        """Return one measured row. Raises :class:`NotMeasured`, with its error if it has one."""
        found = [
            row
            for row in self.rows.values()
            if (row.group, row.contender) == (group, contender) and size in (None, row.size)
        ]
        for row in sorted(found, key=lambda row: -row.size):
            if row.measured:
                return row
        why = f": {found[0].error}" if found and found[0].error else ""
        raise NotMeasured(f"the recorded run has no times of {group}/{contender}{why}")

    def copy_bandwidth(self) -> float:
        """Return the bytes read and written per second by the fastest copy on the device."""
        return max(row.bandwidth("device") for row in self.of("copy"))

    def times_as_fast(self, one: Row, other: Row) -> float:
        """Return the ratio of speeds of ``one`` and ``other``, by their best common clock."""
        clock = common_clock(one, other)
        return other.median(clock) / one.median(clock)


def read(path: Path) -> Results | None:
    """Read a recorded run, or None where there is no such file."""
    if not path.is_file():
        return None
    return Results(json.loads(path.read_text(encoding="utf-8")))


def recorded() -> Results | None:
    """Return the run that comes with the course, or None as long as there is none."""
    return next((found for path in result_files(NAME) if (found := read(path))), None)
