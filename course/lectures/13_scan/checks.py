"""Checks and hints of "Scan"."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

import virtualgpu
from gpucourse.exercises.checks import exercise, require
from gpucourse.exercises.host_side import Left, leaving
from gpucourse.exercises.methods import without
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    launched,
    require_equal,
    require_parallel,
    watched,
)
from gpucourse.wording import many

BLOCK = 128


@exercise(
    "offsets",
    hints=(
        "The idea: an inclusive scan says where each list ends. A list begins where the one "
        "before it ends, and the first list begins at 0.",
        "The shape: `np.zeros(len(counts) + 1, np.int64)`, and `offsets[1:] = np.cumsum(counts)`.",
    ),
)
def offsets(function):
    """The offsets say where each list begins, and where the last one ends."""
    for counts in ([2, 0, 3, 1], [0, 0], [5], [], [1] * 40, [0, 4, 0], [300, 70_000, 5_000_000_000]):
        counts = np.array(counts, np.int64)
        found = np.asarray(function(counts.copy()))
        case = f"with the counts {counts.tolist()}"
        require(
            found.shape == (len(counts) + 1,),
            f"{case}, there are {found.size} offsets; {len(counts)} lists need {len(counts) + 1}",
            look="you need one offset for the start of each list, and one more at the end",
        )
        require(found.dtype == np.int64, f"{case}, the offsets are {found.dtype}, not int64",
                look="create the array with `np.zeros(…, np.int64)`")
        expected = [0, *np.cumsum(counts)]
        require(
            np.array_equal(found, expected),
            f"{case}, the offsets are {found.tolist()}; list {len(counts)}'s end must be "
            f"{counts.sum()}, and the first list begins at 0",
            look="does the start of a list include the list's own count? It should not",
        )


@exercise(
    "scan-blocks",
    hints=(
        "The idea: take `show_steps`, remove `seen` and add a guard. A thread without a value puts a 0 into "
        "its element of `tile` and takes part in every step, because it must reach every barrier.",
        "The shape: fill, barrier; `while distance < THREADS:` read `left`, barrier, add, "
        "barrier, double the distance. Then write `sums[i] = tile[t]` behind a guard; the block's last thread "
        "writes `totals`.",
    ),
)
def scan_blocks(kernel):
    """Every block's running sum and total are right, in every order that was tried."""
    random = np.random.default_rng(21)
    for n in (129, 128, 0, 1, 33, 127, 300):
        values = random.integers(-9, 100, n) * (1 if n % 2 else 2**32)  # some are beyond int32
        blocks = n // BLOCK + 1
        _, sums, totals = launched(kernel, blocks, BLOCK, values, np.full(n, LEFTOVER),
                                   np.full(blocks, LEFTOVER), reads=1)
        padded = np.zeros(blocks * BLOCK, np.int64)
        padded[:n] = values
        running = padded.reshape(blocks, BLOCK).cumsum(axis=1)
        require_equal(sums, running.ravel()[:n], f"with {many(n, 'value')}, of the sums",
                      "does each sum include the value itself, and only values of its own block?")
        require_equal(totals, running[:, -1], f"with {many(n, 'value')}, of the totals",
                      "which thread holds the sum of its whole block?")
    ones, places = np.ones(1024, np.int64), np.zeros(1024, np.int64)
    # Blelloch's tree, up and down, makes 54 accesses for a thread's value; the lecture's way 31.
    require_parallel(kernel, 8, BLOCK, ones, places, np.zeros(8, np.int64), items=1024,
                     look="let all threads take part in each of the seven steps", accesses=6)
    counters = counted(kernel, 8, BLOCK, ones, places, np.zeros(8, np.int64))
    require(
        counters.global_atomics == 0 and counters.global_loads <= 2 * 1024,
        f"the sums are right, but {many(counters.global_loads, 'number')} are loaded from global memory for 1,024 "
        "values" + (", with atomics" if counters.global_atomics else ""),
        look="let each thread load its value once, and do the steps in `tile`",
    )


@exercise(
    "scan",
    hints=(
        "The idea: `scan(d_totals)` is the sum of all blocks *up to and including* each one. A block needs "
        "the sum of those *before* it, which is the entry of its left neighbour.",
        "The shape: `if blocks > 1:` launch a kernel in which every thread of block b > 0 adds "
        "`totals[cuda.blockIdx.x - 1]` to its element, with `scan(d_totals)` as the totals.",
    ),
)
def scan(function):
    """The running sum is right at every length, in every order that was tried."""
    from numba import cuda

    random = np.random.default_rng(22)
    for n in (129, 128, 1, 2, 127, 257, 1009, 9 * BLOCK * BLOCK + 200):
        values = random.integers(-9, 100, n) * (1 if n % 2 else 2**32)  # some are beyond int32
        large = n > BLOCK * BLOCK
        try:
            with leaving() as left, _by_own_kernels(function):
                found, given = watched(lambda values=values: _scanned(function, values, left),
                                       () if large else (1, 2), what=f"your scan of {many(n, 'value')}")
        except RecursionError:
            require(False, f"with {many(n, 'value')}, your scan calls itself without end",
                    look=("with one block, the sums are complete: call scan(d_totals) only `if blocks "
                "> 1`"))
        require(
            found.shape == values.shape,
            f"with {many(n, 'value')}, the answer has the shape {found.shape}, not ({n:,},)",
            look="return `d_sums`, which has a sum for each value",
        )
        require_equal(found, values.cumsum(), f"with {many(n, 'value')}",
                      "which blocks' totals should be added to this element, and which have been added?")
        require(np.array_equal(given, values), f"with {many(n, 'value')}, the sums are right, but d_values has "
                                               "changed", look=("make a new array for the sums: `cuda.device_array(n, np.int64)`"))
        left.demand_none(f"with {many(n, 'value')}", "the totals should stay on the device, so scan them there: "
                         "`scan(d_totals)`")
    n = BLOCK * BLOCK  # so many totals as one thread should not add up alone
    with virtualgpu.profile() as profile:
        function(cuda.to_device(np.ones(n, np.int64)))
    counters = profile.counters
    require(
        counters.global_loads <= 4 * n and counters.busiest_accesses <= 64,
        f"the sums are right, but for {many(n, 'value')}, {many(counters.global_loads, 'number')} are loaded, "
        f"{many(counters.busiest_accesses, 'access', 'accesses')} by one thread",
        look="let each thread add one number, from the scan of the totals, to one element",
    )
    require(
        len(profile.launches) >= 3,
        f"the sums are right, but your scan makes only {many(len(profile.launches), 'launch', 'launches')}: what scans the totals?",
        look=("launch scan_blocks for the values, scan_blocks for the totals, and a kernel "
             "that adds"),
    )


def _scanned(function: Callable, values: np.ndarray, left: Left) -> list[np.ndarray]:
    from numba import cuda

    d_values = cuda.to_device(values)
    return [_on_host(function(d_values), left), _on_host(d_values, left)]


@contextmanager
def _by_own_kernels(function: Callable) -> Iterator[None]:
    """Fail the check if a library's scan is called."""
    cupy = sys.modules.get("cupy")
    scans = [(owner, name) for owner in ((cupy, cupy.ndarray, cupy.add) if cupy else ())
             for name in ("cumsum", "accumulate")]
    with without(function, *scans, message="the sums are right, but a library's scan computes them",
                 look=("launch scan_blocks for the values, call scan for the totals, and launch a "
                "kernel that adds")):
        yield


def _on_host(answer: object, left: Left) -> np.ndarray:
    nbytes = left.nbytes
    require(hasattr(answer, "copy_to_host"),
            f"the answer is {type(answer).__name__}, not an array on the device",
            look="return `d_sums` without copying it")
    found = answer.copy_to_host()
    left.nbytes = nbytes  # what the check takes does not count
    return found


@exercise(
    "compact",
    hints=(
        "The idea: `ends[i]` counts the kept values up to and including this one. So this value is number "
        "`ends[i]`, and numbers begin at 1.",
        "The shape: `if i < values.size and flags[i]:` and `kept[ends[i] - 1] = values[i]`.",
    ),
)
def compact(kernel):
    """Each kept value is at its place, in order, and no other element was written."""
    random = np.random.default_rng(23)
    for n in LENGTHS:
        for share in (0.3, 0.0, 1.0):
            values = random.integers(-9, 10, n).astype(np.float32)
            flags = (random.random(n) < share).astype(np.int64)
            room = np.full(n + 1, LEFTOVER, np.float32)
            *_, kept = launched(kernel, n // 64 + 1, 64, values, flags, flags.cumsum(), room,
                                seeds=(1,), reads=3)
            chosen = values[flags == 1]
            case = f"with {many(n, 'value')}, {len(chosen)} of them kept"
            require_equal(kept[:len(chosen)], chosen, case, "which thread writes to which element of `kept`?")
            beyond = np.flatnonzero(kept[len(chosen):] != LEFTOVER)
            require(not len(beyond), f"{case}, a value is written to element "
                                     f"{len(chosen) + int(beyond[0]) if len(beyond) else 0}",
                    look="which threads should write nothing, and is 0 the first index?")
    require_parallel(kernel, 16, 64, np.ones(1009, np.float32), np.ones(1009, np.int64),
                     np.arange(1, 1010), np.zeros(1009, np.float32), items=1009,
                     look="let each thread write its own value")
