"""Checks and hints of "Trees and barriers"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    launched,
    require_equal,
    require_parallel,
)
from gpucourse.wording import many


@exercise(
    "fold",
    hints=(
        "The idea: copy the kernel that folds a sum, and change its last line. Thread `i` compares its own value "
        "with the value `half` elements further on, if that is among the first `n`.",
        "The shape: `half = (n + 1) // 2`; if `i + half < n`, and if `values[i + half]` is closer "
        "to the target (`abs(… - target)`), then `values[i] = values[i + half]`.",
    ),
)
def fold(kernel):
    """The result is the closest value, for arrays of every length that was tried."""
    random = np.random.default_rng(9)
    for length in filter(None, LENGTHS):
        for winner in sorted({0, length // 2, length - 1}):
            # Values on both sides of the target, which may be negative.
            target = random.uniform(-99.0, 99.0)
            values = target + random.choice([-1.0, 1.0], length) * random.uniform(2.0, 80.0, length)
            values[winner] = target + random.choice([-1.0, 1.0]) * random.uniform(0.5, 1.0)
            # A value that is exactly the target lies beyond the end and must not be used.
            memory = np.append(values, target)
            n, level = length, 1
            while n > 1:
                half = (n + 1) // 2
                folded, *_ = launched(kernel, length // 64 + 1, 64, memory, n, target)
                case = f"level {level} of {many(length, 'value')} (n = {n}, half = {half}, target = {target:.4g})"
                _judge_level(folded, memory, n, target, case, kernel)
                memory, n, level = folded, half, level + 1
            require(
                memory[0] == values[winner],
                f"with {many(length, 'value')}, the closest one is element {winner}, but the result is a different one",
                look="let all of the first n values take part",
            )
    # Two more rounds than one pair needs, so that a single block of the sixteen cannot do all the
    # work.
    require_parallel(kernel, 16, 64, np.ones(1009), 1009, 91.1876, items=1009, rounds=2,
                     look="let each thread compare one pair")


def _judge_level(folded, before, n, target, case, kernel):
    half = (n + 1) // 2
    upper = np.append(before[half:n], np.full(2 * half - n, np.inf))
    lower = before[:half]
    expected = np.where(np.abs(upper - target) < np.abs(lower - target), upper, lower)
    require(
        n == len(before) - 1 or target not in folded[:half],
        f"{case}: a value from beyond the first n got in",
        look="the array may be longer than n, and only its first n elements count at this level",
    )
    require(
        target not in folded[:half],
        f"{case}: a value from beyond the first n got in",
        look="if n is odd, one value has no partner",
    )
    wrong = np.flatnonzero(np.abs(folded[:half] - target) != np.abs(expected - target))
    if len(wrong):
        i = wrong[0]
        pair = (f"{lower[i]:.4g} or {upper[i]:.4g}, whichever is closer to the target," if i + half < n
                else f"{lower[i]:.4g}, which has no partner,")
        # Targets far away on either side reverse the comparison if the kernel uses `target`.
        elsewhere, *_ = launched(kernel, len(before) // 64 + 1, 64, before, n, target + 1000.0, seeds=())
        opposite, *_ = launched(kernel, len(before) // 64 + 1, 64, before, n, target - 1000.0, seeds=())
        require(
            not np.array_equal(elsewhere[:half], opposite[:half]),
            f"{case}: element {i} should be {pair} but is {folded[i]:.4g}, and the answer does not depend "
            "on `target`",
            look="compare the distances from `target`, which you compute with abs",
        )
        require(
            False,
            f"{case}: element {i} should be {pair} but is {folded[i]:.4g}",
            look="round `half` up, and compute both distances from `target` with abs",
        )


@exercise(
    "block-max",
    hints=(
        "The idea: copy `block_sums`, and use `max` instead of `+`. A thread without a value must store "
        "something that is never the largest, even if all values are negative.",
        "The shape: store the value, or `-math.inf` if the thread has none, and call the barrier. Start with "
        "`n = cuda.blockDim.x` and fold while `n > 1`, with a barrier outside the `if` at the end of each "
        "level. Then let thread 0 write `maxima[cuda.blockIdx.x]`.",
    ),
)
def block_max(kernel):
    """The largest value of every block was found by a fold, and no race was found."""
    counters = counted(kernel, 2, 128, np.ones(256), np.zeros(2))
    random = np.random.default_rng(10)
    for threads, high in ((128, -10.0), (96, -10.0), (33, -10.0), (1, -10.0), (64, 90.0)):
        for n in LENGTHS:
            values = random.uniform(-90.0, high, n)
            blocks = n // threads + 1
            maxima = np.full(blocks, float(LEFTOVER))
            _, maxima = launched(kernel, blocks, threads, values, maxima, reads=1)
            padded = np.full(blocks * threads, -math.inf)
            padded[:n] = values
            expected = padded.reshape(blocks, threads).max(axis=1)
            signs = "all negative" if high < 0 else "of both signs"
            case = f"with {many(n, 'value')}, {signs}, in blocks of {threads}"
            require(
                not (maxima == LEFTOVER).any(),
                f"{case}, maxima[{np.argmax(maxima == LEFTOVER)}] was never written",
                look="let one thread of each block write the result after the fold",
            )
            empty = np.flatnonzero(np.isneginf(expected) & ~np.isneginf(maxima))
            zero = np.flatnonzero(maxima == 0.0)
            require(
                not len(zero),
                f"{case}, maxima[{_first(zero)}] is 0, which is none of the values",
                look="a thread without a value must store something smaller than any value, not 0",
            )
            require(
                not len(empty),
                f"{case}, block {_first(empty)} has no values, so its maximum must be minus infinity",
                look="let the threads without a value store `-math.inf` in shared memory",
            )
            require_equal(maxima, expected, case, "let every element take part in the fold")
    require(
        counters.atomic_hottest <= 128 // 32,
        "the answers are right, but there is no fold: all threads of a block queue at one element, which "
        f"takes {counters.atomic_hottest} updates one after the other",
        look=("use one element of `places` for each thread, and one level of the fold for "
             "each halving"),
    )
    require(
        counters.shared_stores,
        "the answers are right, but shared memory was not used",
        look="let each thread store its value in its element, and let the block fold the elements",
    )
    require(
        # With two blocks, a fold has more than the one barrier after filling, or shuffles within
        # warps.
        counters.barriers > 2 or counters.warp_instructions_by_class.get("warp", 0),
        "the answers are right, but there is no fold: one thread reads all the elements",
        look="fold in seven levels, which are enough for 128 elements if all threads take part",
    )
    require_parallel(kernel, 2, 128, np.ones(256), np.zeros(2), items=256, tree=True,
                     look=("let all threads take part in each level, and never one after the other"))


def _first(indices):
    return int(indices[0]) if len(indices) else 0
