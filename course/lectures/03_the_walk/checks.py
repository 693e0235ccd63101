"""Checks and hints of "The walk: one formula in four tools"."""

from __future__ import annotations

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.cpp_trials import counted_cpp, launched_cpp
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    launched,
    require_close,
    require_parallel,
    require_shared,
)
from gpucourse.wording import many


@exercise(
    "entered",
    hints=(
        "The idea: copy the kernel `wall` from above, and change one sign in its formula.",
        "The shape: write `int i = blockIdx.x * blockDim.x + threadIdx.x;`, then `if (i < n)`, and then "
        "`time[i] = (-b[i] - sqrt(…)) / (2 * a[i]);`.",
    ),
)
def entered(source):
    """Each thread computed the time of its own particle, for all lengths that were tried."""
    random = np.random.default_rng(71)
    for k, n in enumerate((*LENGTHS, int(random.integers(1025, 3000)))):
        a, b, c = _lines(random, n)
        threads = (64, 96, 256)[k % 3]
        *_, time, _ = launched_cpp(
            source, "entered", n // threads + 1, threads, a, b, c,
            np.full(n, float(LEFTOVER)), np.int32(n), reads=3,
        )  # fmt: skip
        root = np.sqrt(b * b - 4 * a * c)
        require(
            n == 0 or not np.allclose(time, (-b + root) / (2 * a)),
            f"with {many(n, 'particle')}, the kernel computes the times at the wall",
            look="the second solution has a minus sign before the root",
        )
        require_close(time, (-b - root) / (2 * a), f"with {many(n, 'particle')}",
                      "compare your formula and its parentheses with the kernel `wall`", rtol=1e-9, atol=1e-9, place="time[{}]",
                      rounded="is an intermediate result a `float`? A `float` has seven digits, and a "
                      "`double` has sixteen")
    a, b, c = _lines(random, 129)
    work = counted_cpp(source, "entered", 3, 64, a, b, c, np.zeros(129), np.int32(129))
    require(
        work.global_stores <= 129,
        f"the times are right, but 129 of them were stored {many(work.global_stores, 'time')}",
        look="is there a loop over all particles, in every thread?",
    )
    require_shared(work, (3,), (64,), 129, "let each thread compute one time", rounds=0, accesses=12)


@exercise(
    "wall-or-miss",
    hints=(
        "The idea: compute the number under the root first, and test its sign before you take the "
        "root.",
        "The shape: inside the guard, write `under_root = b[i] ** 2 - 4 * a[i] * c[i]`, then "
        "`if under_root < 0: time[i] = -1.0`, and the formula after `else:`.",
    ),
)
def wall_or_miss(kernel):
    """The times are right for hits, for misses and for lines that just touch the pipe."""
    random = np.random.default_rng(72)
    for k, n in enumerate(LENGTHS):
        a, b, c = _lines(random, n, outside=True)
        # Every fifth line touches the pipe: b² = 4ac, exactly.
        a[::5], b[::5], c[::5] = 4.0, -2.0 * random.integers(1, 9, a[::5].size), 0.0
        c[::5] = b[::5] ** 2 / 16
        threads = (64, 96, 256)[k % 3]
        *_, time = launched(kernel, n // threads + 1, threads, a, b, c,
                            np.full(n, float(LEFTOVER)), reads=3)
        under_root = b * b - 4 * a * c
        hits = under_root >= 0
        for i in np.flatnonzero(np.isnan(time)):
            require(
                False,
                f"with {many(n, 'particle')}, time[{i}] is nan, because the number under its root is {under_root[i]:.3g}",
                look="do not take the root of a negative number. Compare the number with 0 before `math.sqrt`",
            )
        for i in np.flatnonzero(hits & (time == -1)):
            require(
                False,
                f"with {many(n, 'particle')}, time[{i}] is -1, but the line meets the pipe, because the number "
                f"under its root is {under_root[i]:.3g}",
                look="0 has a root, so only a negative number under the root means a miss",
            )
        expected = np.full(n, -1.0)
        expected[hits] = (-b[hits] + np.sqrt(under_root[hits])) / (2 * a[hits])
        require_close(time, expected, f"with {many(n, 'particle')}",
                      "store the result of the formula for a hit, and -1.0 for a miss", rtol=1e-9, atol=1e-9, place="time[{}]")
    a, b, c = _lines(random, 129, outside=True)
    work = counted(kernel, 3, 64, a, b, c, np.zeros(129))
    require(
        work.global_stores <= 2 * 129,
        f"the times are right, but 129 of them were stored {many(work.global_stores, 'time')}",
        look="is there a loop over all particles, in every thread?",
    )
    a, b, c = _lines(random, 1009, outside=True)
    require_parallel(kernel, 16, 64, a, b, c, np.zeros(1009), items=1009, rounds=2, accesses=12,
                     look="let each thread compute one time")


def _lines(random, n, outside=False):
    """Return a, b and c of n straight lines that start near the middle of a pipe, or around it."""
    x, y = random.normal(0, 1.5 if outside else 0.05, (2, n))
    vx, vy = random.uniform(0.1, 0.3, (2, n)) * random.choice([-1, 1], (2, n))
    return vx**2 + vy**2, 2 * (x * vx + y * vy), x**2 + y**2 - random.uniform(0.8, 2) ** 2
