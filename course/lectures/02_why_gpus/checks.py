"""Checks and hints of "Why GPUs, and when not"."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.judging.exchange import Diverged
from gpucourse.exercises.host_side import HOST, ROOM, ToTheLastLaunch
from gpucourse.wording import a_or_an, number, seconds
from gpucourse.wording import many

#: Seconds to start a kernel or a copy, as the lecture assumes.
START = 4e-6


@exercise(
    "in-flight",
    hints=(
        "The idea: in the `latency` seconds that one number takes to arrive, the memory can deliver "
        "`latency * bandwidth` bytes. That many bytes must be in flight.",
        "The shape: divide the bytes in flight by the bytes that each thread waits for, and round up "
        "with `math.ceil(…)`.",
    ),
)
def in_flight(threads_needed):
    """The number is right: latency times bandwidth, divided by the bytes of each thread."""
    random = np.random.default_rng(11)
    for latency, bandwidth, bytes_each in (
        (1e-6, 1.0005e9, 8), (2.5e-7, 3.35e12, 8), (2.5e-7, 3.35e12, 16), (4e-7, 3.3007e11, 8),
        (1e-7, 4.603e11, 64), (1e-9, 1e9, 8),
        (0.25, 4000, 8), (0.5, 16, 8),  # these come out even, to the last bit
        (0.5, 2_000_002, 10**6),  # one thread and a millionth
        *((float(random.uniform(1e-9, 1e-6)), float(random.uniform(1e9, 5e12)),
           int(random.choice([4, 8, 16, 64]))) for _ in range(20)),
    ):
        case = f"with {seconds(latency)}, {number(bandwidth, 5)} bytes/s and {many(bytes_each, 'byte')} each"
        threads = threads_needed(latency, bandwidth, bytes_each)
        require(threads is not None, "the function returns nothing", look=("end the function with a `return`"))
        under_way = latency * bandwidth
        expected = math.ceil(under_way / bytes_each - 1e-9)
        require(
            threads == expected,
            f"{case}, it returns {number(threads, 7)}, but {number(under_way, 6)} bytes must be in flight, and that takes "
            f"{many(expected, 'thread')}",
            look=_where_threads_go_wrong(threads, under_way, bytes_each),
        )


def _where_threads_go_wrong(threads, under_way, bytes_each):
    if threads == under_way / bytes_each + 1:
        return "the division comes out even here, so nothing is rounded, and `int(x) + 1` is one too many"
    if math.isclose(threads, under_way, rel_tol=1e-3):
        return "this is the number of bytes in flight, but each thread waits for several bytes"
    if abs(threads - under_way / bytes_each) < 1:
        return "round up to the next whole number, because with one thread fewer the memory is not busy"
    return "latency times bandwidth is the number of bytes that must be in flight"


class CountingFerry:
    """The lecture's `Ferry`, which also rejects arrays that are on the wrong side.

    It passes the transferred arrays through `exchange` and reports the device's operations to it.
    """

    def __init__(self, exchange=None, operations=lambda: 0):
        self.bytes = self.there_bytes = self.trips = 0
        self.past = 0  # bytes that were transferred without the ferry
        self.exchange, self.operations, self.done = exchange or ToTheLastLaunch(), operations, 0
        self.last = None  # the array that came back, before the exchange

    def there(self, array):
        import cupy as cp

        require(
            isinstance(array, np.ndarray | np.generic),
            f"ferry.there() was given {a_or_an(type(array).__module__)}.{type(array).__name__}",
            look="pass a NumPy array to `there`",
        )
        self.there_bytes += array.nbytes
        self._count(array)
        array = np.asarray(array)
        raw = self.exchange.to_device(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        return cp.asarray(raw.view(array.dtype).reshape(array.shape))

    def back(self, d_array):
        import cupy as cp

        require(
            isinstance(d_array, cp.ndarray),
            f"ferry.back() was given {a_or_an(type(d_array).__module__)}.{type(d_array).__name__}",
            look="pass an array on the device to `back`",
        )
        self._count(d_array)
        self.tell_operations()
        past, fetched = self.past, cp.asnumpy(d_array)
        self.past = past
        raw = self.exchange.to_host(np.ascontiguousarray(fetched).reshape(-1).view(np.uint8))
        self.last = fetched
        return raw.view(fetched.dtype).reshape(fetched.shape)

    def tell_operations(self):
        """Report to the exchange the operations of the device since the last call."""
        if self.operations() > self.done:
            self.done = self.operations()
            self.exchange.launched()

    def _count(self, array):
        self.bytes += array.nbytes
        self.trips += 1

    @contextmanager
    def noticing(self):
        """Count the bytes copied without the ferry. Only the stand-in's arrays report them."""
        import cupy as cp

        if not virtualgpu.answers():
            yield
            return
        def noting(fetch):
            def fetched(array, *arguments, **options):
                self.past += array.nbytes
                return fetch(array, *arguments, **options)

            return fetched

        with ExitStack() as patches:
            for way in ("get", "tolist", "tobytes", "item", "__float__", "__int__", "__bool__"):
                noted = noting(getattr(cp.ndarray, way))
                patches.enter_context(mock.patch.object(cp.ndarray, way, noted))
            yield


@exercise(
    "ferry",
    hints=(
        "The idea: transfer `heat` to the device before the loop, and back after the loop. Inside the loop, "
        "use only the array on the device. Its `max()` is also an array on the device, with a single number.",
        "The shape: `d_heat = ferry.there(heat)`; in the loop `d_heat = smooth(d_heat)` and "
        "`hottest[step] = ferry.back(…)`; after it `heat = ferry.back(d_heat)`.",
    ),
)
def ferry(relax):
    """The temperatures are right, and they crossed the link only once in each direction."""
    random = np.random.default_rng(12)
    for n, steps in ((100, 7), (1, 3), (2, 2), (33, 1), (31, 0), (1000, 20)):
        heat = random.uniform(0, 100, n)
        before, carrier = heat.copy(), CountingFerry()
        with carrier.noticing(), virtualgpu.launches() as listed, virtualgpu.profile() as profile:
            answer = relax(carrier, heat, steps)
        answer = pair(answer, "temperatures and the hottest ones",
                      look="end the function with `return heat, hottest`")
        case = f"with {many(n, 'rod')} and {many(steps, 'step')}"
        _judge_heat(answer, before, steps, case)
        require(
            np.array_equal(heat, before),
            f"{case}, the answers are right, but the array that was passed to `relax` has changed",
            look=("assign the array that comes back with `heat = …` instead of writing into the "
                "array that was passed, with `heat[:] = …`"),
        )
        allowed = 16 * n + 8 * steps
        require(
            carrier.bytes >= 16 * n and carrier.there_bytes >= 8 * n,
            f"{case}, the answers are right, but only {many(carrier.bytes, 'byte')} went by the ferry"
            + (f", and {carrier.past:,} went past it, because float(…), .get() and .item() also transfer"
               if carrier.past else ""),
            look="transfer the array with ferry.there() and ferry.back(), and call `smooth` on the device",
        )
        require(
            carrier.bytes <= allowed,
            f"{case}, the answers are right, but {many(carrier.bytes, 'byte')} crossed in "
            f"{carrier.trips} trips where {allowed:,} would do",
            look="find the lines inside the loop that transfer data. All temperatures have to be "
                 "transferred only before the loop and after it",
        )
        # NumPy converts the maximum of a step to a number in `hottest[step] = d_heat.max()`.
        require(
            carrier.past <= 8 * steps,
            f"{case}, the answers are right, but {many(carrier.past, 'byte')} were transferred without the ferry",
            look="`.get()`, `.tolist()`, `cp.asnumpy(…)` and `float(…)` also transfer data. Find the "
                 "maximum on the device, and copy back only that number",
        )
        ran = len(listed) + len(profile.launches)
        in_one_kernel = profile.counters.flops >= 3 * n * steps  # two sums and a product each
        require(
            ran >= steps or in_one_kernel or not virtualgpu.answers(),  # a real GPU keeps no list
            f"{case}, the answers are right, but the device did {many(ran, 'operation')} for "
            f"{many(steps, 'step')}, so NumPy computed the steps on the host",
            look="call `smooth` with the array that `ferry.there(heat)` returned, not with `heat`",
        )
    _require_carried(relax, random)


def _require_carried(relax, random):
    """Require answers that are computed from the temperatures that the ferry transferred."""
    heat, others = random.uniform(0, 100, (2, 1009))
    answers, exchange = [], ToTheLastLaunch(room=ROOM)
    for _ in range(2):
        with virtualgpu.launches() as listed, virtualgpu.profile() as profile:
            def operations(listed=listed, profile=profile):
                return len(listed) + len(profile.launches)

            carrier = CountingFerry(exchange, operations)
            try:
                answers.append(relax(carrier, heat.copy(), 9))
                carrier.tell_operations()
            except Diverged:
                require(False, "called twice with the same temperatures, `relax` does not transfer "
                               "the same arrays both times")
        exchange = ToTheLastLaunch([(heat, others)], [_hotter(one) for one in exchange.before])
    if not virtualgpu.answers():  # a real GPU keeps no list of its operations
        return
    expected = others
    for _ in range(9):
        expected = (np.roll(expected, 1) + expected + np.roll(expected, -1)) / 3
    require(
        # An answer that copies the other temperatures back unchanged computes on the host.
        np.allclose(answers[1][0], expected, rtol=1e-12)
        and not np.array_equal(carrier.last, others),
        f"with 1,009 rods and 9 steps, the answers are right, but {HOST}: the device was given "
        "different temperatures, and the answer did not change with them",
        look="call `smooth` with the array that `ferry.there(heat)` returned, not with `heat`",
    )
    require(
        not np.any(answers[0][1] == answers[1][1]),
        "with 1,009 rods and 9 steps, the answers are right, but the hottest ones were "
        "computed on the host: the device returned different ones, and the answer did not change with them",
        look=("find the maximum on the device, in the array that `smooth` returned, and copy "
             "only that number back"),
    )


def _hotter(raw):
    """Return the bytes with 1 added to the number, if they are a single temperature."""
    return (raw.view(np.float64) + 1).view(np.uint8) if raw.nbytes == 8 else raw


def _judge_heat(answer, heat, steps, case):
    hottest = []
    for _ in range(steps):
        heat = (np.roll(heat, 1) + heat + np.roll(heat, -1)) / 3
        hottest.append(heat.max())
    for got, expected, what in zip(
        answer, (heat, np.array(hottest)), ("temperatures", "hottest ones"), strict=True
    ):
        require(
            isinstance(got, np.ndarray),
            f"the {what} are {a_or_an(type(got).__module__)}.{type(got).__name__}, not a NumPy array",
            look="convert the list with `np.array(…)`"
            if isinstance(got, list)
            else "copy them back to the host before you return them",
        )
        require(
            got.shape == expected.shape and np.allclose(got, expected, rtol=1e-12),
            f"{case}, the {what} are wrong",
            look="call `smooth` once in each step, and take the maximum after it",
        )


@exercise(
    "crossover",
    hints=(
        "The idea: every element saves `cpu_each - gpu_each` seconds, and all elements together must save "
        "at least the time of the starts. What should happen if an element saves nothing?",
        "The shape: `if gain <= 0: return None`, and otherwise return `math.ceil(starts * START / gain)`.",
    ),
)
def crossover(answer):
    """The crossover is right, and None is returned where no size helps."""
    random = np.random.default_rng(13)
    for starts, gpu_each, cpu_each in (
        (4, 1.575e-9, 5e-10), (4, 4e-10, 1.13e-9), (400, 1e-9, 1e-9), (103, 7e-9, 4.007e-7),
        (1, 0.0, 3e-9), (5000, 2e-11, 1.1e-7),
        (8, 0.0, 1e-6), (8, 1e-6, 2e-6),  # these come out even, to the last bit
        *((int(random.integers(1, 999)), *map(float, random.uniform(1e-11, 1e-8, 2)))
          for _ in range(20)),
    ):
        got = answer(starts, gpu_each, cpu_each)
        case = (f"with {starts} starts, {gpu_each * 1e9:g} ns on the GPU and {cpu_each * 1e9:g} ns "
                "on the CPU for each element")
        if cpu_each <= gpu_each:
            require(
                got is None,
                f"{case}, it returns {got}, but the GPU loses at any size",
                look="each further element takes at least as long on the GPU as on the CPU, so return None",
            )
            continue
        expected = math.ceil(starts * START / (cpu_each - gpu_each))
        require(
            got is not None,
            f"{case}, it returns None, but the GPU wins from {many(expected, 'element')} on",
            look="`return` the size. None means that there is no such size",
        )
        require(
            got == expected,
            f"{case}, it returns {got:g} instead of {expected:,}",
            look=_where_a_crossover_goes_wrong(got, expected, starts, cpu_each - gpu_each),
        )


def _where_a_crossover_goes_wrong(got, expected, starts, gain):
    if math.isclose(got * START, expected, rel_tol=1e-3):
        return "`starts` is the number of starts, and each of them takes START seconds"
    if got == expected + 1 and expected * gain == starts * START:
        return (f"at {expected:,} both take the same time, so the GPU takes *no longer*. `int(x) + 1` is "
                "one too many where the division comes out even")
    return ("find the smallest whole n with starts * START + n * gpu_each <= n * cpu_each, and check "
            "that n - 1 does not satisfy this, and that n is not a fraction")
