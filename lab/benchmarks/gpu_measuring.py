"""Measurement on a GPU, and the run of a group: prepared, checked and timed in turns.

There are three clocks, and all samples of each are kept [ms]:

``device``
    The time between two CUDA events on the default stream. A kernel that only spins runs first,
    for twice as long as the host needs to queue the work. Both events and all work between them
    are therefore queued before the GPU reaches them, so the host's launch time is not included
    unless the work itself waits for the host.
``queue``
    The host's time per call, for many consecutive calls until the device is done. JAX has its own
    streams, which our events do not cover, so JAX has this clock and no ``device``. All
    comparisons with JAX use this clock, which is the same for all contenders. For work that takes
    longer than its launch it agrees with ``device``; for smaller work it is the time that a
    program with many consecutive calls would wait.
``call``
    The host's time for one call until the device is done, which is how long one waits for the
    result. CPU programs and programs that copy have only this clock.

The contenders of a group take turns, round by round, after each was warmed up and checked.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from lab.benchmarks.gpu_work import Contender, Ready

#: The minimum and maximum number of rounds, and the total time of consecutive calls [ms].
FEWEST, MOST, IN_A_ROW = 5, 31, 10.0
#: The minimum and maximum time that the first kernel spins [ms], and the cycles in a millisecond
#: for a clock faster than any GPU's, so that it never spins too briefly.
SPIN, LONGEST_SPIN, CYCLES = 1.0, 20.0, 2_500_000


class Stopwatch(Protocol):
    """Protocol of a clock for :func:`measure`; times in milliseconds."""

    def device(self, run: Callable[[], Any], spin: float) -> float: ...
    def enqueue(self, run: Callable[[], Any]) -> float: ...
    def host(self, run: Callable[[], Any], calls: int, on_device: bool) -> float: ...


class GPUStopwatch:
    """Clock made of CUDA events from CuPy and the host's clock."""

    def __init__(self):
        import cupy as cp

        self._cp = cp
        self._spin = cp.RawKernel(
            'extern "C" __global__ void spin(long long cycles)'
            " { long long start = clock64(); while (clock64() - start < cycles) { } }",
            "spin",
        )
        self.device(lambda: None, 0.0)

    def device(self, run: Callable[[], Any], spin: float) -> float:
        """Return the milliseconds between events around ``run``, after ``spin`` ms of waiting."""
        start, stop = self._cp.cuda.Event(), self._cp.cuda.Event()
        self._spin((1,), (1,), (self._cp.int64(spin * CYCLES),))
        start.record()
        result = run()
        stop.record()
        stop.synchronize()
        del result  # only now, so that its memory is not reused meanwhile
        return float(self._cp.cuda.get_elapsed_time(start, stop))

    def enqueue(self, run: Callable[[], Any]) -> float:
        """Return the host's milliseconds to enqueue a call, even if the device is not done."""
        self.finish(None)
        start = time.perf_counter()
        result = run()
        took = time.perf_counter() - start
        self.finish(result)
        return took * 1e3

    def host(self, run: Callable[[], Any], calls: int, on_device: bool) -> float:
        """Return the milliseconds per call of consecutive calls, until the last one is done.

        It also waits for copies, because ``cupy.ndarray.set`` from pinned memory returns at once.
        """
        result = None
        if on_device:
            self.finish(None)
        start = time.perf_counter()
        for _ in range(calls):
            result = run()
        if on_device:
            self.finish(result)
        return (time.perf_counter() - start) / calls * 1e3

    def finish(self, result: Any) -> None:
        """Wait for one or several JAX results, and for all streams of the device."""
        for one in result if isinstance(result, tuple | list) else (result,):
            if hasattr(one, "block_until_ready"):  # JAX may not have queued the work yet
                one.block_until_ready()
        self._cp.cuda.runtime.deviceSynchronize()


@dataclass
class Timed:
    """Contender that has been checked, with its samples [ms]."""

    contender: Contender
    ready: Ready
    device_ms: list[float] = field(default_factory=list)
    queue_ms: list[float] = field(default_factory=list)
    call_ms: list[float] = field(default_factory=list)
    calls: int = 1  # consecutive calls in each sample of queue_ms
    spin: float = SPIN  # ms before each sample of device_ms
    rounds: int = MOST
    error: str = ""


def make_ready(contender: Contender) -> Timed:
    """Prepare a contender, run it once and check its result. Errors are passed on."""
    ready = contender.make()
    ready.check(ready.run())
    return Timed(contender, ready)


def plan(timed: Timed, watch: Stopwatch, patience: float) -> None:
    """Choose rounds and consecutive calls so that this contender takes at most ``patience`` s."""
    on_device = timed.contender.clock != "call"
    waits = timed.contender.made_by != "CPU"
    once = watch.host(timed.ready.run, 1, waits)
    if once < 1000:  # the first call may include setup
        once = min(once, watch.host(timed.ready.run, 1, waits))
    if timed.contender.clock == "events":
        timed.spin = max(SPIN, min(LONGEST_SPIN, 2 * watch.enqueue(timed.ready.run)))
    timed.calls = max(1, min(200, math.ceil(IN_A_ROW / max(once, 1e-3)))) if on_device else 1
    a_round = once * (1 + (timed.calls > 1) * timed.calls + on_device) + timed.spin * on_device
    fewest = FEWEST if a_round < 500 else 3
    timed.rounds = max(fewest, min(MOST, int(patience * 1e3 / a_round)))


def measure(
    contenders: list[Timed],
    watch: Stopwatch,
    patience: float,
    time_left: Callable[[], float] = lambda: math.inf,
) -> None:
    """Time contenders in turns.

    A contender that raises an error keeps that error and is left out afterwards. If no time is
    left, the rounds end after the third.
    """
    for timed in contenders:
        _guarded(timed, lambda timed=timed: plan(timed, watch, patience))
    gc.collect()
    gc.disable()
    try:
        for turn in range(MOST):
            if turn >= 3 and time_left() <= 0:
                break
            # Each round begins with a different contender, so that none always has the same
            # predecessor.
            first = turn % max(1, len(contenders))
            for timed in contenders[first:] + contenders[:first]:
                if turn < timed.rounds and not timed.error:
                    _guarded(timed, lambda timed=timed: sample(timed, watch))
    finally:
        gc.enable()


def sample(timed: Timed, watch: Stopwatch) -> None:
    """Take one more sample with each of a contender's clocks."""
    run, clock = timed.ready.run, timed.contender.clock
    if clock == "events":
        timed.device_ms.append(watch.device(run, timed.spin))
    timed.call_ms.append(watch.host(run, 1, timed.contender.made_by != "CPU"))
    if clock != "call":
        alone = timed.calls == 1  # a single consecutive call is the same as one call
        timed.queue_ms.append(timed.call_ms[-1] if alone else watch.host(run, timed.calls, True))


def _guarded(timed: Timed, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:  # its own row reports the error; the others continue
        timed.error = told(error)


def told(error: BaseException) -> str:
    """Return an error as one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:400]}" if lines else type(error).__name__
