"""Right answers to the exercises of "Random numbers in parallel" in other styles than the lecture's."""

from __future__ import annotations

import math
import statistics

import numpy as np

from wrong_answers import of_the_lecture, other_styles

from numba import cuda, uint64  # isort: skip  (after the virtual GPU is active)

random = of_the_lecture("08_random_numbers", "random")

RIGHT, right = other_styles("08_random_numbers")


@right("estimate")
def by_statistics(hits, points):
    each = [4 * int(one) / points for one in hits]
    return statistics.fmean(each), statistics.stdev(each) / len(each) ** 0.5


@right("estimate")
def by_the_variance(hits, points):
    n = len(hits)
    pi = 4 * hits.sum() / (n * points)
    squares = ((4 * hits / points - pi) ** 2).sum()
    return pi, math.sqrt(squares / (n - 1) / n)


@right("counter")
@cuda.jit
def all_x_first(key, x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] = random(key, uint64(i))
        y[i] = random(key, uint64(i + x.size))


@right("counter")
@cuda.jit
def by_while(key, x, y):
    i = cuda.grid(1)
    while i < len(x):
        y[i] = random(key, i * 2)
        x[i] = random(key, i * 2 + 1)
        i += cuda.gridsize(1)


@right("chi-square")
def by_histogram(values, bins):
    counts, _ = np.histogram(values, bins, (0, 1))
    expected = len(values) / bins
    return (np.sum((counts - expected) ** 2) / expected - bins + 1) / np.sqrt(2 * bins - 2)


@right("chi-square")
def by_a_loop(values, bins):
    counts = [0] * bins
    for value in values.ravel():
        counts[int(value * bins)] += 1
    each = values.size / bins
    chi_square = sum((count - each) ** 2 / each for count in counts)
    return (chi_square - (bins - 1)) / (2 * (bins - 1)) ** 0.5
