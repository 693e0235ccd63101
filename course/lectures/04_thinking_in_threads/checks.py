"""Checks and hints of "Thinking in threads"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    launched,
    require_equal,
    require_parallel,
)
from virtualgpu.api import many


@exercise(
    "launch-shape",
    hints=(
        "The idea: `n / threads` blocks, but a part of a block is not to be had, so round up. The "
        "loose threads are those that are started beyond `n`.",
        "The shape: `//` rounds down. Add `threads - 1` to `n` before you divide, and only an "
        "exact multiple stays where it is.",
    ),
)
def launch_shape(shape):
    """Enough blocks for every element, and not one more."""
    for threads in (128, 1, 32, 96, 1024):
        for n in (*LENGTHS, 71_009, 1_000_000):
            blocks, loose = pair(shape(n, threads), "two numbers: blocks and loose threads")
            case = f"{many(n, 'element')} and blocks of {many(threads, 'thread')}"
            require(
                blocks == int(blocks) and loose == int(loose),
                f"for {case}, the answer is {many(blocks, 'block')} and {many(loose, 'loose thread')}: "
                "neither comes in parts",
                look="`/` or `//`?",
            )
            blocks, loose = int(blocks), int(loose)
            enough = -(-n // threads)
            require(
                blocks * threads >= n,
                f"for {case}, {many(blocks, 'block')} of {many(threads, 'thread')} "
                f"{'is' if blocks == 1 else 'are'} too few: "
                f"{many(n - blocks * threads, 'element')} without a thread",
                look="do you round up or down?",
            )
            require(
                blocks == enough,
                f"for {case}, {many(enough, 'block')} will do; you have {blocks}",
                look="what happens when n is an exact multiple of threads?",
            )
            require(
                loose == blocks * threads - n,
                f"for {case}, {many(blocks, 'block')} will do, of {many(blocks * threads, 'thread')} "
                f"in all: {blocks * threads - n} loose ones; you have {loose}",
                look="how many threads are started, and how many have an element?",
            )


@exercise(
    "bounds-guard",
    hints=(
        "The idea: which elements does thread `i` touch, and which of them has the highest index? "
        "That one must exist.",
        "The shape: `if i + 1 < values.size:` around the one line that subtracts.",
    ),
)
def bounds_guard(kernel):
    """Every gap is there, and no thread reached past the end."""
    random = np.random.default_rng(6)
    for n in LENGTHS:
        values = random.normal(0.0, 50.0, n)
        out = np.full(max(n - 1, 0), float(LEFTOVER))
        _, out = launched(kernel, n // 64 + 1, 64, values, out, reads=1)
        gaps = np.diff(values)
        require(
            not np.array_equal(out, -gaps) or not n > 1,
            f"with {many(n, 'value')}, every gap has the wrong sign",
            look="which of the two is subtracted from which?",
        )
        require_equal(out, gaps, f"with {many(n, 'value')}", "which is the last thread with a gap?")
    require_parallel(kernel, 16, 64, np.ones(1009), np.zeros(1008), items=1009,
                     look="each thread makes one gap")


@exercise(
    "grid-stride",
    hints=(
        "The idea: the loop of `partial_sums`, but it counts instead of adding. Count in a "
        "variable of the thread's own, and write it once, at the end.",
        "The shape: `mine = 0`, then `for i in range(me, values.size, cuda.gridsize(1)):` with an "
        "`if` inside, then `counts[me] = mine` after the loop.",
    ),
)
def grid_stride(kernel):
    """Each value was counted once, by the thread whose turn it was, whatever the launch."""
    random = np.random.default_rng(7)
    for blocks, threads in ((2, 64), (1, 32), (3, 33), (1, 1), (5, 128)):
        for n in LENGTHS:
            values = random.integers(-80, 80, n) / 2
            cut = random.integers(-60, 60) / 2
            counts = np.full(blocks * threads, LEFTOVER, np.int64)
            *_, counts = launched(kernel, blocks, threads, values, cut, counts, reads=1)
            above = (values > cut).sum()
            case = f"with {many(n, 'value')} and a launch of [{blocks}, {threads}]"
            added = np.flatnonzero((counts < 0) & (counts != LEFTOVER))
            require(
                not len(added),
                f"{case}, counts[{_first(added)}] is {counts[_first(added)]}",
                look="counts holds anything before the launch: do you add to it?",
            )
            untouched = np.flatnonzero(counts == LEFTOVER)
            require(
                not len(untouched),
                f"{case}, counts[{_first(untouched)}] was never written",
                look="every thread must write, also one that has no values to count",
            )
            require(
                counts.sum() != (values >= cut).sum() or counts.sum() == above,
                f"{case}, values equal to the cut are counted too",
                look="above is `>`",
            )
            require(
                counts.sum() == above,
                f"{case}, above the cut: {many(above, 'value')}; the threads counted "
                f"{counts.sum()}",
                look="where does a thread start, and how far does it step?",
            )
            # Which elements a share has is the learner's: every so-many-th, or neighbours.
            share = -(-n // (blocks * threads))
            require(
                counts.max() <= share,
                f"{case}, counts[{counts.argmax()}] is {counts.max()}; an even share has {share} "
                "values at most",
                look="which elements are this thread's?",
            )
    require_parallel(kernel, 2, 64, np.ones(1009), 0.5, np.zeros(128, np.int64), items=1009,
                     look="each thread counts in its own share, and writes its own count")


@exercise(
    "lost-update",
    hints=(
        "The idea: the thread that stores last wins, whatever the other did. To lose B's update, "
        "A must not know of it: A loads before B stores. And B's store must not be the last.",
        "The shape: A loads, B does all its steps, A goes on. For the totals: nothing lost, A's "
        "lost, B's lost.",
    ),
)
def lost_update(order, possible):
    """B stored, and A stored over it. That is all a race is."""
    require(
        isinstance(order, str) and set(order) <= {"A", "B"},
        f"order is {order!r}: write a string of the letters A and B",
    )
    for thread in "AB":
        require(
            order.count(thread) == 3,
            f"{thread} takes {many(order.count(thread), 'step')} in {order!r}",
            look="each thread takes three: load, add, store",
        )
    total = _interleaved(order)
    require(
        total == 11,
        f"{order!r} ends at {total}, not at 11",
        look="who stores last, and had that thread loaded before the other stored?",
    )
    require(
        isinstance(possible, set | frozenset | list | tuple),
        f"possible is {possible!r}: write a set of totals, such as {{1, 2}}",
    )
    every = {11, 12, 13}
    wrong, missing = set(possible) - every, every - set(possible)
    require(
        not wrong,
        f"no order ends at {', '.join(map(str, sorted(wrong, key=str)))}",
        look="whoever stores last has loaded 10, or what the other stored",
    )
    require(
        not missing,
        f"{len(missing)} of the possible totals {'is' if len(missing) == 1 else 'are'} missing",
        look="try one after the other, and each of the two updates lost",
    )


@exercise(
    "check-then-act",
    hints=(
        "The idea: looking and storing must be one step. There is an atomic that keeps the larger "
        "of what is there and what you bring.",
        "The shape: the bounds guard, and inside it `cuda.atomic.max(array, index, value)`.",
    ),
)
def check_then_act(kernel):
    """The hardest, in every order, and no race."""
    atomics = counted(kernel, 3, 64, np.ones(129), np.array([-math.inf])).global_atomics
    random = np.random.default_rng(8)
    for n in LENGTHS:
        for low, high in ((3.0, 500.0), (-90.0, -10.0)):
            values = random.uniform(low, high, n)
            best = np.array([-math.inf])
            _, best = launched(kernel, n // 64 + 1, 64, values, best, reads=1)
            expected = values.max(initial=-math.inf)
            require(
                best[0] == expected,
                f"with {many(n, 'value')} between {low:g} and {high:g}, best[0] is {best[0]:g}; the "
                f"largest is {expected:g}",
                look="does every value get its chance, and nothing that is not a value?",
            )
    require(
        atomics,
        "the answer is right, but no atomic was used: one thread does what all should do",
        look="each thread brings its own value",
    )
    require_parallel(kernel, 16, 64, np.ones(1009), np.array([-math.inf]), items=1009,
                     look="each thread brings its own value")


def _first(indices):
    return int(indices[0]) if len(indices) else 0


def _interleaved(order):
    """The total after A (adds 1) and B (adds 2) load, add and store in this order, from 10."""
    total, adds, seen, steps = 10, {"A": 1, "B": 2}, {}, {"A": 0, "B": 0}
    for thread in order:
        if steps[thread] == 0:
            seen[thread] = total
        elif steps[thread] == 2:
            total = seen[thread] + adds[thread]
        steps[thread] += 1
    return total
