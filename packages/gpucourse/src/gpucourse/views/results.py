"""Measurements on a real GPU: the rows of ``gpu_bench.json``, and their ratios.

``make bench-gpu`` writes the file, and the lectures draw from it
(:mod:`gpucourse.views.measured`). It is looked up in the checkout that contains the working
directory, in the checkout that this package is imported from, and in the package itself
(``gpucourse/recorded``), into which an installation copies it. Before the first run there is no
such file, and each picture of a time is replaced by a sentence that says so.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path

from gpucourse.course.checkout import result_files

NAME = "gpu_bench.json"

#: Clocks of a row, the most exact first; ``lab/benchmarks/gpu_measuring.py`` describes them.
CLOCKS = ("device", "queue", "call")
IN_WORDS = {
    "device": "time on the GPU, measured with CUDA events",
    "queue": "time per call in a series of calls, measured by the host's clock",
    "call": "time until one call completes, measured by the host's clock",
}

NOT_YET = (
    "This has not been measured on a GPU yet. To measure it, run `make bench-gpu` on a "
    "machine with a GPU."
)


class NotMeasured(LookupError):
    """The recorded run lacks a row; the message names it and says what to do."""


@dataclass(frozen=True)
class Row:
    """One contender at one size, checked and timed, or with the error that stopped it.

    ``items`` is a number of ``unit``. ``bytes`` and ``flops`` are the least that the work needs,
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
        """Return True if the row has times."""
        return not self.error and bool(self.call_ms)

    @property
    def clocks(self) -> tuple[str, ...]:
        """Return the clocks that timed the row, the most exact first."""
        return tuple(clock for clock in CLOCKS if self.samples(clock))

    def samples(self, clock: str) -> tuple[float, ...]:
        """Return all times of one clock in milliseconds."""
        return getattr(self, f"{clock}_ms")

    def median(self, clock: str) -> float:
        """Return the median time of one clock in milliseconds."""
        return statistics.median(self.samples(clock))

    def quartiles(self, clock: str) -> tuple[float, float]:
        """Return the lower and upper quartile of one clock's times in milliseconds."""
        values = self.samples(clock)
        if len(values) < 2:
            return values[0], values[0]
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return low, high

    def bandwidth(self, clock: str) -> float:
        """Return the bytes that the work needs divided by its time, per second."""
        return self.bytes / (1e-3 * self.median(clock))


def common_clock(*rows: Row) -> str:
    """Return the most exact clock that timed all of these rows."""
    for clock in CLOCKS:
        if all(row.samples(clock) for row in rows):
            return clock
    raise NotMeasured("no clock timed all of " + ", ".join(row.id for row in rows))


class Results:
    """A recorded run: the ``document`` as written, and its ``rows`` by id."""

    def __init__(self, document: dict):
        self.document = document
        self.rows = {record["id"]: Row.of(record) for record in document["rows"]}

    @property
    def example(self) -> str:
        """Return the reason why the data is made up for a test; empty for measured data."""
        return self.document.get("example", "")

    @property
    def where(self) -> str:
        """Return the GPU, driver and date in one line, or say that it is an example."""
        gpu = self.document.get("gpu") or {}
        driver = f", driver {gpu['driver']}" if gpu.get("driver") else ""
        told = f"{gpu.get('name', 'a GPU without a name')}{driver}, {self.document['date'][:10]}"
        return f"EXAMPLE, NOT MEASURED ({self.example})" if self.example else told

    def of(self, group: str, size: int | None = None) -> list[Row]:
        """Return the measured rows of a group at one size, by default its largest."""
        rows = [row for row in self.rows.values() if row.group == group and row.measured]
        if not rows:
            raise NotMeasured(f"the recorded run has no times of {group!r}")
        size = max(row.size for row in rows) if size is None else size
        return [row for row in rows if row.size == size]

    def row(self, group: str, contender: str, size: int | None = None) -> Row:
        """Return one measured row; raise :class:`NotMeasured` if it is missing or failed."""
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
        """Return the bytes per second that the fastest device copy reads and writes."""
        return max(row.bandwidth("device") for row in self.of("copy"))

    def times_as_fast(self, one: Row, other: Row) -> float:
        """Return how many times as fast ``one`` is as ``other``, by their best common clock."""
        clock = common_clock(one, other)
        return other.median(clock) / one.median(clock)


def read(path: Path) -> Results | None:
    """Read a recorded run; return None if there is no such file."""
    if not path.is_file():
        return None
    return Results(json.loads(path.read_text(encoding="utf-8")))


def recorded() -> Results | None:
    """Return the run that comes with the course, or None if nothing was measured yet."""
    return next((found for path in result_files(NAME) if (found := read(path))), None)
