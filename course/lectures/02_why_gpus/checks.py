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
        "The idea: while one answer is on its way, for `latency` seconds, the memory could have delivered "
        "`latency * bandwidth` bytes. That many must be under way.",
        "The shape: those bytes, divided by the bytes that each thread waits for, rounded up: "
        "`math.ceil(…)`.",
    ),
)
def in_flight(threads_needed):
    """The number of threads is latency times bandwidth, divided by the bytes of each thread."""
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
            f"{case}, it says {number(threads, 7)}; {number(under_way, 6)} bytes must be under way, and that takes "
            f"{many(expected, 'thread')}",
            look=_where_threads_go_wrong(threads, under_way, bytes_each),
        )


def _where_threads_go_wrong(threads, under_way, bytes_each):
    if threads == under_way / bytes_each + 1:
        return "it comes out even, so nothing is rounded: `int(x) + 1` is one too many there"
    if math.isclose(threads, under_way, rel_tol=1e-3):
        return "these are bytes; each thread waits for several"
    if abs(threads - under_way / bytes_each) < 1:
        return "the next whole number: part of a thread does not exist, and one too few is too few"
    return "latency times bandwidth is what must be under way"


class CountingFerry:
    """As the lecture's Ferry, and it refuses what does not belong on that side.

    What it carries passes through `exchange`, which hears of the device's operations.
    """

    def __init__(self, exchange=None, operations=lambda: 0):
        self.bytes = self.there_bytes = self.trips = 0
        self.past = 0  # bytes that were fetched without it
        self.exchange, self.operations, self.done = exchange or ToTheLastLaunch(), operations, 0
        self.last = None  # what came back, before the exchange

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
        """Tell the exchange of what the device has done since the last time."""
        if self.operations() > self.done:
            self.done = self.operations()
            self.exchange.launched()

    def _count(self, array):
        self.bytes += array.nbytes
        self.trips += 1

    @contextmanager
    def noticing(self):
        """Count what is fetched without the ferry. Only the stand-in's arrays can tell, not a GPU's."""
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
        "The idea: transfer `heat` to the device before the loop and back after it. Inside the loop there "
        "is only an array on the device. Its `max()` is also an array on the device, with a single number.",
        "The shape: `d_heat = ferry.there(heat)`; in the loop `d_heat = smooth(d_heat)` and "
        "`hottest[step] = ferry.back(…)`; after it `heat = ferry.back(d_heat)`.",
    ),
)
def ferry(relax):
    """The temperatures are right, and all of them crossed once in each direction."""
    random = np.random.default_rng(12)
    for n, steps in ((100, 7), (1, 3), (2, 2), (33, 1), (31, 0), (1000, 20)):
        heat = random.uniform(0, 100, n)
        before, carrier = heat.copy(), CountingFerry()
        with carrier.noticing(), virtualgpu.launches() as listed, virtualgpu.profile() as profile:
            answer = relax(carrier, heat, steps)
        answer = pair(answer, "temperatures and the hottest ones",
                      look="look at the last line: it should be `return heat, hottest`")
        case = f"with {many(n, 'rod')} and {many(steps, 'step')}"
        _judge_heat(answer, before, steps, case)
        require(
            np.array_equal(heat, before),
            f"{case}, the answers are right, but the temperatures that came in have changed",
            look=("assign the array that comes back to the name, `heat = …`, instead of "
                "writing into it with `heat[:] = …`"),
        )
        allowed = 16 * n + 8 * steps
        require(
            carrier.bytes >= 16 * n and carrier.there_bytes >= 8 * n,
            f"{case}, the answers are right, but only {many(carrier.bytes, 'byte')} went by the ferry"
            + (f", and {carrier.past:,} past it: float(…), .get() and .item() carry too"
               if carrier.past else ""),
            look="do the work on the device: ferry.there() and ferry.back() transfer the array",
        )
        require(
            carrier.bytes <= allowed,
            f"{case}, the answers are right, but {many(carrier.bytes, 'byte')} crossed in "
            f"{carrier.trips} trips where {allowed:,} would do",
            look="which lines inside the loop transfer data?",
        )
        # NumPy may ask for the maximum of a step by itself: `hottest[step] = d_heat.max()`.
        require(
            carrier.past <= 8 * steps,
            f"{case}, the answers are right, but {many(carrier.past, 'byte')} crossed past the ferry",
            look="`.get()`, `.tolist()`, `cp.asnumpy(…)` and `float(…)` also transfer data: find the "
                 "maximum on the device, and bring back that one number",
        )
        ran = len(listed) + len(profile.launches)
        in_one_kernel = profile.counters.flops >= 3 * n * steps  # two sums and a product each
        require(
            ran >= steps or in_one_kernel or not virtualgpu.answers(),  # a real GPU keeps no list
            f"{case}, the answers are right, but the device did {many(ran, 'operation')} for "
            f"{many(steps, 'step')}: NumPy computed them on the host",
            look="call `smooth` with the array that `ferry.there(heat)` returned, not with `heat`",
        )
    _require_carried(relax, random)


def _require_carried(relax, random):
    """Require that the temperatures that come back are of those that the ferry carried there."""
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
                require(False, "called twice with the same temperatures, `relax` does not carry "
                               "the same")
        exchange = ToTheLastLaunch([(heat, others)], [_hotter(one) for one in exchange.before])
    if not virtualgpu.answers():  # a real GPU keeps no list of its operations
        return
    expected = others
    for _ in range(9):
        expected = (np.roll(expected, 1) + expected + np.roll(expected, -1)) / 3
    require(
        # Who fetches the others as they are works with them on the host.
        np.allclose(answers[1][0], expected, rtol=1e-12)
        and not np.array_equal(carrier.last, others),
        f"with 1,009 rods and 9 steps, the answers are right, but {HOST}: the device was given "
        "other temperatures, and the answer did not change with them",
        look="call `smooth` with the array that `ferry.there(heat)` returned, not with `heat`",
    )
    require(
        not np.any(answers[0][1] == answers[1][1]),
        "with 1,009 rods and 9 steps, the answers are right, but the hottest ones were "
        "computed on the host: the device gave others, and the answer did not change with them",
        look=("take the maximum of the array that `smooth` made on the device, and bring "
             "it back as one number"),
    )


def _hotter(raw):
    """What the host hears of single temperatures in the second call: another one."""
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
            f"the {what} are {a_or_an(type(got).__module__)}.{type(got).__name__}, not NumPy's array",
            look="convert the list with `np.array(…)`"
            if isinstance(got, list)
            else "bring them back before you return them",
        )
        require(
            got.shape == expected.shape and np.allclose(got, expected, rtol=1e-12),
            f"{case}, the {what} are wrong",
            look="call `smooth` once in each step, and take the maximum after it",
        )


@exercise(
    "crossover",
    hints=(
        "The idea: every element saves `cpu_each - gpu_each` seconds, and together they must pay for the "
        "starts. What if they save nothing?",
        "The shape: `if gain <= 0: return None`, else `math.ceil(starts * START / gain)`.",
    ),
)
def crossover(answer):
    """The size from which the elements pay for the starts is right, and None where there is no such size."""
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
                f"{case}, it says {got}, but the GPU loses at any size",
                look="which of the two saves time with each further element?",
            )
            continue
        expected = math.ceil(starts * START / (cpu_each - gpu_each))
        require(
            got is not None,
            f"{case}, it says None; from {many(expected, 'element')} on the GPU wins",
            look="`return` the size; None means that there is none",
        )
        require(
            got == expected,
            f"{case}, it says {got:g}, not {expected:,}",
            look=_where_a_crossover_goes_wrong(got, expected, starts, cpu_each - gpu_each),
        )


def _where_a_crossover_goes_wrong(got, expected, starts, gain):
    if math.isclose(got * START, expected, rel_tol=1e-3):
        return "`starts` counts them; each takes START seconds"
    if got == expected + 1 and expected * gain == starts * START:
        return (f"at {expected:,} both take the same time, and that is *no longer*: `int(x) + 1` is "
                "one too many where it comes out even")
    return ("the smallest whole n with starts * START + n * gpu_each <= n * cpu_each: what about "
            "one less, and what about fractions?")
