"""Measurement on a GPU, and the run of a group: prepared, checked, timed in turns.

Three clocks, each with all its samples kept [ms]:

``device``
    Between two CUDA events on the default stream. A kernel that only spins goes first, for twice as
    long as the host needs to queue the work, so that both events and all between them are queued
    before the GPU comes to them: what the host needs to launch is not in it, unless the work waits
    for the host itself.
``queue``
    The host's clock over many calls one after the other, until the device is done, for each call.
    JAX has streams of its own that our events do not see, so JAX has this and no ``device``.
    Whatever is compared with JAX is compared by this clock, which is the same for all: for work
    that takes longer than its launch it says what ``device`` says, and for smaller work what a
    program with many calls in a row would wait.
``call``
    The host's clock over one call until the device is done: how long one waits for the
    result. CPU programs, and those that copy, have this one alone.

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

#: Rounds at least and at most, and what calls in a row should come to [ms].
FEWEST, MOST, IN_A_ROW = 5, 31, 10.0
#: How long the first kernel spins, at least and at most [ms]; and cycles in a millisecond of a
#: faster clock than GPUs have, so that it spins no less.
SPIN, LONGEST_SPIN, CYCLES = 1.0, 20.0, 2_500_000


class Stopwatch(Protocol):
    """Protocol of a clock for :func:`measure`; times in milliseconds."""

    def device(self, run: Callable[[], Any], spin: float) -> float: ...
    def enqueue(self, run: Callable[[], Any]) -> float: ...
    def host(self, run: Callable[[], Any], calls: int, on_device: bool) -> float: ...


class GPUStopwatch:
    """CUDA events by CuPy, and the host's clock."""

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
        """Return milliseconds between two events around ``run``, after ``spin`` ms of waiting."""
        start, stop = self._cp.cuda.Event(), self._cp.cuda.Event()
        self._spin((1,), (1,), (self._cp.int64(spin * CYCLES),))
        start.record()
        result = run()
        stop.record()
        stop.synchronize()
        del result  # not before: its memory must not be given away meanwhile
        return float(self._cp.cuda.get_elapsed_time(start, stop))

    def enqueue(self, run: Callable[[], Any]) -> float:
        """Return the host's milliseconds for a call, even if the device is not done."""
        self.finish(None)
        start = time.perf_counter()
        result = run()
        took = time.perf_counter() - start
        self.finish(result)
        return took * 1e3

    def host(self, run: Callable[[], Any], calls: int, on_device: bool) -> float:
        """Return milliseconds for each of so many calls, until the last one is done.

        Of all that may leave work to the device, copies too: from pinned memory
        ``cupy.ndarray.set`` returns at once.
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
        """Wait for a result of JAX's, or several, and for all streams of the device."""
        for one in result if isinstance(result, tuple | list) else (result,):
            if hasattr(one, "block_until_ready"):  # JAX may not have queued it yet
                one.block_until_ready()
        self._cp.cuda.runtime.deviceSynchronize()


@dataclass
class Timed:
    """A contender that was checked, and its samples [ms]."""

    contender: Contender
    ready: Ready
    device_ms: list[float] = field(default_factory=list)
    queue_ms: list[float] = field(default_factory=list)
    call_ms: list[float] = field(default_factory=list)
    calls: int = 1  # in a row, in each sample of queue_ms
    spin: float = SPIN  # ms before each sample of device_ms
    rounds: int = MOST
    error: str = ""


def make_ready(contender: Contender) -> Timed:
    """Make a contender, run it once and check what came out. Raises what it raises."""
    ready = contender.make()
    ready.check(ready.run())
    return Timed(contender, ready)


def plan(timed: Timed, watch: Stopwatch, patience: float) -> None:
    """Choose rounds and calls in a row such that this contender takes ``patience`` s, or less."""
    on_device = timed.contender.clock != "call"
    waits = timed.contender.made_by != "CPU"
    once = watch.host(timed.ready.run, 1, waits)
    if once < 1000:  # the first may still have found something to set up
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
    """Time contenders in turns; one that raises is left out from then on and keeps its error.

    With no time left, the rounds end after the third.
    """
    for timed in contenders:
        _guarded(timed, lambda timed=timed: plan(timed, watch, patience))
    gc.collect()
    gc.disable()
    try:
        for turn in range(MOST):
            if turn >= 3 and time_left() <= 0:
                break
            # Another one begins each round: none always runs after the same neighbour.
            first = turn % max(1, len(contenders))
            for timed in contenders[first:] + contenders[:first]:
                if turn < timed.rounds and not timed.error:
                    _guarded(timed, lambda timed=timed: sample(timed, watch))
    finally:
        gc.enable()


def sample(timed: Timed, watch: Stopwatch) -> None:
    """Take one more sample by each of a contender's clocks."""
    run, clock = timed.ready.run, timed.contender.clock
    if clock == "events":
        timed.device_ms.append(watch.device(run, timed.spin))
    timed.call_ms.append(watch.host(run, 1, timed.contender.made_by != "CPU"))
    if clock != "call":
        alone = timed.calls == 1  # one call in a row is one call
        timed.queue_ms.append(timed.call_ms[-1] if alone else watch.host(run, timed.calls, True))


def _guarded(timed: Timed, action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:  # its own row says so; the others go on
        timed.error = told(error)


def told(error: BaseException) -> str:
    """Return an error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:400]}" if lines else type(error).__name__
