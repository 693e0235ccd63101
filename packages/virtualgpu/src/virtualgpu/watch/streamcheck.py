"""Checker for missing synchronisation between streams, and between a stream and the host.

Two pieces of work on the same bytes, at least one of which writes, must be ordered. They are
ordered as follows (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Runtime
API, "Stream synchronization behavior"):

- The work of one stream is done in the order in which it was issued.
- Work that is issued to a stream after its ``wait`` for an event comes after all work that preceded
  the event's last ``record``. Waiting for an event that was never recorded has no effect.
- The legacy default stream waits for all other streams of its device, and they wait for it, except
  for non-blocking streams. A per-thread default stream is an ordinary stream.
- The host waits in ``synchronize`` of a stream, an event or a device, in a query that returns
  "done", and in synchronous copies (memsets and copies within a device are asynchronous). An
  asynchronous copy from a device to ordinary host memory is done when the call returns, and one
  from ordinary host memory has read its bytes. Whatever the host issues later comes after the work
  for which it has waited.

Each stream, each event and the host has a vector clock: for every stream, how much of its work is
complete before the next command. All threads of the host count as one.

The checker sees host accesses only if they use methods, functions and operators of NumPy, on arrays
that ``pinned_array``, ``mapped_array`` and similar functions created inside the ``with``. Of CuPy's
array expressions it sees the writes and the kernels, but not the reads. It does not see graphs. A
callback counts as a wait of the host for its stream.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from virtualgpu import sources
from virtualgpu.errors import Location
from virtualgpu.findings import Finding, Report
from virtualgpu.lanes.events import Observer
from virtualgpu.tracebacks import calling_line
from virtualgpu.watch import queues
from virtualgpu.watch.queues import LEGACY, PER_THREAD, Command
from virtualgpu.watch.racecheck import Racecheck

Key = tuple[int, ...]  # a stream: its device and handle, and for per-thread streams the thread
Clock = dict[Key, int]

READS, WRITES, UPDATES = "reads", "writes", "updates"  # updates are atomics


class Work(NamedTuple):
    """Effect of one command on memory.

    ``bytes_``: int64, shape (n, 2), sorted, from and to.
    """

    what: str
    verb: str
    bytes_: np.ndarray
    stream: Key
    number: int
    filename: str | None
    line: int | None

    @property
    def kernel(self) -> str:
        """Return the name of the kernel, or an empty string for any other command."""
        return self.what.removeprefix("kernel ") if self.what.startswith("kernel ") else ""

    @property
    def place(self) -> str:
        return f"{sources.name(self.filename)} line {self.line}"


class Streamcheck(Observer):
    """Checker that adds unordered work to a report, one finding for each pair of lines.

    Parameters
    ----------
    report : Report
    races : Racecheck
        Race detector of the same launches, whose records show the memory that they touched.
    number_of : callable
        ``number_of()`` returns the number of this thread's device.
    device_address : callable
        Returns the device address of a host address that a device can access, and any other
        address unchanged.
    """

    watches_host = True

    def __init__(self, report: Report, races: Racecheck, number_of, device_address):
        self.report, self._races = report, races
        races.recorded = True
        self._number_of, self._device_address = number_of, device_address
        self._lock = threading.RLock()
        self.streams: dict[Key, Clock] = {}
        self.events: dict[object, Clock] = {}
        self.host: Clock = {}
        self.pending: list[Work] = []
        self._names: dict[Key, str] = {}
        self._reported: set[tuple] = set()

    # -- commands ---------------------------------------------------------------------------------

    def launch_finished(self, launch) -> None:
        if (stream := queues.chosen()) is None:
            return
        accesses = []
        for start, granule, (writes, reads, strong) in self._races.touched():
            for verb, which in ((WRITES, writes), (READS, reads), (UPDATES, strong)):
                if len(spans := _spans(which)):
                    accesses.append((verb, spans * granule + start))
        self._work(stream, f"kernel {launch.kernel}", accesses)

    def host_wrote(self, address: int, nbytes: int) -> None:
        if (stream := queues.chosen()) is not None and nbytes:
            self._work(stream, "the work on an array", [(WRITES, _span(address, nbytes))])

    def commanded(self, command: Command) -> None:
        with self._lock:
            getattr(self, f"_{command.kind}")(command)

    def _copy(self, command: Command) -> None:
        target, origin = map(self._device_address, (command.target, command.origin))
        accesses = []
        if target:
            accesses.append((WRITES, _span(target, command.nbytes)))
        if origin:
            accesses.append((READS, _span(origin, command.nbytes)))
        what = "the copy" if command.origin or command.pageable else "the fill"
        self._work(command.stream, what, accesses)

    def _record(self, command: Command) -> None:
        self.events[command.event] = self._reached(self._key(command.stream))

    def _wait(self, command: Command) -> None:
        key = self._key(command.stream)
        clock = self._reached(key)
        _join(clock, self.events.get(command.event, {}))
        self.streams[key] = clock

    def _synchronize(self, command: Command) -> None:
        device = self._number_of()
        if command.stream is None:
            reached = [clock for key, clock in self.streams.items() if key[0] == device]
        elif (key := self._key(command.stream))[1] == LEGACY:
            reached = [self._reached(key)]
        else:
            reached = [self.streams.get(key, {})]
        for clock in reached:
            self._host_waits(clock)

    def _event(self, command: Command) -> None:
        self._host_waits(self.events.get(command.event, {}))

    def _read(self, command: Command) -> None:
        self._of_the_host(READS, command)

    def _write(self, command: Command) -> None:
        self._of_the_host(WRITES, command)

    def _freed(self, command: Command) -> None:
        """Treat arrays that are allocated in freed memory from now on as other arrays."""
        start, end = command.target, command.target + command.nbytes
        self.pending = [work for work in self.pending if not (start <= work.bytes_[0, 0] < end)]

    # -- clocks ----------------------------------------------------------------------------------

    def _key(self, stream: int | None) -> Key:
        assert stream is not None  # only the host waits for a device
        device = self._number_of()
        key: Key = (device, stream)
        if stream == PER_THREAD:
            key = (device, stream, threading.get_ident())
        elif stream != LEGACY:
            # A handle may be used while another device is current. The stream belongs to the device
            # on which the handle was first used.
            key = next((known for known in self._names if known[1:] == (stream,)), key)
        if key not in self._names:
            number = sum(name.startswith("stream") for name in self._names.values()) + 1
            self._names[key] = (
                "the default stream"
                if stream == LEGACY
                else "the thread's default stream"
                if stream == PER_THREAD
                else f"stream {number}"
            )
        return key

    def _reached(self, key: Key) -> Clock:
        """Return the work that is complete before the next command of a stream begins."""
        clock = dict(self.streams.get(key, {}))
        _join(clock, self.host)
        if key[1] not in queues.non_blocking:
            for other, its in self.streams.items():
                if (
                    other != key
                    and other[0] == key[0]
                    and other[1] not in queues.non_blocking
                    and (LEGACY in (key[1], other[1]))
                ):
                    _join(clock, its)
        return clock

    def _host_waits(self, clock: Clock) -> None:
        _join(self.host, clock)
        self.pending = [
            work for work in self.pending if self.host.get(work.stream, 0) < work.number
        ]

    # -- work ------------------------------------------------------------------------------------

    def _work(self, stream: int | None, what: str, accesses: list[tuple[str, np.ndarray]]) -> None:
        filename, line = calling_line()
        with self._lock:
            key = self._key(stream)
            clock = self._reached(key)
            number = clock[key] = clock.get(key, 0) + 1
            done = [
                Work(what, verb, bytes_, key, number, filename, line) for verb, bytes_ in accesses
            ]
            for new in done:
                self._look(new, clock)
            self.streams[key] = clock
            # A loop that issues the same work again and again is stored once.
            self.pending = [
                old
                for old in self.pending
                if not any(
                    old.stream == key
                    and old.verb == new.verb
                    and np.array_equal(old.bytes_, new.bytes_)
                    for new in done
                )
            ] + done

    def _of_the_host(self, verb: str, command: Command) -> None:
        filename, line = calling_line()
        address = self._device_address(command.target)
        self._look(
            Work("the host", verb, _span(address, command.nbytes), (), 0, filename, line), self.host
        )

    def _look(self, new: Work, clock: Clock) -> None:
        for old in self.pending:
            if clock.get(old.stream, 0) >= old.number or old.verb == new.verb != WRITES:
                continue
            if _meet(old.bytes_, new.bytes_):
                self._report(old, new)

    def _report(self, old: Work, new: Work) -> None:
        key = (old.filename, old.line, old.what, new.filename, new.line, new.what)
        if key in self._reported:
            return
        self._reported.add(key)
        message = _words(old, new, self._names)
        self.report.findings.append(
            Finding(
                "stream",
                message,
                new.kernel,
                new.filename,
                new.line,
                launch=self.report.launches,
                other=Location(old.kernel, old.filename, old.line),
            )
        )


def _words(old: Work, new: Work, names: dict[Key, str]) -> str:
    first = names[old.stream]
    verb = {
        READS: "may still be reading",
        WRITES: "may still be writing",
        UPDATES: "may still be updating",
    }[old.verb]
    before = f"{old.what} in {first} ({old.place})"
    if not new.stream:
        return (
            f"missing synchronisation: the host {new.verb} at {new.place} bytes that {before} "
            f"{verb}. Synchronise {first}, or an event recorded in it after that line, before "
            f"the host {new.verb}"
        )
    second = names[new.stream]
    return (
        f"missing synchronisation: {new.what} in {second} ({new.place}) {new.verb} bytes that "
        f"{before} {verb}: nothing orders the two. After the latter, record an event in {first}, "
        f"and let {second} wait for it before the former. You can also use one stream for both, or "
        f"synchronise {first} in between"
    )


def _join(clock: Clock, other: Clock) -> None:
    for key, number in other.items():
        if number > clock.get(key, 0):
            clock[key] = number


def _span(address: int, nbytes: int) -> np.ndarray:
    return np.array([[address, address + nbytes]], np.int64)


def _spans(which: np.ndarray) -> np.ndarray:
    """Return runs of true elements: int64, shape (n, 2), from and to."""
    edges = np.diff(which.astype(np.int8), prepend=0, append=0)
    return np.flatnonzero(edges).astype(np.int64).reshape(-1, 2)


def _meet(one: np.ndarray, two: np.ndarray) -> bool:
    """Return True if two sets of spans have a byte in common."""
    # For each span of `two`: the first span of `one` that ends after its start.
    at = np.searchsorted(one[:, 1], two[:, 0], side="right")
    inside = at < len(one)
    return bool((one[at[inside], 0] < two[inside, 1]).any())
