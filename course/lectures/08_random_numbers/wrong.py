"""Wrong answers to the exercises of "Random numbers", with what the check must say of each."""

from __future__ import annotations

import math

import numpy as np

from wrong_answers import collection, swap

from numba import cuda, uint64  # isort: skip  (after the virtual GPU is active)

WRONG, wrong = collection("08_random_numbers")

# --- estimate -----------------------------------------------------------------------------------


@wrong("estimate", "the spread of single threads.*root of the number of threads")
def spread_of_one(hits, points):
    each = 4 * hits / points
    return each.mean(), each.std(ddof=1)


@wrong("estimate", "the error is .*ddof=1")
def by_the_formula(hits, points):
    pi = 4 * hits.mean() / points
    return pi, math.sqrt(math.pi * (4 - math.pi) / (hits.size * points))


@wrong("estimate", "the error is .*divided by the square root")
def divides_by_the_number(hits, points):
    each = 4 * hits / points
    return each.mean(), each.std(ddof=1) / hits.size


@wrong("estimate", "four times the share")
def forgets_the_four(hits, points):
    each = hits / points
    return each.mean(), each.std(ddof=1) / math.sqrt(hits.size)


@wrong("estimate", "the answer is right, but the input `hits` has changed.*make a new array")
def sorts_the_hits(hits, points):
    hits.sort()
    each = 4 * hits / points
    return each.mean(), each.std(ddof=1) / math.sqrt(hits.size)


# --- counter ------------------------------------------------------------------------------------


@cuda.jit(device=True)
def random(key, counter):
    z = uint64(key) + uint64(counter + 1) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return ((z ^ (z >> uint64(31))) >> uint64(11)) * (1 / 9007199254740992)


def points(counters):
    """A kernel whose point ``i`` of thread ``me`` has the two counters that the function gives."""
    two = cuda.jit(device=True)(counters)

    @cuda.jit
    def kernel(key, x, y):
        me = cuda.grid(1)
        turn = 0
        for i in range(me, x.size, cuda.gridsize(1)):
            a, b = two(i, me, turn)
            x[i] = random(key, a)
            y[i] = random(key, b)
            turn += 2

    return kernel


wrong("counter", "numbers occur twice", "one counter for both")(points(lambda i, me, turn: (i, i)))
wrong("counter", "numbers occur twice", "neighbours share")(points(lambda i, me, turn: (i, i + 1)))
wrong("counter", "of the element, not from the index of the thread", "by thread and turn")(
    points(lambda i, me, turn: (1000 * me + turn, 1000 * me + turn + 1))
)
wrong("counter", "occur twice|of the thread", "by turn alone")(
    points(lambda i, me, turn: (turn, turn + 1))
)


@wrong("counter", "your busiest thread makes .*, and .* are enough")
@cuda.jit
def one_thread_draws_all(key, x, y):
    if cuda.grid(1) == 0:
        for i in range(x.size):
            x[i] = random(key, 2 * i)
            y[i] = random(key, 2 * i + 1)


@wrong("counter", "your busiest thread makes .*, and .* are enough")
@cuda.jit
def every_fourth_thread_draws(key, x, y):
    if cuda.threadIdx.x % 4 == 0:
        workers = (cuda.blockDim.x + 3) // 4
        me = cuda.blockIdx.x * workers + cuda.threadIdx.x // 4
        for i in range(me, x.size, workers * cuda.gridDim.x):
            x[i] = random(key, 2 * i)
            y[i] = random(key, 2 * i + 1)


wrong("counter", "a different key gives the same points", "ignores the key")(
    swap("key, 2 * i)\n        y[i] = random(key", "1, 2 * i)\n        y[i] = random(1"))
wrong("counter", "was never written", "one point each")(
    swap("for i in range(cuda.grid(1), x.size, cuda.gridsize(1))", "i = cuda.grid(1)\n    if i < x.size"))


def second(draw):
    """A kernel whose x is right, and whose y is what ``draw(key, i, n, x)`` gives."""
    drawn = cuda.jit(device=True)(draw)

    @cuda.jit
    def kernel(key, x, y):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            x[i] = random(key, 2 * i)
            y[i] = drawn(key, i, x.size, x[i])

    return kernel


wrong("counter", r"y\[0\] is .* no counter.*not random", "y in even steps")(
    second(lambda key, i, n, x: (i + 0.5) / n)
)
wrong("counter", r"y\[0\] is .* no counter.*the other coordinate", "y out of x")(
    second(lambda key, i, n, x: 7919 * x % 1)
)
wrong("counter", r"y\[0\] was drawn with the key 100.*uses the same numbers", "the next key for y")(
    second(lambda key, i, n, x: random(key + 1, i))
)
#: Right answers of other kinds, for test_lecture_08.py.
OTHER_COUNTERS = {
    "halves": second(lambda key, i, n, x: random(key, 2 * n + i)),
    "far apart": second(lambda key, i, n, x: random(key, 2**32 + i)),
    "from the top": second(lambda key, i, n, x: random(key, -1 - i)),
}

wrong("counter", "points, .* of the .* numbers occur twice.*and of the last", "4,096 counters in all")(
    swap("random(key, 2 * i)\n        y[i] = random(key, 2 * i + 1)",
         "random(key, 2 * i % 4096)\n        y[i] = random(key, (2 * i + 1) % 4096)"))
wrong("counter", r"\[1, 32\], x\[2048\] was never written", "64 points each at most")(
    swap("range(cuda.grid(1), x.size, cuda.gridsize(1))",
         "range(cuda.grid(1), min(x.size, cuda.grid(1) + 64 * cuda.gridsize(1)), cuda.gridsize(1))"))

# --- chi-square ---------------------------------------------------------------------------------


def chi_square(values, bins, minlength=True):
    counts = np.bincount((values * bins).astype(int), minlength=bins if minlength else 0)
    each = values.size / bins
    return ((counts - each) ** 2 / each).sum()


@wrong("chi-square", "is χ² itself")
def not_scaled(values, bins):
    return chi_square(values, bins)


@wrong("chi-square", "z is .*, not .*empty ones")
def empty_bins_forgotten(values, bins):
    return (chi_square(values, bins, False) - (bins - 1)) / math.sqrt(2 * (bins - 1))


@wrong("chi-square", "it should be negative.*too even")
def without_sign(values, bins):
    return abs(chi_square(values, bins) - (bins - 1)) / math.sqrt(2 * (bins - 1))


@wrong("chi-square", "z is .*, not")
def all_bins_free(values, bins):
    return (chi_square(values, bins) - bins) / math.sqrt(2 * bins)


@wrong("chi-square", "the answer is right, but the input `values` has changed.*make a new array")
def scales_the_values(values, bins):
    values *= bins
    each = values.size / bins
    chi = ((np.bincount(values.astype(int), minlength=bins) - each) ** 2 / each).sum()
    return (chi - (bins - 1)) / math.sqrt(2 * (bins - 1))
