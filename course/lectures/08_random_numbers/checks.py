"""Checks and hints of "Random numbers in parallel"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.trials import LEFTOVER, LENGTHS, launched, require_parallel
from gpucourse.wording import is_not, many, number


@exercise(
    "estimate",
    hints=(
        "The idea: each thread has its own estimate, four times its hits divided by its points. π is the "
        "mean of these estimates, and its error follows from their spread.",
        "The shape: `each = 4 * hits / points`, `each.mean()`, and `each.std(ddof=1)` divided by "
        "the root of the number of threads.",
    ),
)
def estimate(estimate):
    """π and its error are right: the error falls with the square root of the number of threads."""
    random = np.random.default_rng(71)
    for threads, points in ((2, 10), (129, 64), (4096, 64), (1009, 200)):
        hits = random.binomial(points, math.pi / 4, threads)
        given = hits.copy()
        pi, error = pair(estimate(given, points), "two numbers: π and its error",
                         "`return pi, error`, which are two numbers")
        each = 4 * hits / points
        case = f"with {many(threads, 'thread')} of {many(points, 'point')}"
        require(
            np.isclose(pi, each.mean()),
            f"{case}, π {is_not(pi, each.mean())}",
            look="π is four times the share of the points inside",
        )
        right = each.std(ddof=1) / math.sqrt(threads)
        require(
            not np.isclose(error, each.std(ddof=1)),
            f"{case}, {error:.3g} is the spread of single threads, not the error of their mean",
            look="divide the spread by the square root of the number of threads",
        )
        require(
            np.isclose(error, right),
            f"{case}, the error {is_not(error, right)}",
            look=("the error is the standard deviation (ddof=1) of the threads' own estimates, "
                "divided by the square root of the number of threads"),
        )
        _require_as_given(given, hits, "hits", case)


@exercise(
    "counter",
    hints=(
        "The idea: number the draws, not the threads. Each point needs two draws, so find two numbers that "
        "belong only to point `i`.",
        "The shape: in the loop of `fill`, `random(key, 2 * i)` for x and `random(key, 2 * i + 1)` "
        "for y.",
    ),
)
def counter(kernel):
    """Every launch gives the same points, and no number is used twice."""
    key = np.uint64(99)
    shapes = ((2, 64), (1, 32), (3, 33), (9, 128))
    for n in LENGTHS:
        found = []
        for blocks, threads in shapes:
            start = np.full(n, float(LEFTOVER))
            _, x, y = launched(kernel, blocks, threads, key, start, start.copy(), seeds=())
            case = f"with {many(n, 'point')} and a launch of [{blocks}, {threads}]"
            _require_written(x, y, case)
            found.append((x, y))
        for (blocks, threads), points in zip(shapes[1:], found[1:], strict=True):
            require(
                np.array_equal(found[0], points),
                f"with {many(n, 'point')}, a launch of [{blocks}, {threads}] gives different points from one "
                f"of {list(shapes[0])}",
                look="compute the counter from the index of the element, not from the index of the thread",
            )
        x, y = found[0]
        _require_once(x, y)
        outside = np.concatenate([x, y])
        require(
            ((outside >= 0) & (outside < 1)).all(),
            f"with {many(n, 'point')}, a coordinate is {outside[(outside < 0) | (outside >= 1)][:1]}",
            look="random(key, …) gives numbers in [0, 1)",
        )
        other = launched(kernel, 2, 64, np.uint64(100), np.zeros(n), np.zeros(n), seeds=())[1]
        require(
            n == 0 or not np.array_equal(other, x),
            "a different key gives the same points",
            look="draw both coordinates with `random(key, …)`",
        )
        for name, values in (("x", x), ("y", y)):
            _require_drawn(name, values, int(key), f"with {many(n, 'point')}")
    start = np.full(int(np.random.default_rng(73).integers(4500, 6000)), float(LEFTOVER))
    _, x, y = launched(kernel, 1, 32, key, start, start.copy(), seeds=())
    _require_written(x, y, f"with {many(len(x), 'point')} and a launch of [1, 32]")
    _require_once(x, y)
    require_parallel(kernel, 2, 64, key, np.zeros(4000), np.zeros(4000), items=4000,
                     look="share the points among all threads with a grid-stride loop")


def _require_written(x, y, case):
    for name, values in (("x", x), ("y", y)):
        missing = np.flatnonzero(values == LEFTOVER)
        require(
            not len(missing),
            f"{case}, {name}[{missing[:1].sum()}] was never written",
            look="let the grid-stride loop run until no element is left",
        )


def _require_once(x, y):
    twice = x.size + y.size - np.unique(np.concatenate([x, y])).size
    require(
        not twice,
        f"with {many(x.size, 'point')}, {twice} of the {2 * x.size} numbers occur twice",
        look=("list the counters of points 0, 1 and 2 and of the last point, and check that each "
             "counter occurs only once"),
    )


def _require_drawn(name, values, key, case):
    """Require that the lecture's `random(key, …)` returns each value for some counter."""
    strange = np.flatnonzero(~_drawn(values, key))
    if not len(strange):
        return
    i = strange[0]
    neighbour = next((k for k in (key + 1, key - 1) if _drawn(values[[i]], k)[0]), None)
    require(
        neighbour is None,
        f"{case}, {name}[{i}] was drawn with the key {neighbour}, not with {key}, so a run with the "
        "other key uses the same numbers again",
        look="use one key for both coordinates, and different counters",
    )
    require(
        False,
        f"{case}, {name}[{i}] is {number(values[i], 4)}, which random({key}, …) gives for no counter near "
        "0, so it was not drawn for this point",
        look=("a value computed from `i` or from the other coordinate is not random. Draw "
             "each coordinate with `random(key, …)` and its own counter"),
    )


#: The multipliers of the lecture's `random` (SplitMix64), and its shifts.
_GOLDEN = 0x9E3779B97F4A7C15
_ROUNDS = ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, _GOLDEN))


def _drawn(values, key):
    """Return True for each value that `random(key, …)` returns for a counter below about 2**40.

    Every round of SplitMix64 can be inverted. A float64 loses the last 11 bits, so 2048 counters
    are possible. Of all 2**64 counters, only a fraction of 2**-12 is as close to a multiple of
    2**62.
    """
    bits = values * 2.0**53
    whole = bits == np.floor(bits)
    z = (np.where(whole, bits, 0).astype(np.uint64)[:, None] << np.uint64(11)) + np.arange(
        2048, dtype=np.uint64
    )
    for shift, factor in _ROUNDS:
        z ^= z >> np.uint64(shift)
        z ^= z >> np.uint64(2 * shift)
        if factor == _GOLDEN:
            z -= np.uint64(key % 2**64)
        z *= np.uint64(pow(factor, -1, 2**64))
    far = z % np.uint64(2**62)
    return whole & (np.minimum(far, np.uint64(2**62) - far) < 2**40).any(axis=1)


@exercise(
    "chi-square",
    hints=(
        "The idea: count the values in each bin with `np.bincount` of `values * bins`, rounded down to "
        "whole numbers. Include the empty bins, and put the counts into the formula.",
        "The shape: `counts = np.bincount((values * bins).astype(int), minlength=bins)`, "
        "`each = values.size / bins`, and then compute χ² and z.",
    ),
)
def chi_square(chi_square_z):
    """z is near zero for good numbers, large for bad ones, and negative if counts are too even."""
    random = np.random.default_rng(72)
    cases = {
        "uniform numbers": random.random(1009),
        "numbers that never reach the last bins": 0.7 * random.random(513),
        "perfectly even numbers": np.arange(640) / 640,
        "all the same": np.full(129, 0.3),
    }
    for name, values in cases.items():
        for bins in (16, 2, 33):
            given = values.copy()
            got = chi_square_z(given, bins)
            require(got is not None, "the function returns None", look=("end the function with `return z`"))
            counts = np.bincount((values * bins).astype(int), minlength=bins)
            each = values.size / bins
            chi = ((counts - each) ** 2 / each).sum()
            right = (chi - (bins - 1)) / math.sqrt(2 * (bins - 1))
            case = f"for {name} in {many(bins, 'bin')}"
            require(
                not np.isclose(got, chi) or np.isclose(got, right),
                f"{case}, {number(got)} is χ² itself",
                look="subtract the expected χ², then divide by its standard deviation",
            )
            require(
                not np.isclose(got, abs(right)) or right >= 0,
                f"{case}, z is {number(got)}, but it should be negative",
                look="keep the sign, because a negative z means that the counts are too even",
            )
            require(
                np.isclose(got, right),
                f"{case}, z {is_not(got, right)}",
                look="count every bin, including the empty ones, and use e = n/b",
            )
            _require_as_given(given, values, "values", case)


def _require_as_given(given, before, name, case):
    require(
        np.array_equal(given, before),
        f"{case}, the answer is right, but the input `{name}` has changed",
        look=f"`{name} *= …`, `{name}[…] = …` and `{name}.sort()` change the array, so make a new array",
    )
