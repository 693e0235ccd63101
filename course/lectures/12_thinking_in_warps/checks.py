"""Checks and hints of "Thinking in warps"."""

from __future__ import annotations

import math

import numpy as np

from gpucourse.exercises.checks import exercise, pair, require
from gpucourse.exercises.trials import (
    LEFTOVER,
    LENGTHS,
    counted,
    held,
    launched,
    require_equal,
    require_shared,
)
from gpucourse.wording import many


@exercise(
    "lane-turns",
    hints=(
        "The idea: a warp makes as many iterations as its busiest lane, and pays for 32 lanes in each of "
        "them. A last warp with fewer threads also pays for 32 lanes.",
        "The shape: for each slice `work[start:start + 32]`, add `32 * slice.max()` to `paid`. "
        "`useful` is the sum of `work`.",
    ),
)
def lane_turns(count):
    """Both counts are right. Their difference is the cost of divergence."""
    random = np.random.default_rng(11)
    for n in LENGTHS:
        work = random.poisson(1.4, n)
        useful, paid = pair(count(work.copy()), "two numbers: useful and paid")
        padded = np.append(work, np.zeros(-n % 32, work.dtype)).reshape(-1, 32)
        expected = int(32 * padded.max(axis=1, initial=0).sum())
        case = f"with {many(n, 'thread')}"
        require(
            useful == work.sum(),
            f"{case} that need {many(work.sum(), 'iteration')} in total, useful is {useful}",
            look="count as useful the iterations in which a thread works",
        )
        require(
            paid == expected or paid != _without_padding(work),
            f"{case}, the last warp has {n % 32} threads, but pays for 32 lanes",
            look="count 32 lanes for this warp, because the hardware has no smaller warps",
        )
        require(
            paid == expected,
            f"{case} in {many(len(padded), 'warp')}, {many(expected, 'iteration')} are paid for, but your answer is {paid}",
            look="a warp makes as many iterations as its busiest lane, and pays for 32 lanes in each",
        )


@exercise(
    "turn",
    hints=(
        "The idea: thread (x, y) reads one element into the tile and, after a barrier, writes "
        "a *different* one. In both tables the index that changes with `x` must be the last one, so "
        "write the tile as `[y, x]` and read it as `[x, y]`.",
        "The shape: `tile = cuda.shared.array((32, 33), float32)`. With a guard, `tile[y, x] = "
        "table[first_i + y, first_j + x]`. Then a barrier and, with a second guard, "
        "`turned[first_j + y, first_i + x] = tile[x, y]`.",
    ),
)
def turn(kernel):
    """Tables of every size are transposed with coalesced accesses and without bank conflicts."""
    random = np.random.default_rng(12)
    for rows, columns in ((40, 64), (32, 32), (1, 1), (31, 33), (33, 31), (1, 65), (65, 1)):
        table = random.uniform(1.0, 99.0, (rows, columns)).astype(np.float32)
        start = np.full((columns, rows), LEFTOVER, np.float32)
        blocks = (columns + 31) // 32, (rows + 31) // 32
        _, turned = launched(kernel, blocks, (32, 32), table, start, seeds=(1,), reads=1,
                             twice="the element that is written needs its own guard, which tests whether its row and its "
                                   "column exist in `turned`")
        case = f"with a table of {rows} × {columns}"
        wrong = np.argwhere(turned != table.T)
        if len(wrong):
            j, i = (int(k) for k in wrong[0])
            what = held(turned[j, i], table[i, j], digits=4)
            require(
                False,
                f"{case}, turned[{j}, {i}] {what}, but it should be table[{i}, {j}], {table[i, j]:.4g}",
                look="work out which element this thread reads and which it writes, and guard each "
                "of the two accesses separately",
            )
    # Whole tiles in random numbers, so that a kernel for fixed numbers of tiles fails.
    down, across = np.random.default_rng().permutation([2, 3, 4, 5]).tolist()[:2]
    ones = np.ones((32 * down, 32 * across), np.float32)
    counts = counted(kernel, (across, down), (32, 32), ones, np.ascontiguousarray(ones.T))
    require_shared(counts, (across, down), (32, 32), ones.size, "let each block transpose one tile", rounds=0)
    for what, moved, enough in (
        ("reads", counts.global_load_sectors, counts.global_load_ideal_sectors),
        ("writes", counts.global_store_sectors, counts.global_store_ideal_sectors),
    ):
        require(
            moved <= enough,
            f"every element is right, but the {what} move {many(moved, 'sector')} where {enough:,} are "
            "enough",
            look="make the last index the one that changes with x, in the load and in the store",
        )
    conflicts = counts.shared_load_conflicts + counts.shared_store_conflicts
    require(
        not conflicts,
        f"the result is right and the accesses are coalesced, but shared memory takes {conflicts:,} "
        "wavefronts more than it has requests",
        look="work out how far apart in the tile the words of neighbouring lanes are, modulo 32",
    )


@exercise(
    "warp-max",
    hints=(
        "The idea: every lane must shuffle, so guard the value: a thread beyond the end contributes minus "
        "infinity. Then fold with `max` instead of `+`.",
        "The shape: `mine = values[i] if i < values.size else -math.inf`; in a loop over 16, 8, "
        "4, 2, 1, `mine = max(mine, cuda.shfl_down_sync(ALL, mine, k))`; then lane 0 writes "
        "`maxima[i // 32]`.",
    ),
)
def warp_max(kernel):
    """The largest value of every warp is right for every length, and only shuffles were used."""
    random = np.random.default_rng(13)
    for threads, high, scale in (
        (64, -10.0, 1.0), (32, -10.0, 1.0), (128, -10.0, 1.0), (64, -10.0, 1e306), (64, 90.0, 1.0),
    ):
        for n in LENGTHS:
            # On the virtual GPU, a lane gets about -5e303 from one that does not take part. This is
            # smaller than -90, and larger than -90e306.
            values = random.uniform(-90.0, high, n) * scale
            blocks = n // threads + 1
            padded = np.full(blocks * threads, -math.inf)
            padded[:n] = values
            expected = padded.reshape(-1, 32).max(axis=1)
            maxima = np.full(expected.size, float(LEFTOVER))
            _, maxima = launched(kernel, blocks, threads, values, maxima, reads=1)
            signs = "all negative" if high < 0 else "of both signs"
            case = f"with {many(n, 'value')}, {signs}, in blocks of {threads}"
            require(
                not (maxima == LEFTOVER).any(),
                f"{case}, maxima[{np.argmax(maxima == LEFTOVER)}] was never written",
                look=("let lane 0 of each warp write at the warp's index, which is counted through the whole "
                "grid")
                if 32 * np.argmax(maxima == LEFTOVER) < n
                else ("a warp without values must also write minus infinity, so guard "
                "only the load of the value"),
            )
            absurd = ~np.isin(maxima, np.append(values, -math.inf))
            require(
                not absurd.any(),
                f"{case}, maxima[{np.argmax(absurd)}] is {maxima[np.argmax(absurd)]:g}, which is "
                "none of the values",
                look="threads beyond the end must contribute minus infinity, not 0"
                if maxima[np.argmax(absurd)] == 0.0
                else "if the shuffle is inside an `if`, some lanes do not take part in it",
            )
            require_equal(maxima, expected, case, "let every lane shuffle, and every value take part")
    counts = counted(kernel, 2, 64, np.ones(128), np.zeros(4))
    require(
        not counts.shared_loads and not counts.global_atomics and not counts.shared_stores,
        "the maxima are right, but they were not found with shuffles only",
        look=("use neither shared memory nor atomics, because the lanes can exchange their values "
             "with shuffles"),
    )
    require(
        counts.global_loads <= 128,
        f"the maxima are right, but 128 values were loaded {many(counts.global_loads, 'time')}",
        look="let each lane load its own value, and get the other values with shuffles",
    )
    require_shared(counts, (2,), (64,), 128, "use five rounds, which are enough for 32 lanes", tree=True)
    require_shared(counts, (2,), (64,), 128, ("let each lane load its own value, and get the other values with shuffles"),
                   rounds=1)


@exercise(
    "occupancy",
    hints=(
        "The idea: compute for each limit how many *blocks* it allows, and round down. The smallest of these "
        "numbers is the answer. For the registers, find out how many warps fit into one part, multiply by four "
        "parts, and compute how many whole blocks these warps make.",
        "The shape: `of_a_warp = (32 * registers + 255) // 256 * 256`, then "
        "`4 * (16_384 // of_a_warp) // warps` blocks by registers, `233_472 // (shared + 1024)` "
        "by shared memory, and 32 at most. Multiply the `min` of all limits by `warps`.",
    ),
)
def occupancy(resident_warps):
    """Every limit is respected, and every block that fits is counted."""
    for threads, registers, shared, limit in (
        (1024, 32, 0, "a multiprocessor holds at most 64 warps"),
        (192, 32, 0, "a block fits completely or not at all"),
        (32, 32, 0, "a multiprocessor holds at most 32 blocks"),
        (256, 64, 0, "the registers of the four parts are a limit"),
        (64, 33, 0, "32 × 33 registers are rounded up to a multiple of 256"),
        (128, 40, 0, "compute how many warps fit into one part"),
        (96, 40, 0, "compute how many warps fit into one part. A block fits completely or not at all"),
        (128, 255, 0, "the registers of the four parts are a limit"),
        (128, 32, 49_152, "the shared memory of all blocks together is a limit"),
        (128, 32, 14_592, "each block takes 1,024 bytes of shared memory more than its kernel requests"),
        (1024, 128, 0, "a block that does not fit does not run at all"),
        (512, 128, 102_400, "use the smallest of the limits"),
        *((32 * int(warps), int(registers), 128 * int(lines), "use the smallest of the limits")
          for warps, registers, lines in np.random.default_rng().integers(
              (1, 16, 0), (33, 256, 700), (20, 3))),
    ):
        answer = resident_warps(threads, registers, shared)
        expected = _resident_warps(threads, registers, shared)
        case = f"blocks of {many(threads, 'thread')} with {registers} registers each"
        case += f" and {many(shared, 'byte')} of shared memory" if shared else ""
        require(
            answer == int(answer),
            f"for {case}, the answer is {answer}, but a part of a warp does not exist",
            look="divide with `//` instead of `/`",
        )
        require(
            answer == expected,
            f"for {case}, {many(expected, 'warp')} fit, but your answer is {int(answer)}",
            look=("each warp belongs to one of the four parts, so compute how many warps fit into one "
                "part, and multiply that by four")
            if threads == 64 and answer == 65_536 // (-(-32 * registers // 256) * 256) // 2 * 2
            else limit,
        )


@exercise(
    "tiled-matmul",
    hints=(
        "The idea: keep the loop and its two barriers for every thread. Guard each of the two loads "
        "separately, because they reach the edge of their matrix in different tiles, and also guard the store.",
        "The shape: `tile_a[y, x] = a[row, start + x] if row < a.shape[0] and start + x < "
        "a.shape[1] else 0`, and the same for `tile_b` with `start + y` and `column`. Keep the sum, "
        "and put an `if` around the store.",
    ),
)
def tiled_matmul(kernel):
    """The product is right for every shape that was tried, and no race was found."""
    random = np.random.default_rng(55)
    for rows, inner, columns in ((17, 33, 31), (16, 16, 16), (1, 1, 1), (5, 40, 20), (40, 3, 7)):
        # Small multiples of one half, whose products are exact in any order.
        a = random.integers(-9, 10, (rows, inner)).astype(np.float32) / 2
        b = random.integers(-9, 10, (inner, columns)).astype(np.float32) / 2
        start = np.full((rows, columns), LEFTOVER, np.float32)
        blocks = ((columns + 15) // 16, (rows + 15) // 16)
        *_, product = launched(kernel, blocks, (16, 16), a, b, start, seeds=(3,), reads=2)
        case = f"({rows} × {inner}) times ({inner} × {columns})"
        require_equal(product.ravel(), (a @ b).ravel(), case, "the tiles must hold zeros where they extend beyond the matrices")
    a = np.ones((48, 48), np.float32)
    counts = counted(kernel, (3, 3), (16, 16), a, a, a)
    require(
        counts.shared_loads and counts.global_loads <= 3 * a.size * 2,
        f"the product is right, but {many(counts.global_loads, 'number')} were loaded from global "
        f"memory where {3 * a.size * 2:,} are enough",
        look="let each thread load one number of each tile, so that the block shares them",
    )
    # The lecture's solution makes 115 accesses per element, and a sum kept in `product` adds 96.
    require_shared(counts, (3, 3), (16, 16), a.size,
                   "let each thread load its number of each tile, and compute one element", rounds=0,
                   accesses=240)


def _resident_warps(threads, registers, shared):
    """Return the warps that fit on a multiprocessor of compute capability 9.0.

    Blocks are added one by one until one does not fit.
    """
    block = threads // 32
    blocks = 0
    per_part = 16_384 // (-(-32 * registers // 256) * 256)
    while (
        (blocks + 1) * block <= min(64, 4 * per_part)
        and blocks + 1 <= 32
        and (blocks + 1) * (shared + 1024) <= 233_472
    ):
        blocks += 1
    return blocks * block


def _without_padding(work):
    """Return the number of paid iterations if a last, short warp paid only for its own lanes."""
    warps = [work[start : start + 32] for start in range(0, len(work), 32)]
    return sum(len(warp) * int(warp.max()) for warp in warps)
