"""Observers of launches: ``check()``, ``profile()``, ``trace()`` and ``schedule()``.

Each is a context manager that applies to the launches inside it. They can be nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from virtualgpu.lanes.events import Observer
from virtualgpu.lanes.schedule import Adversarial, Lockstep
from virtualgpu.launch.conditions import Conditions
from virtualgpu.launch.progress import Patience
from virtualgpu.launch.sampling import Sample

if TYPE_CHECKING:
    from virtualgpu.errors import Location
    from virtualgpu.findings import Report
    from virtualgpu.launch.limits import Budget
    from virtualgpu.watch.profiling import Profile
    from virtualgpu.watch.trace import Trace

_observers: list[Observer] = []
_schedules: list[Adversarial] = []
_shares: list[float] = []
_samples: list[Sample] = []
_listeners: list[Callable[[Location, float], None]] = []

LONG = 5.0  # seconds after which a launch counts as long


def observers() -> list[Observer]:
    """Return the observers of the next launch."""
    return list(_observers)


def watching() -> bool:
    """Return True if anything observes the next launch."""
    return bool(_observers)


def new_schedule() -> Lockstep | Adversarial:
    """Return the schedule of the next launch."""
    return _schedules[-1] if _schedules else Lockstep()


def next_launch(budget: Budget) -> Conditions:
    """Return the settings of the next launch on a device with ``budget``.

    :func:`hurried` reduces this budget.
    """
    if _shares:
        budget = replace(budget, seconds=budget.seconds * min(_shares))
    patience = Patience(_listeners[0], LONG) if _listeners else None
    sample = _samples[-1] if _samples else None
    return Conditions(observers(), new_schedule(), budget, patience, sample)


def tell_of_long_launches(listener: Callable[[Location, float], None] | None) -> None:
    """Call ``listener(location, seconds)`` from long launches; None removes the listener."""
    _listeners[:] = [listener] if listener else []


@contextmanager
def hurried(share: float) -> Iterator[None]:
    """Limit launches inside the context to the fraction ``share`` of the usual time."""
    _shares.append(share)
    try:
        yield
    finally:
        _shares.remove(share)


@contextmanager
def watch(*added: Observer) -> Iterator[None]:
    """Let observers see every launch inside the context."""
    _observers.extend(added)
    try:
        yield
    finally:
        for observer in added:
            _observers.remove(observer)


@contextmanager
def alone() -> Iterator[None]:
    """Hide observers and schedules from outside for launches inside the context."""
    observers, schedules = list(_observers), list(_schedules)
    _observers.clear()
    _schedules.clear()
    try:
        yield
    finally:
        _observers[:], _schedules[:] = observers, schedules


@contextmanager
def checkers(report: Report) -> Iterator[tuple[Observer, ...]]:
    """Yield the observers that fill ``report``.

    The observers can be reused until the context ends.
    """
    from virtualgpu.watch.checking import Recorder
    from virtualgpu.watch.clustercheck import Clustercheck
    from virtualgpu.watch.copycheck import Copycheck
    from virtualgpu.watch.initcheck import Initcheck
    from virtualgpu.watch.overflowcheck import Overflowcheck
    from virtualgpu.watch.racecheck import Racecheck
    from virtualgpu.watch.synccheck import Synccheck

    recorder, races = Recorder(report), Racecheck(report)
    try:
        yield (
            recorder,
            races,
            Copycheck(report),
            Synccheck(report),
            Clustercheck(report),
            Initcheck(report),
            Overflowcheck(report),
        )
    finally:
        races.close()
        recorder.close()


@contextmanager
def check(streams: Callable[[Report, Observer], Observer] | None = None) -> Iterator[Report]:
    """Implement ``virtualgpu.check()`` for kernels that run on the virtual GPU.

    ``streams(report, racecheck)`` returns the observer that finds missing synchronisation; by
    default there is none.
    """
    from virtualgpu.findings import Report

    report = Report()
    with checkers(report) as observers:
        # It comes first because, at the end of a launch, it uses Racecheck's records before they
        # are dropped.
        first = [streams(report, observers[1])] if streams else []
        with watch(*first, *observers):
            yield report


@contextmanager
def profile() -> Iterator[Profile]:
    """Count the work of every kernel that is launched inside the ``with``.

    >>> with virtualgpu.profile() as profile:
    ...     kernel[blocks, threads](a, b)
    >>> profile.launches[0].counters.global_sectors
    >>> print(profile)

    See :mod:`virtualgpu.watch.counters` for what the counts mean.
    """
    from virtualgpu.watch.profiling import Profile, Profiler

    result = Profile()
    with watch(Profiler(result)):
        yield result


@contextmanager
def trace(limit: int | None = None, threads=None, values: bool = False) -> Iterator[Trace]:
    """Record what the threads do, step by step, in small launches inside the ``with``.

    ``limit`` is the number of threads' steps that are kept for each launch (200,000 by default).
    ``threads`` selects the threads to record: a number of threads from the start of the grid, or an
    array of thread numbers (by default all). With ``values``, the values that they read and wrote
    are also kept. See :mod:`virtualgpu.watch.trace`.
    """
    from virtualgpu.watch.trace import LIMIT, Trace, Tracer

    result = Trace()
    with watch(Tracer(result, LIMIT if limit is None else limit, threads, values)):
        yield result


@contextmanager
def schedule(seed: int) -> Iterator[None]:
    """Run the launches inside the ``with`` in a random order that hardware may choose.

    Warps run in random order, and so do the lanes of a warp wherever they may diverge. A long
    launch ends in lockstep. The same seed and launches give the same order. Code that waits at the
    right barriers gives the same result with every seed, and code without one of them gives
    different results with some seeds.
    """
    order = Adversarial(seed)
    _schedules.append(order)
    try:
        yield
    finally:
        _schedules.remove(order)  # it may not be the last, because a fixture's may live on


@contextmanager
def sample(blocks: int = 8, seed: int = 0) -> Iterator[Sample]:
    """Run only some blocks of each launch inside the ``with``: first, last, and some at random.

    >>> with virtualgpu.sample(blocks=16) as sample:
    ...     kernel[2**25, 256](x)
    >>> print(sample)
    kernel ran 18 of its 33,554,432 blocks: the first, the last and some at random

    ``blocks`` are chosen at random, the same ones for the same ``seed`` and grid. What the other
    blocks would have written stays unwritten. A kernel whose blocks wait for each other needs them
    all: a cooperative launch raises LaunchError.
    """
    with sampled(Sample(blocks, seed)) as chosen:
        yield chosen


@contextmanager
def sampled(chosen: Sample) -> Iterator[Sample]:
    """Let ``chosen`` choose the blocks of launches inside the ``with``."""
    _samples.append(chosen)
    try:
        yield chosen
    finally:
        _samples.remove(chosen)
